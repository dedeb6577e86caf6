"""Statements of record: the second run, the hash, attacks, and the pages."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import reagent
from exchange.test_attributions import made, tiny
from reagent.api.repeat import repeat
from reagent.cli import main
from reagent.errors import FileError, InputError
from reagent.explanation import Explanation
from reagent.models.huggingface import HuggingFaceModel
from reagent.schemas import read_schema
from reagent.statement import Record
from reagent.testing import ScriptedModel
from tiny import network_of, tokenizer_of

PROMPT = "My aunt moved to Japan to teach music. She rents a flat in the capital,"
FAST: dict[str, Any] = {"probes": 8, "preset": "leave-one-out", "replacer": "random"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    network_of("llama").save_pretrained(path)
    tokenizer_of("llama").save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> HuggingFaceModel:
    loaded = reagent.load_model(str(folder))
    assert isinstance(loaded, HuggingFaceModel)
    return loaded


@pytest.fixture(scope="module")
def why(model: HuggingFaceModel) -> Explanation:
    return reagent.explain(model, PROMPT, max_new_tokens=2, seed=7, **FAST)


@pytest.fixture(scope="module")
def record(model: HuggingFaceModel, why: Explanation) -> Record:
    return reagent.record(model, why)


def test_it_says_what_is_claimed_and_of_what(record: Record, why: Explanation, folder: Path) -> None:
    assert repr(why.completion) in record.contract.explained
    assert f"{len(why.input)} units of the prompt (token)" in record.contract.features
    assert "replaced" in record.contract.intervention
    assert {file.name for file in record.files} >= {"model.safetensors", "config.json", "tokenizer.json"}
    (weights,) = (file for file in record.files if file.name == "model.safetensors")
    assert weights.size == (folder / "model.safetensors").stat().st_size
    assert [unit.score for unit in record.units] == sorted((unit.score for unit in record.units), reverse=True)
    jsonschema.validate(record.to_dict(), read_schema("record"))


def test_the_second_run_has_the_same_options_and_another_seed(
    model: HuggingFaceModel, why: Explanation, record: Record
) -> None:
    assert record.stability is not None
    assert (record.seed, record.stability.seed) == (7, 8)
    again = repeat(model, why, 7)
    assert again.scores == why.scores
    assert (again.method, again.replacer, again.unit) == (why.method, why.replacer, why.unit)
    assert record.units[0].second_score == pytest.approx(
        repeat(model, why, 8).whole()[0].scores[why.top(1)[0].position], abs=1e-6
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"units": "word", "method": "occlusion"},
        {"prompt_spans": [(3, 7), (17, 22)], "method": "shapley"},
        {"target": " Tokyo and Osaka", "target_span": "Osaka", "method": "occlusion"},
        {"target": " Tokyo", "contrast": "Osaka", "method": "occlusion"},
        {"method": "integrated_gradients"},
        {"attribute_target": True, "method": "lime", "samples": 16},
    ],
)
def test_any_question_can_be_asked_again(model: HuggingFaceModel, asked: dict[str, Any]) -> None:
    given = {"max_new_tokens": 2} | asked if "target" not in asked else asked
    why = reagent.explain(model, PROMPT, **given)
    again = repeat(model, why, 0)
    assert again.target == why.target
    assert [row == pytest.approx(one, abs=1e-5) for row, one in zip(again.scores, why.scores, strict=True)]


def test_the_counterfactual_is_the_answer_without_the_best_unit() -> None:
    echo = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == [[0, 1, 2]]))
    made_of = reagent.record(echo, reagent.explain(echo, "c a b", max_new_tokens=1, method="occlusion"))
    assert made_of.counterfactual is not None
    assert (made_of.completion, made_of.counterfactual.removed, made_of.counterfactual.answer) == (" c", ("c",), " a")
    assert made_of.files == ()
    assert any("no hash" in line for line in made_of.limits)


def test_an_explanation_of_another_tool_is_not_run_again() -> None:
    imported = replace(made().explain(tiny()), method={"id": "shap", "preset": None, "tool": "shap"})
    record = reagent.record(tiny(), imported)
    assert record.stability is None
    assert any("was made by shap" in line for line in record.limits)


def test_the_hash_shows_every_change(record: Record, why: Explanation, tmp_path: Path) -> None:
    saved = Record.load(record.save(tmp_path / "r.json"))
    saved.verify(why)
    assert saved == record
    with pytest.raises(InputError, match="about another explanation"):
        saved.verify(replace(why, seed=8))
    data = record.to_dict()
    for name, value in (("seed", 8), ("limits", []), ("completion", " Kyoto"), ("sha256", "0" * 64)):
        with pytest.raises(InputError, match="was changed after it was written"):
            Record.from_dict(data | {name: value}).verify()
    with pytest.raises(FileError, match="'signature' is not a known field"):
        Record.from_dict(data | {"signature": "me"})


def test_the_pages_show_the_same(record: Record, tmp_path: Path) -> None:
    markdown, page = record.to_markdown(tmp_path / "r.md"), record.to_html(tmp_path / "r.html")
    for text in (record.sha256, record.explanation_sha256, record.files[0].sha256, "Held fixed", "Counterfactual"):
        assert text in markdown
        assert text in page
    assert "<script" not in page
    hostile = replace(record, prompt="</td><script>alert(1)</script> | [x](y) \x1b[31m", sha256="")
    assert "<script" not in hostile.to_html()
    assert "\x1b" not in hostile.to_markdown() + hostile.to_html()
    assert "\\[x\\](y)" in hostile.to_markdown()


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return int(stop.value.code or 0)


def test_on_the_command_line(why: Explanation, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    why.save(tmp_path / "why.json")
    out = {name: tmp_path / f"r.{name}" for name in ("json", "html", "markdown")}
    options = [word for name, path in out.items() for word in (f"--{name}", path)]
    assert run("record", tmp_path / "why.json", *options) == 0
    assert "# Statement of record" in capsys.readouterr().out
    assert all(path.is_file() for path in out.values())
    assert run("record", out["json"], "--verify", "--explanation", tmp_path / "why.json") == 0
    assert "is as it was written" in capsys.readouterr().out
    data = json.loads(out["json"].read_text())
    data["units"][0]["score"] = 0.99
    out["json"].write_text(json.dumps(data))
    for words in ((out["json"], "--verify"), (tmp_path / "why.json", "--verify"), (out["json"],)):
        assert run("record", *words) == 2
        errors = capsys.readouterr().err.strip().splitlines()
        assert len(errors) == 1
        assert errors[0].startswith("error: ")
