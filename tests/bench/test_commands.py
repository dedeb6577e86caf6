"""`reagent bench`, called as a person calls it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import reagent
from bench.small import PROMPTS, table
from reagent.bench.export import merge
from reagent.bench.runner import RunProgress, RunSelection, run
from reagent.bench.store import Store
from reagent.bench.suite import Suite, load_suite
from reagent.cli import main
from reagent.errors import FileError


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]):
    def run_main(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run_main


@pytest.fixture
def toml(small: Suite, tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(small.text)
    return path


def test_run_run_again_and_look(call, toml: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.sqlite"
    code, text, told = call("bench", "run", toml, "--out", out, "--limit", 1)
    assert (code, text) == (0, "")
    assert "4 cells are new" in told
    assert f"reagent bench report {out}" in told
    code, _, told = call("bench", "run", toml, "--out", out, "--limit", 1)
    assert code == 0
    assert "nothing to do; all 4 cells are from the cache (earlier runs)" in told
    assert call("bench", "run", toml, "--out", out, "--limit", 1, "--quiet") == (0, "", "")
    code, _, told = call("bench", "run", toml, "--out", out, "--limit", 2)
    assert f"4 cells are new in {out}; 4 are from the cache (earlier runs)" in told
    toml.write_text(toml.read_text().replace('"lds", ', ""))
    code, _, told = call("bench", "run", toml, "--out", out, "--limit", 2)
    assert f"8 cells are new in {out}; 8 explanations of the new cells are from the cache" in told


def test_the_report_of_an_unfinished_run_counts_its_cells(call, toml: Path, tmp_path: Path) -> None:
    def stop(_: RunProgress) -> None:
        raise KeyboardInterrupt

    out, folder = tmp_path / "r.sqlite", tmp_path / "report"
    with pytest.raises(KeyboardInterrupt):
        run(load_suite(str(toml)), out, on_progress=stop)
    code, _, told = call("bench", "report", out, "--out", folder)
    note = "This run is not finished: it has 4 of 12 cells."
    assert (code, told) == (0, f"{note} Run the suite again to continue it.\n")
    for file in ("index.html", "report.md", "report.tex", "tables/cost.md", "tables/cost.tex"):
        assert note in (folder / file).read_text(), file

    merged = tmp_path / "merged.sqlite"
    assert call("bench", "merge", out, "--out", merged)[0] == 0
    assert note in call("bench", "report", merged, "--out", folder)[2]

    assert call("bench", "run", toml, "--out", out, "--quiet")[0] == 0
    assert call("bench", "report", out, "--out", folder)[2] == ""
    assert "not finished" not in (folder / "index.html").read_text()


def test_a_dry_run_tells_what_is_missing_and_makes_nothing(call, toml: Path, tmp_path: Path, tiny_folder: Path) -> None:
    out = tmp_path / "r.sqlite"
    code, text, _ = call("bench", "run", toml, "--out", out, "--dry-run")
    assert code == 0
    assert f"{tiny_folder}: at most 3 jobs, 12 cells" in text
    assert "minutes here" in text
    assert not out.exists()
    code, text, _ = call("bench", "run", "paper", "--out", out, "--dry-run")
    assert code == 0
    assert "needs a GPU" in text
    assert text.count("hours on a large GPU") == 6


def test_prompts_in_bulk(call, tiny_folder: Path, tmp_path: Path) -> None:
    prompts, out, lines = tmp_path / "p.txt", tmp_path / "p.sqlite", tmp_path / "p.jsonl"
    prompts.write_text("The river runs through\n\nMy aunt moved to Japan\n")
    words = ("--model", tiny_folder, "--set", "probes=8", "--replacer", "random", "--max-new-tokens", 2)
    code, _, told = call("bench", "explain", prompts, "--out", out, "--json", lines, *words)
    assert code == 0, told
    explained = [reagent.Explanation.from_dict(json.loads(line)) for line in lines.read_text().splitlines()]
    assert [why.prompt for why in explained] == ["The river runs through", "My aunt moved to Japan"]
    assert all(len(why.output) == 2 and why.method["probes"] == 8 for why in explained)
    code, _, told = call("bench", "explain", prompts, "--out", out, "--json", lines, *words)
    assert "nothing to do" in told


def test_prompts_in_bulk_can_be_measured(call, tiny_folder: Path, tmp_path: Path) -> None:
    prompts, out = tmp_path / "p.jsonl", tmp_path / "p.sqlite"
    prompts.write_text(json.dumps(PROMPTS[0] | {"target": " She"}) + "\n")
    words = ("--model", tiny_folder, "--method", "attention", "--metrics", "ante,lds", "--quiet")
    assert call("bench", "explain", prompts, "--out", out, *words) == (0, "", "")
    (cell,) = table(out).values()
    assert [result["metric"] for result in cell["numbers"][0]] == ["ante", "ante", "lds", "lds"]


def test_shards_join_to_the_whole(call, small: Suite, results: Path, tmp_path: Path) -> None:
    parts = [tmp_path / "1.sqlite", tmp_path / "2.sqlite"]
    for i, part in enumerate(parts, start=1):
        run(small, part, selection=RunSelection(shard=(i, 2)))
    code, text, _ = call("bench", "merge", *parts, "--out", tmp_path / "all.sqlite")
    assert code == 0
    assert text.startswith("12 cells")
    assert table(tmp_path / "all.sqlite") == table(results)
    assert run(small, tmp_path / "all.sqlite").done == 0
    run(replace(small, name="b", methods=small.methods[:1]), tmp_path / "b.sqlite", selection=RunSelection(limit=1))
    with pytest.raises(FileError, match="another suite"):
        merge([tmp_path / "b.sqlite"], tmp_path / "all.sqlite")


def test_results_can_be_passed_on_without_their_texts(call, results: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.sqlite"
    code, _, told = call("bench", "merge", results, "--without-texts", "--out", bare)
    assert code == 0, told
    with Store.open(results) as whole, Store.open(bare) as numbers:
        for cell, kept in zip(whole.cells(), numbers.cells(), strict=True):
            was, why = cell.explanation, kept.explanation
            assert why is not None
            assert was is not None
            assert cell.evaluation is not None
            assert kept.evaluation is not None
            assert (why.scores, why.effects, why.cost) == (was.scores, was.effects, was.cost)
            assert kept.evaluation.results == cell.evaluation.results
            assert {(t.ids, t.text, t.start, t.end) for t in why.input + why.output} == {((), "", 0, 0)}
            written = json.dumps([why.to_dict(), kept.evaluation.to_dict(), *map(repr, numbers.models().items())])
            words = [word for word in (was.prompt + was.completion).split() if word.istitle()]
            assert words
            assert not [word for word in words if word in written]
    for records, name in ((bare, "bare"), (results, "whole")):
        assert call("bench", "report", records, "--out", tmp_path / name)[0] == 0
    tables = [(tmp_path / name / "data" / "results.csv").read_text() for name in ("bare", "whole")]
    assert tables[0] == tables[1]
    heat_maps = [len(list((tmp_path / name / "figures").glob("heat*.png"))) for name in ("bare", "whole")]
    assert heat_maps[0] == 0 < heat_maps[1]


def test_suites_are_listed_and_printed(call) -> None:
    code, text, _ = call("bench", "suites")
    assert code == 0
    assert text.startswith("quick: ")
    assert 'kind = "replacers"' in call("bench", "suites", "replacers")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "quikc", "--out", "x.sqlite"), "unknown suite 'quikc', did you mean 'quick'?"),
        (("run", "quick", "--out", "/no/such/folder/x.sqlite"), "there is no folder"),
        (("run", "quick", "--out", "x.sqlite", "--shard", "half"), "--shard takes i/n"),
        (("run", "quick", "--out", "x.sqlite", "--shard", "3/2"), "a shard is i/n"),
        (("run", "quick", "--out", "x.sqlite", "--limit", "0"), "limit"),
        (("run", "quick", "--out", "x.sqlite", "--engine", "spark"), "unknown engine 'spark'"),
        (("run", "quick", "--out", "x.sqlite", "--workers", "2"), "only the engine 'ray'"),
        (("explain", "none.txt", "--out", "x.sqlite"), "none.txt"),
        (("explain", "none.txt", "--out", "x.sqlite", "--metrics", "soft"), "unknown metric 'soft'"),
        (("report", "none.sqlite", "--out", "d"), "there is no file"),
        (("merge", "x.sqlite", "--out", "x.sqlite"), "one of the files to merge"),
    ],
)
def test_what_is_wrong_is_one_line(
    call, words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call("bench", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.glob("*.sqlite"))
