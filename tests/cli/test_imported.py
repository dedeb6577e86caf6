"""Files of other tools in `reagent evaluate` and `reagent compare`."""

import json
from pathlib import Path

import pytest

import reagent
from reagent.cli import main
from reagent.comparison import Comparison
from tiny import network_of, tokenizer_of

INSEQ = Path(__file__).parents[1] / "files" / "inseq-1.json"
QUICK = ("--probes", "8", "--replacer", "random", "--metrics", "lds,comprehensiveness")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    network_of("llama").save_pretrained(folder)
    tokenizer_of("llama").save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def own(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    why = reagent.explain(model, "My aunt moved to Japan é", target=" Tokyo.", method="occlusion", units="word")
    return why.save(tmp_path_factory.mktemp("saved") / "why.json")


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return int(stop.value.code or 0)


def test_a_file_of_inseq_is_graded(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", INSEQ, "--model", model, *QUICK, "--json", tmp_path / "e.json") == 0
    assert "How faithful is inseq input_x_gradient to" in capsys.readouterr().out
    assert json.loads((tmp_path / "e.json").read_text())["explanation"]["method"]["tool"] == "inseq"


def test_several_files_are_one_table(model: str, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", own, INSEQ, "--model", model, *QUICK, "--json", tmp_path / "e.json") == 0
    out = capsys.readouterr().out
    assert "How faithful are the explanations to" in out
    assert all(word in out for word in ("occlusion", "inseq", "comprehensiveness", "Spearman", "random", "±"))
    methods = [one["explanation"]["method"]["id"] for one in json.loads((tmp_path / "e.json").read_text())]
    assert methods == ["occlusion", "inseq input_x_gradient"]


def test_compare_shows_files(model: str, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "c.json"
    assert run("compare", "--with", own, "--with", INSEQ, "--model", model, "--json", out) == 0
    assert Comparison.load(out).names == ("occlusion replacement", "inseq input_x_gradient")
    assert "input_x_gradient" in capsys.readouterr().out
    assert run("compare", "--with", INSEQ, "--methods", "random", "--model", model, "--json", out, "--quiet") == 0
    assert Comparison.load(out).names == ("random", "inseq input_x_gradient")
    assert run("evaluate", out, "--model", model, *QUICK, "--quiet") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("evaluate", "FILE"), "not an explanation"),
        (("compare", "--with", "FILE"), "not an explanation"),
        (("compare", "Another prompt", "--target", " x", "--methods", "random", "--with", INSEQ), "of one prompt"),
        (("evaluate", INSEQ, "--model", "no such model"), "no such model"),
    ],
)
def test_bad_files_are_one_line(
    words: tuple[object, ...], message: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.json").write_text('{"values": [1, 2]}')
    given = [tmp_path / "other.json" if word == "FILE" else word for word in words]
    more = () if "--model" in given else ("--model", model)
    assert run(*given, *more, *(("--quiet",))) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert message in errors[0]
