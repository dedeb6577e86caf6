"""Metrics by name, by instance and from other packages; the example of the documentation, from start to end."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import reagent
from bench.small import write_suite
from metrics.planted import STRENGTHS, Planted, explanation
from reagent.api.evaluate import evaluate_together
from reagent.bench.runner import run
from reagent.bench.store import Store
from reagent.bench.suite import load_suite
from reagent.cli.app import app
from reagent.errors import InputError
from reagent.evaluation import Evaluation, Result
from reagent.metrics import METRICS, EvaluationConfig, EvaluationContext, Metric, find_metric, metric_names
from reagent.metrics.statistics import against_random
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers.base import Proposals
from reagent.report import write_report
from reagent.schemas import read_schema
from reagent.testing import check_metric
from reagent.views.evaluation import show

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
QUICK = {"draws": 8, "probes": 16, "replacer": "random"}


def documented_example() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return str(code)


@pytest.fixture
def namespace() -> dict[str, Any]:
    """The documented example, executed."""
    model = Planted()
    names: dict[str, Any] = {"model": model, "why": explanation(model, STRENGTHS)}
    exec(documented_example(), names)
    return names


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with the documented metric and some bad ones, as pip would install it."""
    code = documented_example().split("evaluation = ")[0] + "instance = TopUnitDrop()\n"
    (tmp_path / "drop_package.py").write_text(code)
    info = tmp_path / "drop_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: drop-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[reagent.metrics]\ntop_unit_drop = drop_package:TopUnitDrop\nother_name = drop_package:instance\n"
        "missing = drop_package:Missing\nno_metric = drop_package:reagent\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "top_unit_drop"


# --- names and instances ---


@pytest.mark.parametrize("name", METRICS)
def test_every_built_in_metric_has_the_interface(name: str) -> None:
    metric = find_metric(name)
    assert isinstance(metric, Metric)
    assert metric.id == name
    assert metric.needs in ("probabilities", "embeddings", "annotations")
    assert metric.summary
    assert metric.blind_to


@pytest.mark.parametrize("name", ["comprehensiveness", "sufficiency", "lds"])
def test_built_in_metrics_pass_the_conformance_suite(name: str) -> None:
    check_metric(METRICS[name])


def test_an_instance_is_accepted_wherever_a_name_is() -> None:
    model = Planted()
    why = explanation(model, STRENGTHS)
    by_name = reagent.evaluate(model, why, ["soft_nc", "lds"], **QUICK)
    by_instance = reagent.evaluate(model, why, [METRICS["soft_nc"], METRICS["lds"], "lds"], **QUICK)
    assert by_name.results == by_instance.results


def test_results_have_the_order_of_the_request() -> None:
    model = Planted()
    why = explanation(model, STRENGTHS)
    names = ["sufficiency", "lds", "soft_nc", "comprehensiveness", "soft_ns"]
    evaluation = reagent.evaluate(model, why, names, **QUICK)
    assert list(dict.fromkeys(result.metric for result in evaluation.results)) == names


def test_a_family_shares_its_forward_passes() -> None:
    def passes(names: list[str]) -> int:
        model = Planted()
        return int(reagent.evaluate(model, explanation(model, STRENGTHS), names, **QUICK).cost["forward_passes"])

    assert passes(["soft_ns", "soft_nc"]) == passes(["soft_ns"]) + 8 * 2  # the reference and the zero input only once
    assert passes(["comprehensiveness", "sufficiency"]) < passes(["comprehensiveness"]) + passes(["sufficiency"])


class Constant:
    """A metric that returns what it was created with."""

    summary, higher_is_better, needs, blind_to = "constant", False, "probabilities", "everything"

    def __init__(self, id: str, results: list[list[Result]]) -> None:
        self.id, self.results = id, results

    def check(self, model: object, config: object) -> None:
        pass

    def measure(self, context: EvaluationContext) -> list[list[Result]]:
        del context
        return self.results


def result(metric: str) -> Result:
    return Result(metric, "parts", False, 0.5, 0.0, 0.2, 0.0, draws=0, random_draws=0)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (Constant, "'Constant' of metrics needs arguments, give an instance"),
        (3, "3 is not a metric: give a name, or an object with id"),
        (Constant("lds", []), "'lds' is the id of a built-in metric"),
        (Constant("mine", []), "returned 0 lists of results for 1 explanations"),
        (Constant("mine", [[result("other")]]), "metric 'mine' returned a result of 'other'"),
    ],
)
def test_a_wrong_metric_is_one_clear_line(metric: Any, message: str) -> None:
    model = Planted()
    with pytest.raises(InputError, match=message):
        reagent.evaluate(model, explanation(model, STRENGTHS), [metric], **QUICK)


# --- the documented example ---


def test_the_documented_example_measures_what_it_says(namespace: dict[str, Any]) -> None:
    assert [r.metric for r in namespace["evaluation"].results] == ["lds", "lds", "top_unit_drop"]
    measured = namespace["evaluation"].result("top_unit_drop")
    assert (measured.measure, measured.draws, measured.higher_is_better) == ("nats", 16, True)

    def logprob(logit: float) -> float:
        return float(logit - np.log(np.exp(logit) + 59))  # the other 59 words have the logit 0

    drop = logprob(sum(STRENGTHS)) - logprob(sum(STRENGTHS) - max(STRENGTHS))
    assert measured.value == pytest.approx(drop, rel=0.1)
    assert 0 < measured.random < 0.7 * drop
    assert measured.random_stderr > 0
    assert [target.index for target in measured.targets] == [0]


