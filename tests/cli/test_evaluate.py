"""`reagent evaluate`, by itself: the command as app.py registers it."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import reagent
from reagent.cli.evaluate import evaluate
from reagent.errors import CapabilityError, FileError, InputError
from reagent.models.huggingface import HuggingFaceModel

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(evaluate)
QUICK = ("--draws", 2, "--probes", 8, "--replacer", "random")


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def saved(tiny_model: HuggingFaceModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    why = reagent.explain(
        tiny_model, "The river runs through the old town", max_new_tokens=6, probes=8, replacer="random"
    )
    return why.save(tmp_path_factory.mktemp("saved") / "why.json")


def test_it_prints_a_table_for_the_model_that_was_explained(saved: Path) -> None:
    answer = run(saved, *QUICK)
    assert answer.exit_code == 0, answer.exception
    for word in ("soft_ns", "pi_soft_nc", "comprehensiveness", "lds", "higher", "lower", "random", "skipped: ante"):
        assert word in answer.stdout
    assert "mean over 2 output tokens" in answer.stdout


def test_json_alone_on_standard_output(saved: Path, tmp_path: Path) -> None:
    answer = run(saved, *QUICK, "--metrics", "lds,soft_nc", "--json", "-")
    data = json.loads(answer.stdout)
    assert [result["metric"] for result in data["results"]] == ["lds", "lds", "soft_nc"]
    assert data["results"][2]["draws"] == 2
    again = run(saved, *QUICK, "--metrics", "lds,soft_nc", "--json", tmp_path / "e.json", "--quiet")
    assert again.stdout == ""
    same = json.loads((tmp_path / "e.json").read_text())
    assert same["results"] == data["results"]
    other = run(saved, *QUICK, "--metrics", "lds,soft_nc", "--json", "-", "--seed", 1)
    assert json.loads(other.stdout)["results"] != data["results"]


def test_shares_and_removals_arrive(saved: Path) -> None:
    words = ("--metrics", "lds,sufficiency", "--ratio", "0.1,0.5", "--removal", "replace, delete")
    answer = run(saved, *QUICK, *words, "--json", "-")
    measures = [result["measure"] for result in json.loads(answer.stdout)["results"]]
    assert [name for name in measures if name.startswith("spearman")] == [
        "spearman", "spearman_replace_50", "spearman_delete_10", "spearman_delete_50"
    ]  # fmt: skip
    assert measures[-1] == "nats_delete"
    shown = run(saved, *QUICK, *words).stdout
    assert "Spearman, delete 50 %" in shown
    assert "nats, delete" in shown


def test_options_arrive(saved: Path, tiny_folder: Path) -> None:
    words = ("--metrics", "pi_soft_nc,ante,no_d", "--pi", "0.3,0.5", "--stride", 2, "--rationale", 3)
    marked = ("--antecedent", "river", "--distractor", "old")
    answer = run(saved, *QUICK, *words, *marked, "--model", tiny_folder, "--json", "-")
    data = json.loads(answer.stdout)
    assert data["targets"] == [0, 2, 4]
    assert [point["at"] for point in data["results"][0]["curve"]] == [0.3, 0.5]
    assert data["settings"]["rationale"] == 3
    assert data["settings"]["annotation"] == {"antecedent": [[4, 9]], "distractor": [[27, 30]]}


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (("--metrics", "soft_nx"), InputError, "unknown metric 'soft_nx'"),
        (("--pi", "a"), InputError, "--pi takes shares"),
        (("--draws", 1), InputError, "draws"),
        (("--replacer", "robertta"), InputError, "unknown replacer"),
        (("--antecedent", "nowhere"), InputError, "occurs in the prompt 0 times"),
        (("--metrics", "ante"), InputError, "needs an annotation"),
        (("--json", "/no/such/folder/e.json"), FileError, "cannot write"),
        (("--model", "/no/such/model"), InputError, "/no/such/model"),
    ],
)
def test_bad_words_are_one_line(saved: Path, words: tuple[object, ...], kind: type[Exception], message: str) -> None:
    answer = run(saved, *words)
    assert isinstance(answer.exception, kind)
    assert message in str(answer.exception)


def test_a_file_that_is_no_explanation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    assert isinstance(run(tmp_path / "x.json").exception, FileError)
    assert isinstance(run(tmp_path / "none.json").exception, FileError)


def test_a_file_without_a_model_asks_for_one(saved: Path, tmp_path: Path) -> None:
    data = json.loads(saved.read_text())
    data["model"] = {}
    (tmp_path / "x.json").write_text(json.dumps(data))
    answer = run(tmp_path / "x.json")
    assert "--model" in str(answer.exception)
    assert not isinstance(answer.exception, CapabilityError)
