"""Running a suite: what is missing is done, once, and what goes wrong stays where it went wrong."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import reagent
from bench.small import METHODS, METRICS, PROMPTS, table, write_suite
from reagent.api.run import run as explain
from reagent.bench import worker
from reagent.bench.runner import RunProgress, RunSelection, missing_jobs, run
from reagent.bench.store import Store
from reagent.bench.suite import MethodConfig, ModelConfig, Suite, load_suite
from reagent.errors import FileError, InputError
from reagent.models.huggingface import HuggingFaceModel


@pytest.fixture
def copy(results: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(results, tmp_path / "copy.sqlite"))


def test_every_cell_is_there_with_its_numbers(results: Path, small: Suite) -> None:
    with Store.open(results) as store:
        cells = list(store.cells())
        facts = store.facts()
    assert len(cells) == len(PROMPTS) * len(small.methods)
    assert {cell.label for cell in cells} == {entry.label for entry in small.methods}
    assert all(cell.evaluation is not None and cell.explanation is not None for cell in cells)
    marked = [cell for cell in cells if cell.example == "1"]
    assert all("ante" in [r.metric for r in cell.evaluation.results] for cell in marked)
    assert not any("ante" in [r.metric for r in cell.evaluation.results] for cell in cells if cell.example == "2")
    assert facts["kind"] == "study"
    assert facts["cost"]["forward_passes"] > 0
    assert next(iter(facts["models"].values()))["dtype"] == "float32"


def test_of_a_continuation_every_fifth_token_is_explained(results: Path) -> None:
    with Store.open(results) as store:
        cells = [cell for cell in store.cells() if cell.example == "2"]
    for cell in cells:
        asked = [t for t, why in enumerate(cell.explanation.cost.stopped) if why != "unasked"]
        assert asked == [0, 5]
        assert cell.evaluation.targets == (0, 5)


def test_a_cell_is_what_explain_and_evaluate_give(results: Path, tiny_model: HuggingFaceModel) -> None:
    with Store.open(results) as store:
        cell = next(c for c in store.cells() if c.label == "occlusion" and c.example == "3")
    why = reagent.explain(
        tiny_model, PROMPTS[2]["prompt"], target=" and says", stride=5, method="occlusion", preset="deletion",
        seed=cell.explanation.seed,
    )  # fmt: skip
    assert cell.explanation.scores[0] == pytest.approx(why.scores[0], rel=1e-4)
    found = reagent.evaluate(
        tiny_model, why, ["soft_nc"], draws=2, probes=8, stride=5, replacer="random", seed=cell.explanation.seed
    )
    assert cell.evaluation.result("soft_nc").value == pytest.approx(found.result("soft_nc").value, rel=1e-3)


def test_run_again_does_nothing_and_loads_nothing(copy: Path, small: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "load_model", lambda *_, **__: pytest.fail("a model was loaded for nothing"))
    before = table(copy)
    assert run(small, copy).done == 0
    assert table(copy) == before


def test_two_runs_of_parts_are_one_whole(small: Suite, results: Path, tmp_path: Path) -> None:
    out = tmp_path / "parts.sqlite"
    looks: list[tuple[int, int]] = []

    def look(progress: RunProgress) -> None:
        looks.append((progress.done, progress.total))
        assert progress.seconds_left is not None

    assert run(small, out, selection=RunSelection(limit=1), on_progress=look).done == len(small.methods)
    assert looks == [(4, 4)]
    assert run(small, out, on_progress=look).done == 2 * len(small.methods)
    assert looks[1:] == [(4, 8), (8, 8)]
    assert table(out) == table(results)


def test_new_metrics_need_no_new_explanation(copy: Path, small: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "run", lambda *_: pytest.fail("an explanation was made again"))
    before = table(copy)
    more = replace(small, metrics=(*small.metrics, "pi_soft_nc"))
    assert run(more, copy).done == len(before)
    after = table(copy)
    assert after.keys() == before.keys()
    for place, cell in after.items():
        assert cell["explanation"] == before[place]["explanation"]
        assert [r for r in cell["numbers"][0] if r["metric"] != "pi_soft_nc"] == before[place]["numbers"][0]
        assert any(r["metric"] == "pi_soft_nc" for r in cell["numbers"][0])


def test_another_setting_of_a_method_is_another_cell(copy: Path, small: Suite) -> None:
    changed = [replace(e, options={"max_steps": 13}) if e.method == "reagent" else e for e in small.methods]
    progress = run(replace(small, methods=tuple(changed)), copy)
    assert progress.done == len(PROMPTS)
    assert len(table(copy)) == len(PROMPTS) * len(small.methods)  # replaced, not doubled


def test_what_left_the_suite_is_not_shown_and_comes_back(copy: Path, small: Suite) -> None:
    before = table(copy)
    fewer = replace(small, methods=small.methods[:2])
    assert run(fewer, copy).done == 0
    assert len(table(copy)) == 2 * len(PROMPTS)
    assert run(small, copy).done == 0
    assert table(copy) == before


def test_a_failed_cell_stops_nobody(small: Suite, tmp_path: Path) -> None:
    bad = MethodConfig("greedy", "too much", "exhaustive", {"max_subsets": 1}, "random")
    suite = replace(small, methods=(*small.methods[:1], bad))
    out = tmp_path / "f.sqlite"
    progress = run(suite, out)
    assert 0 < progress.failed <= len(PROMPTS)
    with Store.open(out) as store:
        failed = list(store.cells("failed"))
        assert all("max_subsets = 1" in cell.error for cell in failed)
        assert len([c for c in store.cells() if c.label == "random"]) == len(PROMPTS)
    assert run(suite, out).done == 0
    assert run(suite, out, selection=RunSelection(retry_failed=True)).failed == progress.failed


def test_a_model_that_cannot_be_loaded_stops_no_other(small: Suite, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    suite = replace(small, models=(ModelConfig(str(broken)), *small.models))
    out = tmp_path / "f.sqlite"
    progress = run(suite, out, selection=RunSelection(limit=1))
    assert progress.failed == len(small.methods)
    assert progress.done == 2 * len(small.methods)
    with Store.open(out) as store:
        assert {cell.model for cell in store.cells("failed")} == {str(broken)}
        assert all("broken" in cell.error for cell in store.cells("failed"))
    shutil.rmtree(broken)
    shutil.copytree(small.models[0].id, broken)
    assert run(suite, out, selection=RunSelection(limit=1)).done == 0
    assert run(suite, out, selection=RunSelection(limit=1, retry_failed=True)).done == len(small.methods)
    with Store.open(out) as store:
        assert not list(store.cells("failed"))


def test_a_model_that_is_not_what_it_was_is_refused(copy: Path, small: Suite) -> None:
    again = replace(small, models=(replace(small.models[0], dtype="bfloat16"),), seeds=(0, 1))
    before = table(copy)
    with pytest.raises(FileError, match=r"dtype float32.*now.*bfloat16"):
        run(again, copy)
    assert table(copy) == before


def test_a_file_of_another_suite_is_left_alone(copy: Path, small: Suite) -> None:
    with pytest.raises(FileError, match="holds results of the suite 'small', not of 'other'"):
        run(replace(small, name="other"), copy)


def test_shards_are_the_whole_and_nothing_twice(small: Suite) -> None:
    def names(selection: RunSelection) -> list[str]:
        (jobs,) = missing_jobs(small, selection).values()
        return [job.example.id for job in jobs]

    assert names(RunSelection(shard=(1, 2))) == ["1", "3"]
    assert names(RunSelection(shard=(2, 2))) == ["2"]
    with pytest.raises(InputError, match="3/2"):
        RunSelection(shard=(3, 2))
    with pytest.raises(InputError, match="limit"):
        RunSelection(limit=0)


def test_rows_that_are_empty_or_too_long_fail_alone(tiny_folder: Path, tmp_path: Path) -> None:
    prompts = [{"prompt": "The old town"}, {"prompt": "river " * 200}, {"prompt": ""}, {"prompt": "  "}]
    suite = load_suite(str(write_suite(tmp_path, [str(tiny_folder)], '{ method = "random" }', prompts=prompts)))
    out = tmp_path / "f.sqlite"
    run(suite, out)
    with Store.open(out) as store:
        assert [cell.example for cell in store.cells()] == ["1"]
        (failed,) = store.cells("failed")
        assert "reads at most 128" in failed.error


def test_points_of_a_curve_are_what_shorter_runs_give(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = "every = 4, options = { max_steps = 12 }"
    curve = f'{{ method = "reagent", preset = "paper", label = "c", replacer = "random", {settings} }}'
    suite = load_suite(str(write_suite(tmp_path, [str(tiny_folder)], curve, prompts=PROMPTS[2:])))
    assert [entry.label for entry in suite.methods] == ["c 4", "c 8", "c 12"]
    # One output token, as in LongRA: what the prompt asks for is the first token only.
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "A model reads what stands before", "target": " and"}\n')
    together, alone = tmp_path / "t.sqlite", tmp_path / "a.sqlite"
    calls = []
    monkeypatch.setattr(worker, "run", lambda *given: calls.append(given) or explain(*given))
    run(suite, together)
    assert len(calls) == 1  # the longest run contains the others
    for entry in suite.methods:
        run(replace(suite, methods=(entry,)), alone)
    run(suite, alone)
    one, other = table(together), table(alone)
    assert len(one) == 3
    for place, cell in one.items():
        assert cell["key"] == other[place]["key"]
        assert cell["explanation"]["scores"][0] == pytest.approx(other[place]["explanation"]["scores"][0], rel=1e-3)
        assert cell["explanation"]["method"] == other[place]["explanation"]["method"]
        assert cell["explanation"]["cost"]["steps"] == [int(place[3].split()[1])]


def test_no_metrics_no_evaluation(small: Suite, tmp_path: Path) -> None:
    out = tmp_path / "f.sqlite"
    run(replace(small, metrics=(), settings={}, methods=small.methods[:1]), out)
    with Store.open(out) as store:
        assert all(cell.evaluation is None and cell.explanation is not None for cell in store.cells())


def test_metrics_and_methods_are_used(tiny_folder: Path, tmp_path: Path) -> None:
    suite = load_suite(str(write_suite(tmp_path, [str(tiny_folder)], METHODS, METRICS, more="seeds = [3, 4]")))
    jobs = next(iter(missing_jobs(suite, RunSelection()).values()))
    assert len(jobs) == 2 * len(PROMPTS)
    assert len({job.own_seed for job in jobs}) == len(jobs)


def test_a_model_that_allows_none_of_the_metrics_is_explained_only(tmp_path: Path) -> None:
    from reagent.bench.plan import load_sources, plan_jobs
    from reagent.testing import mentions

    (tmp_path / "words.jsonl").write_text('{"prompt": "w1 w5", "target": " w0"}\n')
    (tmp_path / "mine.toml").write_text(
        f'models = ["scripted"]\ndatasets = ["{tmp_path}/words.jsonl"]\nmethods = ["random"]\n'
        '[metrics]\nnames = ["soft_ns"]\n'
    )
    suite = load_suite(str(tmp_path / "mine.toml"))
    model = mentions("w5")  # it gives no embeddings, which soft_ns needs
    own = worker.Worker(suite.models[0], model)
    (job,) = plan_jobs(suite, suite.models[0], load_sources(suite), None, own.inspect([]))
    (cell,) = own.do(job).cells
    assert (cell.status, cell.evaluation) == ("done", None)
    assert cell.explanation is not None


def test_repeated_measures_by_two_removals_and_three_shares(tiny_folder: Path, tmp_path: Path) -> None:
    short = [{"prompt": "My aunt moved to Japan", "target": " to", "antecedent": "Japan"}]
    # the tiny model answers no example of LongRA
    prompts = load_suite(str(write_suite(tmp_path, [str(tiny_folder)], prompts=short)))
    suite = replace(load_suite("repeated"), models=prompts.models, datasets=prompts.datasets)
    suite = replace(suite, settings={**suite.settings, "draws": 2, "probes": 12})
    run(suite, tmp_path / "repeated.sqlite", selection=RunSelection(limit=1))
    with Store.open(tmp_path / "repeated.sqlite") as store:
        cells = list(store.cells())
    assert {cell.label for cell in cells} == {config.label for config in suite.methods}
    for cell in cells:
        measures = {(result.metric, result.measure) for result in cell.evaluation.results}
        for metric in ("comprehensiveness", "sufficiency"):
            assert {(metric, "nats"), (metric, "nats_delete")} < measures
        for settings in ("", "_replace_30", "_replace_50", "_delete_10", "_delete_30", "_delete_50"):
            assert ("lds", f"spearman{settings}") in measures


def test_a_dataset_has_its_usual_size_in_a_suite() -> None:
    from reagent.bench.plan import Source
    from reagent.bench.suite import DatasetConfig
    from reagent.data import load_dataset

    stories = replace(load_dataset("tellmewhy"), usual_size=4)
    assert Source(DatasetConfig("tellmewhy"), stories, 0).size(None) == 4
    assert Source(DatasetConfig("tellmewhy", size=7), stories, 0).size(None) == 7
    assert Source(DatasetConfig("tellmewhy"), stories, 0).size(2) == 2
