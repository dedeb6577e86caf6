"""Suites: those of the package, and what can be wrong with a user's."""

from pathlib import Path

import pytest

from reagent.bench.estimate import estimate_jobs
from reagent.bench.plan import load_sources
from reagent.bench.runner import RunSelection, missing_jobs
from reagent.bench.suite import load_suite, parse, suites
from reagent.errors import FileError, InputError, ReagentError
from reagent.methods import METHODS
from reagent.metrics import METRICS

WHOLE = """
models = ["smollm2"]
methods = ["random"]
datasets = ["longra"]
"""


def test_the_suites_of_the_package_can_be_read() -> None:
    assert list(suites())[:3] == ["quick", "standard", "paper"]
    kinds = {name: load_suite(name).kind for name in suites()}
    assert kinds == {
        "quick": "study", "standard": "study", "paper": "study", "replacers": "replacers",
        "hyperparameters": "hyperparameters", "convergence": "convergence", "budgets": "convergence",
        "repeated": "study",
    }  # fmt: skip


def test_standard_and_paper_have_all_methods_tasks_and_metrics() -> None:
    for name in ("standard", "paper"):
        suite = load_suite(name)
        # A method that takes few units only cannot explain these tasks.
        assert {entry.method for entry in suite.methods} == {n for n, info in METHODS.items() if info.max_units is None}
        assert [data.id for data in suite.datasets] == ["longra", "tellmewhy", "wikibio"]
        assert set(suite.metrics) == set(METRICS)


def test_the_paper_needs_a_gpu_and_says_so() -> None:
    suite = load_suite("paper")
    assert "GPU" in suite.needs
    assert len(suite.models) == 6
    assert all(model.parameters for model in suite.models)


def test_quick_is_quick() -> None:
    jobs = missing_jobs(load_suite("quick"), RunSelection())["smollm2"]
    assert estimate_jobs(jobs).passes < 8_000
    assert {job.dataset for job in jobs} == {"longra", "tellmewhy", "wikibio"}
    with_limit = missing_jobs(load_suite("quick"), RunSelection(limit=1))["smollm2"]
    assert len(with_limit) == 3


def test_repeated_states_facts_several_times_and_takes_about_an_hour() -> None:
    jobs = missing_jobs(load_suite("repeated"), RunSelection())["smollm2"]
    assert estimate_jobs(jobs).passes < 50_000
    assert {job.dataset for job in jobs} == {"longra_repeated"}
    assert all(len(job.example.antecedent) > 1 for job in jobs)


def test_the_estimate_counts_the_permutations_of_shapley_values() -> None:
    def passes(count: int) -> float:
        method = f'[{{ method = "shapley", options = {{ permutations = {count} }} }}]'
        jobs = missing_jobs(parse(WHOLE.replace('["random"]', method), "mine"), RunSelection(limit=1))["smollm2"]
        return estimate_jobs(jobs).passes

    assert passes(16) == pytest.approx(4 * passes(4))


def test_shares_and_removals_are_settings_of_the_metrics_and_multiply_the_passes() -> None:
    def passes(settings: str) -> float:
        text = WHOLE + f'\n[metrics]\nnames = ["lds"]\nprobes = 16\n{settings}\n'
        return estimate_jobs(missing_jobs(parse(text, "mine"), RunSelection(limit=1))["smollm2"]).passes

    more = passes('ratio = [0.1, 0.3, 0.5]\nremoval = ["replace", "delete"]') - passes("")
    assert more == pytest.approx(5 * 16)
    with pytest.raises(InputError, match="unknown removal 'burn'"):
        passes('removal = "burn"')


def test_a_part_of_the_datasets_can_be_asked_for() -> None:
    quick = load_suite("quick")
    jobs = missing_jobs(quick, RunSelection(datasets=("wikibio",)))["smollm2"]
    assert [job.dataset for job in jobs] == ["wikibio"] * 2
    with pytest.raises(InputError, match="did you mean 'wikibio'"):
        missing_jobs(quick, RunSelection(datasets=("wikibi",)))


def test_convergence_has_a_point_every_fifty_steps_and_walks_each_way_once() -> None:
    suite = load_suite("convergence")
    steps = [entry.options["max_steps"] for entry in suite.methods if entry.label.startswith("self ")]
    assert steps == list(range(50, 1001, 50))
    (job, *_) = missing_jobs(suite, RunSelection(limit=1))["smollm2"]
    metrics_only = estimate_jobs([job]).passes - 4 * 1000
    assert 0 < metrics_only < 16 * 4 * 81 + 1


def test_a_name_is_enough_and_labels_come_by_themselves() -> None:
    suite = parse(WHOLE.replace('["random"]', '["random", { method = "reagent", preset = "paper" }]'), "mine")
    assert suite.name == "mine"
    assert [entry.label for entry in suite.methods] == ["random", "reagent (paper)"]
    assert suite.seeds == (0,)


def test_a_method_may_have_fewer_examples_and_they_are_among_those_of_the_others() -> None:
    few = '["random", { method = "attention", sizes.longra = 3 }, { method = "lime", sizes.longra = 5 }]'
    suite = parse(WHOLE.replace('["random"]', few).replace('["longra"]', '[{ id = "longra", size = 8 }]'), "x")
    jobs = missing_jobs(suite, RunSelection())["smollm2"]
    have = {job.example.id: {cell.config.label for cell in job.cells} for job in jobs}
    with_each = {label: {e for e in have if label in have[e]} for label in ("random", "attention", "lime")}
    assert [len(with_each[label]) for label in with_each] == [8, 3, 5]
    assert with_each["attention"] < with_each["lime"]
    # A smaller part of the suite is a part of it.
    fewer = missing_jobs(suite, RunSelection(limit=4))["smollm2"]
    assert {job.example.id for job in fewer if len(job.cells) == 3} == with_each["attention"]


