"""`reagent study`: files, outputs, and one clear line for every bad input."""

import json
from pathlib import Path

import pytest

TEMPLATE = "# Task\nName the city.\n\n# Question\n{{country}}:"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    template, inputs = tmp_path / "template.md", tmp_path / "inputs.jsonl"
    template.write_text(TEMPLATE)
    inputs.write_text('{"country": "Japan", "answer": "Tokyo"}\n{"country": "Peru", "answer": "Lima"}\n')
    return template, inputs


@pytest.fixture
def study(run, tiny_folder: Path):
    def call(*words: object):
        return run("study", *words, "--model", tiny_folder)

    return call


def test_study_shows_and_writes_everything(study, files: tuple[Path, Path], tmp_path: Path) -> None:
    answer = study(*files, "--json", tmp_path / "s.json", "--out", tmp_path / "s.sqlite")
    assert answer.code == 0, answer.err
    assert "3 parts" in answer.out
    data = json.loads((tmp_path / "s.json").read_text())
    assert [part["name"] for part in data["parts"]] == ["Task", "Question", "country"]
    again = study(*files, "--json", "-", "--out", tmp_path / "s.sqlite")
    assert json.loads(again.out)["parts"] == data["parts"]


@pytest.mark.parametrize(
    ("template", "inputs", "message"),
    [
        ("", "{}", "'template.md' is empty"),
        ("{{x}}", '{"x": "a"}', "no part besides its slots"),
        ("Say {{x}}", '{"y": "a"}', "inputs.jsonl, line 1: the template needs a value that is missing"),
        ("Say {{x}}", "no JSON", "inputs.jsonl, line 1 is not JSON"),
        ("Say {{x}}", "", "is empty"),
        ("Say {{ ''.__class__ }}", "{}", "is unsafe"),
        ("Say {{ x", "{}", "cannot be used as a template"),
    ],
)
def test_bad_files_are_one_line(study, files: tuple[Path, Path], template: str, inputs: str, message: str) -> None:
    files[0].write_text(template)
    files[1].write_text(inputs)
    answer = study(*files)
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert message in answer.err


def test_ci_fails_if_a_part_can_go(study, files: tuple[Path, Path]) -> None:
    answer = study(*files, "--threshold", "1000", "--fail-if-unused", "--quiet")
    assert answer.code == 1
    assert answer.err.startswith("error: these parts of 'template.md' can go: Task, country; remove")
    assert study(*files, "--threshold", "1e-9", "--fail-if-unused", "--quiet").code == 0


def test_ci_fails_before_any_work_if_it_costs_too_much(study, files: tuple[Path, Path]) -> None:
    answer = study(*files, "--max-cost", "10")
    assert answer.code == 1
    assert "more than 10: raise --max-cost, or use fewer inputs with --limit" in answer.err
    answer = study(*files, "--dry-run", "--max-cost", "1000")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "section: Task")
    assert answer.out.splitlines()[-1].startswith("about 12 forward passes")


def test_alternatives_of_a_slot(study, files: tuple[Path, Path]) -> None:
    answer = study(*files, "--alternatives", "country=France,Italy", "--json", "-")
    assert json.loads(answer.out)["alternatives"] == {"country": ["France", "Italy"]}
    assert "unknown slot 'city'" in study(*files, "--alternatives", "city=Rome").err
    assert "takes SLOT=A,B" in study(*files, "--alternatives", "city").err


def test_the_page_is_written(study, run, files: tuple[Path, Path], tmp_path: Path) -> None:
    answer = study(*files, "--html", tmp_path / "s.html", "--json", tmp_path / "s.json", "--quiet")
    assert (answer.code, answer.out) == (0, "")
    assert "reagentStudy" in (tmp_path / "s.html").read_text()
    shown = run("show", tmp_path / "s.json", "--html", tmp_path / "again.html")
    assert (shown.code, "3 parts" in shown.out) == (0, True)
    assert (tmp_path / "again.html").read_text() == (tmp_path / "s.html").read_text()
    assert "--png is for explanations, and" in run("show", tmp_path / "s.json", "--png", tmp_path / "s.png").err