def test_the_documented_example_passes_the_conformance_suite(namespace: dict[str, Any]) -> None:
    check_metric(namespace["TopUnitDrop"]())


def test_explanations_are_measured_together_on_equal_draws(namespace: dict[str, Any]) -> None:
    model, metric = namespace["model"], namespace["TopUnitDrop"]()
    best, worst = namespace["why"], explanation(model, [1 / s for s in STRENGTHS])
    config = EvaluationConfig(metrics=[metric], **QUICK)
    one, two = (e.results[0] for e in evaluate_together(model, [best, worst], config))
    (alone,) = evaluate_together(model, [worst], config)
    assert one.value > two.value
    assert one.random == two.random
    assert alone.results[0].value == pytest.approx(two.value)


def test_its_results_survive_json_and_are_shown(namespace: dict[str, Any], tmp_path: Path) -> None:
    evaluation = namespace["evaluation"]
    data = json.loads(evaluation.save(tmp_path / "e.json").read_text())
    schema = read_schema("evaluation")
    jsonschema.validate(data, schema)
    assert Evaluation.from_dict(data) == evaluation
    console = Console(record=True, width=120)
    show(evaluation, console)
    assert "top_unit_drop" in console.export_text()
    assert [c.metric for c in against_random([evaluation, evaluation])][-1] == "top_unit_drop"


def test_a_plugin_has_random_streams_of_its_own(namespace: dict[str, Any]) -> None:
    streams: list[float] = []

    class Draws(Constant):
        def measure(self, context: EvaluationContext) -> list[list[Result]]:
            streams.extend(context.rng(name).random() for name in ("mine", "mine", "yours", "soft"))
            return self.results

    reagent.evaluate(namespace["model"], namespace["why"], [Draws("mine", [[result("mine")]])])
    mine, again, yours, soft = streams
    assert mine == again
    assert len({mine, yours, soft}) == 3


def test_drops_replace_only_marked_units_that_have_proposals() -> None:
    model = Planted()
    why = explanation(model, [0.0, *STRENGTHS[1:]], protected=[0])
    drops: dict[str, np.ndarray] = {}

    class Probe(Constant):
        def measure(self, context: EvaluationContext) -> list[list[Result]]:
            marks = np.eye(context.units_before(0), dtype=bool)
            drops["single"], drops["none"] = context.drops(0, marks), context.drops(0, marks[:2] & False)
            assert isinstance(context.proposals, Proposals)
            return self.results

    reagent.evaluate(model, why, [Probe("mine", [[result("mine")]])], replacer="random")
    assert drops["none"] == pytest.approx([0, 0], abs=1e-6)
    assert drops["single"][0] == pytest.approx(0, abs=1e-6)
    assert np.argmax(drops["single"]) == np.argmax(STRENGTHS)


# --- metrics of other packages ---


def test_an_entry_point_makes_a_metric_known(installed: str) -> None:
    assert metric_names() == [*METRICS, "missing", "no_metric", "other_name", installed]
    assert find_metric(installed).id == installed
    model = Planted()
    why = explanation(model, STRENGTHS)
    assert reagent.evaluate(model, why, [installed], **QUICK).results[0].metric == installed
    assert installed not in {r.metric for r in reagent.evaluate(model, why, **QUICK).results}, "only on request"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("top_unit_drip", "unknown metric 'top_unit_drip', did you mean 'top_unit_drop'"),
        ("missing", "the metrics plugin 'missing' of drop-package cannot be loaded"),
        ("no_metric", "is not a metric"),
        ("other_name", "the metrics plugin 'other_name' has the id 'top_unit_drop'"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_a_wrong_entry_point_is_one_clear_line(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        EvaluationConfig(metrics=[name])


def test_the_command_line_takes_it_by_name(installed: str, tiny_model: HuggingFaceModel, tmp_path: Path) -> None:
    why = reagent.explain(tiny_model, "The river runs", max_new_tokens=1, probes=8, replacer="random")
    saved = why.save(tmp_path / "why.json")
    words = ["evaluate", str(saved), "--metrics", installed, "--draws", "2", "--replacer", "random", "--json", "-"]
    answer = CliRunner().invoke(app, words)
    assert [r["metric"] for r in json.loads(answer.stdout)["results"]] == [installed]


@pytest.mark.parametrize("others", ['"soft_nc", ', ""], ids=["with others", "alone"])
def test_benchmarks_and_reports_take_it_by_name(installed: str, others: str, tiny_folder: Path, tmp_path: Path) -> None:
    metrics = f'names = [{others}"{installed}"]\ndraws = 2\nreplacer = "random"'
    methods = '{ method = "random" }, { method = "attention" }'
    suite = load_suite(str(write_suite(tmp_path, [str(tiny_folder)], methods, metrics)))
    out = tmp_path / "run.sqlite"
    run(suite, out)
    with Store.open(out) as store:
        results = [cell.evaluation.result(installed) for cell in store.cells()]
    assert len(results) == 6
    assert {r.measure for r in results} == {"nats"}
    write_report(out, tmp_path / "report")
    lines = list(csv.DictReader((tmp_path / "report" / "data" / "results.csv").read_text().splitlines()))
    assert installed in {line["metric"] for line in lines}