def test_an_example_that_no_method_takes_is_no_job() -> None:
    suite = parse(WHOLE.replace('["random"]', '[{ method = "attention", sizes = { longra = 3 } }]'), "x")
    assert len(missing_jobs(suite, RunSelection(limit=9))["smollm2"]) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('["random"]', '[{ method = "random", sizes.longra = 0 }]'), "sizes.longra"),
        (('["random"]', '[{ method = "random", sizes.wikibio = 1 }]'), "dataset of 'random'"),
        (('["random"]', '[{ method = "random", sizes = 3 }]'), "sizes"),
        (('methods = ["random"]', "methods = []"), "has no methods"),
        (('["random"]', '["radnom"]'), "unknown method 'radnom', did you mean 'random'"),
        (('["random"]', '["random", "random"]'), "names the label 'random' twice"),
        (('["random"]', '[{ method = "reagent", options = { runs = 3 } }]'), "has no option 'runs'"),
        (('["random"]', '[{ method = "random", replacer = "self" }]'), "replaces nothing"),
        (('["random"]', '[{ method = "lime", replacer = "rob" }]'), "unknown replacer 'rob'"),
        (('["random"]', '[{ method = "random", datasets = ["wikibio"] }]'), "dataset of 'random'"),
        (('["random"]', '[{ label = "x" }]'), "needs 'method'"),
        (('["random"]', '[{ method = "random", colour = 1 }]'), "no option 'colour'"),
        (('["longra"]', '[{ id = "longra", size = 0 }]'), "size"),
        (('["longra"]', '"longra"'), "must be a list"),
        (("models", "mdels"), "unknown entry of suite 'x' 'mdels'"),
        (('["longra"]', '["longra"]\nkind = "play"'), "unknown kind"),
        (('["longra"]', '["longra"]\nseeds = [-1]'), "seed"),
        (('["longra"]', '["longra"]\n[metrics]\nnames = ["soft"]'), "unknown metric 'soft'"),
        (('["longra"]', '["longra"]\n[metrics]\nnames = ["lds"]\ndraw = 3'), "unknown setting"),
        (('["longra"]', '["longra"]\n[metrics]\nnames = ["lds"]\ndraws = 1'), "draws"),
        (("models =", "models"), "is not TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(WHOLE.replace(*change), "x")


def test_suites_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'quick'"):
        load_suite("quik")
    with pytest.raises(FileError, match="cannot read the suite"):
        load_suite(str(tmp_path / "no.toml"))


def test_a_dataset_that_cannot_be_fetched_can_be_rehearsed(tmp_path: Path) -> None:
    missing = f'[{{ id = "wikibio", source = "{tmp_path / "none.jsonl"}", size = 100 }}]'
    suite = parse(WHOLE.replace('["longra"]', missing), "x")
    with pytest.raises(ReagentError):
        load_sources(suite)
    assert len(missing_jobs(suite, RunSelection())["smollm2"]) == 100


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("models = [{id = 'a', dtype = 5}]", "`dtype` of a model of suite 'x' must be text, got 5"),
        ("models = [{id = 'a', dtype = 'float8'}]", "unknown dtype of 'a'"),
        ("models = [{id = 'a', batch_size = 'x'}]", "`batch_size` of a model"),
        ("models = [{id = 'a', revision = 1}]", "`revision` of a model"),
        ("models = [{id = 5}]", "'id' of a model of suite 'x' must be a text, got 5"),
        ("datasets = [{id = 'longra', source = []}]", "`source` of a dataset"),
        ("datasets = [{id = 'longra', size = 1979-05-27}]", "`size` of a dataset"),
        ("methods = [{method = 'random', options = 3}]", "`options` of a method"),
        ("methods = [{method = 'random', datasets = 'longra'}]", "`datasets` of a method"),
        ("methods = [{method = 'random', sizes = [1]}]", "`sizes` of a method"),
        ("methods = [{method = 'reagent', preset = 7}]", "`preset` of a method"),
        ("methods = [{method = 'reagent', every = 5, options = {max_steps = 'x'}}]", "max_steps"),
        ("seeds = 5", "seeds of suite 'x' must be a list"),
        ("seeds = [1.5]", "seeds of suite 'x' must be a list"),
        ("sample_seed = 'a'", "seed"),
        ("name = 5", "name of suite 'x' must be a text"),
        ("metrics = {names = 'lds'}", "metrics of suite 'x'"),
        ("metrics = {names = ['lds'], replacer_options = 5}", "replacer_options of the metrics of suite 'x'"),
        ("metrics = {names = ['lds'], pi = [['a']]}", "pi of the metrics of suite 'x'"),
        ("metrics = {names = ['lds'], replacer = 5}", "replacer of the metrics of suite 'x'"),
    ],
)
def test_a_wrong_type_in_any_field_is_named(change: str, message: str) -> None:
    name = change.partition(" =")[0]
    lines = [line for line in WHOLE.splitlines() if not line.startswith(f"{name} =")]
    with pytest.raises(InputError) as error:
        parse("\n".join([change, *lines]), "x")
    assert message in str(error.value)
