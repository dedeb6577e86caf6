"""Whole reports: their files, their safety, and reports of unusual runs."""

import csv
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import polars
import pytest

from reagent.bench.records import Cell
from reagent.errors import FileError, InputError
from reagent.report import render_files, write_report
from report.runs import PROMPT, ListRecords, cell, make_explanation, several, write_store
from views.browser import Reader
from views.samples import HOSTILE

ALL = {
    "soft_ns": (0.2, 0.1),
    "soft_nc": (0.3, 0.1),
    "comprehensiveness": (0.3, 0.1),
    "sufficiency": (0.1, 0.2),
    "lds": (0.5, 0.0),
    "ante": (1.0, 0.2),
    "no_d": (1.0, 0.4),
}
NOT_A_NUMBER = r"\b(nan|NaN|inf|None)\b"
LATER = " to a new flat near the old harbour with her cat"


def study() -> list[Cell]:
    """Two methods and a greedy search on a token-level and a sequence-level dataset, and a failure."""
    cells = []
    for method, passes in (("reagent", 64), ("attention", 1), ("greedy", 30), ("random", 0)):
        given = [{name: (v * (1 + 0.05 * i), r) for name, (v, r) in ALL.items()} for i in range(3)]
        steps = 2 if method == "greedy" else 64
        cells += several(3, given, method=method, passes=passes, marked=True, steps=steps)
        given = [{"soft_ns": (0.2, 0.1), "soft_nc": (0.15, 0.1)}] * 2
        about = {"dataset": "wikibio", "level": "sequence", "output": LATER, "passes": passes}
        cells += several(2, given, method=method, **about)
    return [*cells, cell(example=3, method="lime", error="out of memory")]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    written = write_report(write_store(folder / "run.sqlite", study()), folder / "out")
    assert written[0] == (folder / "out" / "index.html").resolve()
    assert all(path.is_file() for path in written)
    return folder / "out"


def test_a_report_has_every_form(report: Path) -> None:
    names = {path.relative_to(report).as_posix() for path in report.rglob("*") if path.is_file()}
    assert {"index.html", "report.md", "report.tex", "report.json"} <= names
    for table in ("full_soft", "by_task_soft", "by_model_soft", "rationales", "cost", "lds", "failures"):
        for kind in ("md", "tex"):
            assert f"tables/{table}.{kind}" in names
        for kind in ("csv", "parquet"):
            assert f"data/{table}.{kind}" in names
    for figure in ("token_longra_soft", "sequence_wikibio_soft", "distribution", "cost"):
        assert {f"figures/{figure}.png", f"figures/{figure}.svg"} <= names
    assert sum(name.startswith("figures/heat_") and name.endswith(".png") for name in names) == 5


def test_no_number_is_nan_anywhere(report: Path) -> None:
    for path in report.rglob("*"):
        if path.suffix in (".md", ".tex", ".csv"):
            assert not re.search(NOT_A_NUMBER, path.read_text()), path
    words = " ".join(Reader((report / "index.html").read_text()).texts.get("td", []))
    assert not re.search(NOT_A_NUMBER, words)


def test_csv_and_parquet_hold_the_same_long_form(report: Path) -> None:
    lines = list(csv.DictReader((report / "data" / "results.csv").read_text().splitlines()))
    frame = polars.read_parquet(report / "data" / "results.parquet")
    assert len(frame) == len(lines)
    one = next(
        line for line in lines if (line["label"], line["dataset"], line["metric"]) == ("reagent", "wikibio", "soft_ns")
    )
    assert float(one["log_ratio"]) == pytest.approx(math.log(2))
    assert {"log_ratio_low", "log_ratio_high", "p", "adjusted_p", "correction", "cases"} <= set(one)
    assert frame["log_ratio"].dtype == polars.Float64
    values = polars.read_parquet(report / "data" / "values.parquet")
    assert values.filter(polars.col("metric") == "soft_ns").height == 4 * 5


