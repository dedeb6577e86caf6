"""`evaluate` as a whole: the choice of metrics, skipped metrics, JSON."""

import json
import math

import jsonschema
import pytest

import reagent
from metrics.planted import PROMPT, STRENGTHS, Planted, explanation
from reagent.api.evaluate import evaluate
from reagent.errors import CapabilityError, FileError, InputError
from reagent.evaluation import Evaluation, Result
from reagent.methods.base import Progress
from reagent.metrics import METRICS
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.rationale import Annotation
from reagent.metrics.soft import SOFT_METRICS
from reagent.models.base import Model
from reagent.models.huggingface import HuggingFaceModel
from reagent.schemas import read_schema
from reagent.testing.scripted import ScriptedModel

QUICK = {"draws": 4, "probes": 16, "replacer": "random"}


def black_box() -> ScriptedModel:
    planted = Planted()
    return ScriptedModel(planted.vocabulary, planted.logits)


def test_by_default_every_metric_that_needs_no_annotation() -> None:
    model = Planted()
    evaluation = evaluate(model, explanation(model, STRENGTHS), **QUICK)
    assert list(dict.fromkeys(r.metric for r in evaluation.results)) == list(METRICS)[:-2]
    assert [(s.metric, "annotation" in s.reason) for s in evaluation.skipped] == [("ante", True), ("no_d", True)]
    marked = Annotation.of_texts(PROMPT, "w2", "w8")
    everything = evaluate(model, explanation(model, STRENGTHS), annotation=marked, **QUICK)
    assert list(dict.fromkeys(r.metric for r in everything.results)) == list(METRICS)
    assert everything.skipped == ()


def test_results_say_what_the_list_says() -> None:
    model = Planted()
    marked = Annotation.of_texts(PROMPT, "w2", "w8")
    for result in evaluate(model, explanation(model, STRENGTHS), annotation=marked, **QUICK).results:
        assert result.higher_is_better == METRICS[result.metric].higher_is_better


def test_a_black_box_skips_what_it_cannot_do() -> None:
    model = black_box()
    why = explanation(model, STRENGTHS)
    evaluation = evaluate(model, why, **QUICK)
    reasons = {s.metric: s.reason for s in evaluation.skipped}
    for name in SOFT_METRICS:
        assert "reads embeddings and gives whole distributions, which 'scripted'" in reasons[name]
    before = model.meter.forward_passes
    with pytest.raises(CapabilityError, match=r"metric 'soft_nc' needs a model that .* 'scripted' \(scripted\)"):
        evaluate(model, why, ["lds", "soft_nc"])
    assert model.meter.forward_passes == before, "an error that is known beforehand costs nothing"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metrics": ["soft_nx"]}, "unknown metric 'soft_nx', did you mean"),
        ({"metrics": "soft_ns"}, "a list of names"),
        ({"metrics": []}, "no metric"),
        ({"draws": 1}, "`draws` of the evaluation must be a whole number from 2"),
        ({"stride": 0}, "stride"),
        ({"probes": 1}, "probes"),
        ({"rationale": 0}, "rationale"),
        ({"pi": 0.0}, "`pi` of the evaluation must be between"),
        ({"pi": [0.3, 1.5]}, "`pi` of the evaluation must be between"),
        ({"pi": []}, "no π"),
        ({"ratio": 0}, "ratio"),
        ({"seed": -1}, "seed"),
        ({"replacer": "robertta"}, "unknown replacer 'robertta'"),
        ({"targets": []}, "no target"),
        ({"targets": [3]}, "no output token 3"),
        ({"drawz": 3}, "evaluate has no option 'drawz'"),
    ],
)
def test_bad_settings_are_one_clear_line(given: dict[str, object], message: str) -> None:
    model = Planted()
    with pytest.raises(InputError, match=message):
        evaluate(model, explanation(model, STRENGTHS), **given)


def test_its_json_follows_the_schema_and_comes_back_equal(tmp_path) -> None:
    model = Planted()
    marked = Annotation.of_texts(PROMPT, "w2", "w8")
    evaluation = evaluate(model, explanation(model, STRENGTHS), annotation=marked, pi=[0.3, 0.1], **QUICK)
    data = json.loads(evaluation.save(tmp_path / "e.json").read_text())
    schema = read_schema("evaluation")
    jsonschema.validate(data, schema)
    assert Evaluation.from_dict(data) == evaluation
    assert data["schema"] == "reagent.evaluation/1"
    assert data["results"][0]["ratio"] == evaluation.results[0].ratio
    assert data["explanation"]["method"] == {"id": "by hand"}
    assert data["settings"]["replacer"]["id"] == "random"


