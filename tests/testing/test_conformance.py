"""The conformance suites pass what is right and name what is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from reagent.case import Case, Ids, TargetScores
from reagent.methods import (
    Attention,
    Attribution,
    Exact,
    Greedy,
    InputXGradient,
    Lime,
    Method,
    Occlusion,
    RandomScores,
    ReagentFast,
    ReagentPaper,
    Shapley,
)
from reagent.methods.base import ProgressCallback, no_progress
from reagent.metrics import find_metric, measure_scores
from reagent.models.base import Model
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers import Proposals, Replacer, make_replacer
from reagent.testing import ScriptedModel, all_of, any_of, check_method, check_metric, check_model, check_replacer

METHODS = [
    ReagentFast(probes=48),
    ReagentPaper(max_steps=300, top_k=1),
    Lime(samples=64),
    Lime(samples=64, removal="delete"),
    Occlusion(draws=2),
    Occlusion(removal="delete"),
    Exact(),
    Exact(removal="replace", draws=1),
    Shapley(permutations=4),
    Shapley(permutations=4, removal="delete"),
    Greedy(draws=1),
    Greedy(removal="delete"),
]


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_the_methods_of_the_package_conform(method: Method) -> None:
    check_method(method)


MORE_THAN_PROBABILITIES = [
    InputXGradient(),
    Attention("last"),
    Lime(samples=32, removal="mask"),
    Occlusion(removal="mask"),
    Shapley(permutations=2, removal="mask"),
    Greedy(removal="mask"),
]


@pytest.mark.parametrize("method", MORE_THAN_PROBABILITIES, ids=repr)
def test_methods_that_need_more_than_probabilities_conform(tiny_model: HuggingFaceModel, method: Method) -> None:
    check_method(method, tiny_model)


def test_a_baseline_conforms_and_does_not_claim_to_find_causes() -> None:
    check_method(RandomScores(), finds_causes=False)


@dataclass(frozen=True)
class Broken:
    """Uniform scores, with one rule of the contract broken."""

    rule: str

    @property
    def info(self) -> dict[str, Any]:
        return {"rule": self.rule} | ({"array": np.zeros(2)} if self.rule == "provenance" else {})

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        del proposals, on_progress
        rows = [self.row(case, len(case.input) + t, rng) for t in range(len(case.output))]
        if self.rule == "uncounted passes":
            model.score(case.ids[None], case.positions, case.targets)
        if self.rule == "replaces protected":
            ids = case.ids.copy()
            ids[0] = ids[1]
            model.score(ids[None], case.positions, case.targets)
        probes = int(self.rule == "replaces protected")
        count = len(case.output)
        return Attribution(rows, [0] * count, ["fixed"] * count, [[] for _ in rows], probes, 0)

    def row(self, case: Case, length: int, rng: np.random.Generator) -> Any:
        del rng
        free = (~case.protected[:length]).astype(float)
        if self.rule == "protected score":
            free[:] = 1.0
        if self.rule == "global randomness":
            free *= np.random.random(length)
        return free / free.sum() * (0.5 if self.rule == "not a distribution" else 1)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("provenance", "plain JSON"),
        ("uncounted passes", "the model counted 1 passes"),
        ("replaces protected", "must never be replaced"),
        ("protected score", "must have the score 0"),
        ("global randomness", "without global randomness"),
        ("not a distribution", "must be a distribution"),
        ("finds nothing", "the only cause is at position 2"),
    ],
)
def test_a_broken_method_is_told_which_rule_it_breaks(rule: str, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_method(Broken(rule))


@pytest.mark.parametrize("name", ["self", "infill", "pos", "random"])
def test_the_replacers_of_the_package_conform(name: str, tiny_model: HuggingFaceModel) -> None:
    check_replacer(make_replacer(name))
    check_replacer(make_replacer(name), tiny_model)


@dataclass(frozen=True)
class BrokenReplacer:
    """Breaks one rule after another."""

    rule: str

    @property
    def info(self) -> Mapping[str, Any]:
        return {} if self.rule == "no id" else {"id": "broken"}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        rng = np.random.default_rng() if self.rule == "own randomness" else rng
        good = make_replacer("random", candidates=3).propose(model, case, rng)
        if self.rule == "original":
            return replace(good, ids=np.repeat(case.ids[:, None], 3, axis=1))
        if self.rule == "protected":
            return replace(
                good, ids=np.where(good.ids == case.ids[:, None], 19, good.ids), weights=np.ones_like(good.weights)
            )
        if self.rule == "weights":
            return replace(good, weights=good.weights * np.nan)
        return good


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("no id", "must name its id"),
        ("original", "original token must not be proposed"),
        ("protected", "protected tokens must have no proposals"),
        ("weights", "weights must be finite"),
        ("own randomness", "same random generator"),
    ],
)
def test_a_broken_replacer_is_told_which_rule_it_breaks(rule: str, sentence: str) -> None:
    broken: Replacer = BrokenReplacer(rule)
    with pytest.raises(AssertionError, match=sentence):
        check_replacer(broken)


def test_models_of_the_package_conform(tiny_model: HuggingFaceModel) -> None:
    check_model(tiny_model)
    check_model(all_of({0: 1}), "w1 w2 w3")
    check_model(any_of({0: 1, 1: 2}), "w1 w2 w3")


class BrokenModel(ScriptedModel):
    """Breaks one rule of the contract of a model."""

    def __init__(self, rule: str) -> None:
        super().__init__(["a", "b", "c"], lambda context: 3.0 * (context[:, -1:] == np.arange(3)))
        self.rule = rule

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "broken"} if self.rule == "no backend" else super().info

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        if self.rule == "sees the future":
            logprob, rank = super().score(sequences, positions, targets)
            return TargetScores(logprob - 0.1 * (sequences[:, -1:] == 0), rank)
        if self.rule == "changes its input":
            scores = super().score(sequences, positions, targets)
            sequences += 1
            return scores
        scores = super().score(sequences, positions, targets)
        if self.rule == "does not count":
            self.meter.forward_passes -= len(sequences)
        if self.rule == "mixes the batch":
            return TargetScores(np.tile(scores.logprob.mean(0), (len(sequences), 1)), scores.rank)
        return TargetScores(-scores.logprob, scores.rank) if self.rule == "positive" else scores


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("no backend", "id and backend"),
        ("changes its input", "must not change the array"),
        ("does not count", "one pass per sequence"),
        ("positive", "not positive"),
        ("mixes the batch", "others in its batch"),
        ("sees the future", "tokens before it only"),
    ],
)
def test_a_broken_model_is_told_which_rule_it_breaks(rule: str, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_model(BrokenModel(rule), "a b c")


class TopDrop:
    """The drop when the best unit is replaced; `rule` names what is wrong with it."""

    id, higher_is_better, needs = "top_drop", True, "probabilities"
    summary, blind_to = "drop in log-probability when the best unit is replaced", "all other units"

    def __init__(self, rule: str = "") -> None:
        self.rule = rule
        self.calls = 0

    def check(self, model: Model, config: Any) -> None:
        """Every model gives probabilities."""

    def measure(self, context: Any) -> Any:
        self.calls += 1

        def drop(t: int, scores: Any) -> Any:
            drops = context.drops(t, scores == scores.max(1, keepdims=True))
            return -drops if self.rule == "wrong direction" else drops + self.calls * (self.rule == "changes")

        return measure_scores(context, self, "nats", drop)


def test_metrics_conform() -> None:
    check_metric(TopDrop())
    check_metric(find_metric("comprehensiveness"))


@pytest.mark.parametrize(
    ("rule", "sentence"), [("wrong direction", "must not be worse than a wrong one"), ("changes", "the same seed")]
)
def test_a_broken_metric_is_told_which_rule_it_breaks(rule: str, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_metric(TopDrop(rule))