def test_the_page_is_self_contained(report: Path) -> None:
    page = Reader((report / "index.html").read_text())
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    ids = {attributes.get("id") for _, attributes in page.elements}
    for link in links:
        assert link is not None
        assert link[1:] in ids if link.startswith("#") else (report / link).is_file(), link
    assert not {"script", "img", "link", "iframe", "style"} - {"style"} & set(page.tags())
    source = (report / "index.html").read_text()
    assert not re.search(r"https?://", source.replace("http-equiv", ""))
    assert page.tags().count("svg") == 10
    assert "var(--text)" in source
    assert len(ids) == len([a for _, a in page.elements if a.get("id")]) + 1, "an id is used twice"


def test_missing_parts_are_listed_with_the_reason(report: Path) -> None:
    source = (report / "index.html").read_text()
    assert "Left out" in source
    assert "no model is one of the paper’s six" in source
    assert "out of memory" in source


def test_running_again_replaces_the_report_and_nothing_else(report: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(report, out)
    (out / "mine.txt").write_text("mine")
    (out / "tables" / "mine.tex").write_text("mine")
    write_report(write_store(tmp_path / "small.sqlite", [cell({"soft_ns": (0.2, 0.1)})]), out)
    assert (out / "mine.txt").read_text() == "mine"
    assert (out / "tables" / "mine.tex").read_text() == "mine"
    assert not (out / "tables" / "lds.tex").exists()
    assert not list(out.rglob("*.part"))
    listed = json.loads((out / "report.json").read_text())["files"]
    assert {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} == {
        *listed, "report.json", "mine.txt", "tables/mine.tex"
    }  # fmt: skip


def test_a_manifest_that_names_other_folders_is_ignored(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "precious.txt"
    out.mkdir()
    other.write_text("mine")
    names = ["../precious.txt", str(other), "deep/er/file"]
    (out / "report.json").write_text(json.dumps({"schema": "reagent.report/1", "files": names}))
    write_report(write_store(tmp_path / "run.sqlite", [cell({"soft_ns": (0.2, 0.1)})]), out)
    assert other.read_text() == "mine"


def test_two_reports_of_one_run_are_equal() -> None:
    numbers = {"soft_ns": (0.2, 0.1), "ante": (1.0, 0.2)}
    cells = [cell(numbers, method=method, marked=True) for method in ("reagent", "lime")]
    assert render_files(ListRecords(cells), "run") == render_files(ListRecords(cells[::-1]), "run")


# --- unusual runs ---


def test_an_empty_run_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing to report.*run its suite first"):
        write_report(write_store(tmp_path / "empty.sqlite", []), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(FileError, match="there is no file"):
        write_report(tmp_path / "none.sqlite", tmp_path / "out")


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FileError, match="it is a file; give a folder"):
        write_report(write_store(tmp_path / "run.sqlite", [cell({"soft_ns": (0.2, 0.1)})]), tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


UNUSUAL = {
    "only failures": [cell(example=i, error="the model did not load") for i in range(3)],
    "one example": [cell(ALL, marked=True)],
    "no metrics at all": [cell(None), cell(None, method="lime")],
    "no evaluated metric": [cell({})],
    "all zero": [cell({"soft_ns": (0.0, 0.0), "soft_nc": (0.0, 0.1)}, example=i) for i in range(3)],
    "negative": [cell({"comprehensiveness": (-0.1, 0.1), "lds": (-0.5, 0.0)}, example=i) for i in range(3)],
    "one word": [cell({"soft_ns": (0.2, 0.1)}, why=make_explanation("Hi", " there"))],
    "long": [cell({"soft_ns": (0.2, 0.1)}, why=make_explanation("so " * 400 + "it", " goes"), passes=1)],
    "different metrics": [cell({"soft_ns": (0.2, 0.1)}), cell({"lds": (0.2, 0.0)}, method="lime")],
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_runs_have_a_report(name: str) -> None:
    files = render_files(ListRecords(UNUSUAL[name]), "run")
    page = str(files["index.html"])
    words = " ".join(text for texts in Reader(page).texts.values() for text in texts)
    assert not re.search(NOT_A_NUMBER, words)
    assert "Left out" in page


def test_a_run_of_failures_lists_their_errors() -> None:
    files = render_files(ListRecords(UNUSUAL["only failures"]), "run")
    assert "the model did not load" in str(files["tables/failures.md"])
    assert "No cell is done, 3 failed" in str(files["index.html"])
    assert not any(name.startswith("figures/") for name in files)


# --- hostile text ---


@pytest.fixture(scope="module")
def hostile() -> list[Cell]:
    names = {"model": HOSTILE, "dataset": f"data {HOSTILE}", "label": f"& {HOSTILE} | $x_{{"}
    words = f"50% of {HOSTILE.replace(' ', '_')} \\input{{x}} ~^ #1 end"
    cells = [cell(ALL, example=f"{HOSTILE}{i}", why=make_explanation(words, " said_$"), **names) for i in range(2)]
    return [*cells, cell(example="x", error=f"{HOSTILE}\n| a | b |", **names)]


def test_hostile_text_is_escaped(hostile: list[Cell]) -> None:
    files = render_files(ListRecords(hostile), "run")
    page = Reader(str(files["index.html"]))
    assert "script" not in page.tags()
    assert all(not tag.startswith("red") for tag in page.tags())
    assert "\x1b" not in str(files["index.html"])
    assert all(re.fullmatch(r"[\w/.-]+", name, re.ASCII) for name in files)
    for name, content in files.items():
        if name.startswith("tables/") and name.endswith(".md"):
            rows = [line for line in str(content).splitlines() if line.startswith("|")]
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, name


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_the_document_compiles(hostile: list[Cell], report: Path, tmp_path: Path) -> None:
    for folder in (report, tmp_path):
        if folder == tmp_path:
            for name, content in render_files(ListRecords(hostile), "run").items():
                (tmp_path / name).parent.mkdir(exist_ok=True)
                (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        command = [
            "pdflatex",
            "-interaction=nonstopmode",
            "-halt-on-error",
            f"-output-directory={tmp_path}",
            "report.tex",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stdout[-2000:]


def test_prompts_are_shown_as_they_are() -> None:
    odd = "a <b>bold</b> & “quoted” שלום 漢字 _x_"
    files = render_files(ListRecords([cell({"soft_ns": (0.2, 0.1)}, why=make_explanation(odd, " ok"))]), "run")
    shown = "".join(Reader(str(files["index.html"])).texts["span"])
    assert "<b>bold</b>" in shown
    assert "漢字" in shown


def test_real_explanations_and_evaluations(tmp_path: Path) -> None:
    """Real methods and metrics on a model with known parts: ReAGent must be better than random."""
    from metrics.planted import PROMPT as WORDS
    from metrics.planted import TARGET, Planted
    from reagent.api.evaluate import evaluate_together
    from reagent.api.explain import explain
    from reagent.metrics.config import EvaluationConfig

    model, cells = Planted(), []
    for seed in range(3):
        methods = {"reagent": "random", "occlusion": "random", "random": "auto"}
        explanations = [
            explain(model, WORDS, target=TARGET, method=m, replacer=r, seed=seed) for m, r in methods.items()
        ]
        settings = EvaluationConfig(
            metrics=["soft_ns", "soft_nc", "lds"], draws=16, probes=16, replacer="random", seed=seed
        )
        for why, evaluation in zip(explanations, evaluate_together(model, explanations, settings), strict=True):
            method = str(why.method["id"])
            empty = cell(None, example=seed, method=method, why=why)
            cells.append(replace(empty, evaluation=evaluation))
    write_report(write_store(tmp_path / "run.sqlite", cells), tmp_path / "out")
    lines = csv.DictReader((tmp_path / "out" / "data" / "results.csv").read_text().splitlines())
    ratios = {line["label"]: float(line["log_ratio"]) for line in lines if line["metric"] == "soft_nc"}
    assert ratios["reagent"] > 0.1
    assert abs(ratios["random"]) < ratios["reagent"]
    assert (tmp_path / "out" / "figures" / "cost.png").read_bytes().startswith(b"\x89PNG")


def test_the_prompt_of_the_samples_is_marked_right() -> None:
    from report.runs import ANTECEDENT, DISTRACTOR

    assert PROMPT[slice(*ANTECEDENT)] == "Japan"
    assert PROMPT[slice(*DISTRACTOR)].startswith("(Her")
    assert PROMPT[slice(*DISTRACTOR)].endswith(".")