@pytest.mark.parametrize(
    "change", [{"schema": "other/1"}, {"results": [{}]}, {"results": None}, {"skipped": [{"metric": 1}]}]
)
def test_what_is_not_a_whole_evaluation_is_refused(change: dict[str, object]) -> None:
    model = Planted()
    data = evaluate(model, explanation(model, STRENGTHS), ["lds"], **QUICK).to_dict()
    with pytest.raises(FileError):
        Evaluation.from_dict(data | change)
    flags = data["results"][0].pop("flags")
    with pytest.raises(FileError, match=r"'results\[0\]\.flags' is missing"):
        Evaluation.from_dict(data)
    data["results"][0]["flags"] = flags
    del data["model"]
    with pytest.raises(FileError, match="'model' is missing"):
        Evaluation.from_dict(data)


def test_no_number_is_ever_nan_or_infinite() -> None:
    with pytest.raises(InputError, match="finite"):
        Result("lds", "spearman", True, math.nan, 0, 0, 0, draws=1, random_draws=1)
    with pytest.raises(InputError, match="unknown flags"):
        Result("lds", "spearman", True, 0, 0, 0, 0, draws=1, random_draws=1, flags=("odd",))
    for scores in ([0.0] * 8, [1.0] * 8, [1.0, *[0.0] * 7]):
        for model in (Planted(), Planted([0.0] * 8), Planted([40.0, *[0.0] * 7]), black_box()):
            why = explanation(model, scores, shared=False)
            json.loads(evaluate(model, why, **QUICK).to_json(), parse_constant=pytest.fail)


def test_progress_counts_passes_up_to_the_end() -> None:
    model, seen = Planted(), list[Progress]()
    evaluation = evaluate(model, explanation(model, STRENGTHS), on_progress=seen.append, **QUICK)
    done = [now.done for now in seen]
    assert done == sorted(done)
    assert all(now.done <= now.total and now.unit == "passes" for now in seen)
    assert seen[-1].done == seen[-1].total
    assert evaluation.cost["forward_passes"] <= seen[-1].done + 3


def test_settings_have_defaults_that_need_nothing() -> None:
    assert EvaluationConfig().pis == (0.3,)
    assert EvaluationConfig().info["stride"] == 5


def test_a_result_is_found_by_name_and_measure() -> None:
    model = Planted()
    evaluation = evaluate(model, explanation(model, STRENGTHS), ["comprehensiveness"], **QUICK)
    assert evaluation.result("comprehensiveness").measure == "hellinger"
    assert evaluation.result("comprehensiveness", "nats").measure == "nats"
    with pytest.raises(InputError, match="no lds here, only: comprehensiveness"):
        evaluation.result("lds")


def test_a_ratio_to_what_may_be_nothing_is_none() -> None:
    def ratio(random: float, error: float) -> float | None:
        return Result("lds", "spearman", True, 0.8, 0.1, random, error, draws=2, random_draws=2).ratio

    assert ratio(0.2, 0.01) == pytest.approx(4)
    assert ratio(0.01, 0.01) is None
    assert ratio(0.0, 0.0) is None
    assert ratio(-0.1, 0.01) is None


def test_a_name_of_a_model_will_do(tiny_folder, tiny_model: HuggingFaceModel) -> None:
    why = reagent.explain(tiny_model, "The river runs", max_new_tokens=1, probes=8, replacer="random")
    by_name = evaluate(str(tiny_folder), why, ["lds"], probes=8, replacer="random")
    assert by_name.result("lds").value == pytest.approx(
        evaluate(tiny_model, why, ["lds"], probes=8, replacer="random").result("lds").value, abs=1e-4
    )


# --- the embedded model ---


def test_the_default_number_of_draws_is_precise_on_the_demo_prompt(smollm2: Model, prompt: str) -> None:
    """One of them: benchmarks/draws.py measures them all."""
    why = reagent.explain(smollm2, prompt, max_new_tokens=1, method="attention")
    result = evaluate(smollm2, why, ["pi_soft_ns"]).result("pi_soft_ns")
    assert result.stderr <= 0.01
    assert result.random_stderr <= 0.02
    assert result.value > result.random
