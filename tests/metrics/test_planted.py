"""Where the truth is known, the true attribution is the best and its reverse the worst."""

from itertools import pairwise

import numpy as np
import pytest

from metrics.planted import PROMPT, STRENGTHS, Planted, explanation
from reagent.api.evaluate import evaluate, evaluate_together
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.rationale import Annotation

# Every metric that sees a ranking, and how large a step one draw may take against the truth.
NUMBERS = [
    ("soft_ns", "hellinger"),
    ("soft_nc", "hellinger"),
    ("pi_soft_ns", "hellinger"),
    ("pi_soft_nc", "hellinger"),
    ("comprehensiveness", "hellinger"),
    ("comprehensiveness", "nats"),
    ("sufficiency", "hellinger"),
    ("sufficiency", "nats"),
    ("lds", "spearman"),
    ("lds", "pearson"),
    ("ante", "found"),
    ("ante", "all"),
    ("no_d", "found"),
]


def marked() -> Annotation:
    """The strongest word is the antecedent, the weakest the distractor."""
    words = PROMPT.split()
    strongest, weakest = (words[int(pick(STRENGTHS))] for pick in (np.argmax, np.argmin))
    return Annotation.of_texts(PROMPT, strongest, weakest)


@pytest.fixture(scope="module")
def evaluations():
    """Of the truth, of its reverse, and of other orders of the same scores: all equally sharp."""
    model, rng = Planted(), np.random.default_rng(5)
    true = np.array(STRENGTHS)
    reverse = np.empty(len(true))
    reverse[np.argsort(true)] = np.sort(true)[::-1]
    orders = [true, reverse, *(rng.permutation(true) for _ in range(12))]
    explanations = [explanation(model, order.tolist(), effects=order.tolist()) for order in orders]
    settings = EvaluationConfig(annotation=marked(), draws=32, rationale=2, replacer="random")
    return evaluate_together(model, explanations, settings)


@pytest.mark.parametrize(("metric", "measure"), NUMBERS)
def test_the_true_attribution_is_best_and_its_reverse_worst(evaluations, metric: str, measure: str) -> None:
    results = [evaluation.result(metric, measure) for evaluation in evaluations]
    sign = 1 if results[0].higher_is_better else -1
    true, reverse, *others = [sign * result.value for result in results]
    assert true > reverse
    assert all(true >= other for other in others)
    assert all(reverse <= other for other in others)
    random = sign * results[0].random
    assert reverse < random < true


def test_lds_of_the_truth_is_nearly_one(evaluations) -> None:
    assert evaluations[0].result("lds", "pearson").value > 0.9
    assert evaluations[1].result("lds", "pearson").value < 0
    assert abs(evaluations[0].result("lds").random) < 0.2


def test_curves_are_kept_and_their_mean_is_the_number(evaluations) -> None:
    for metric in ("comprehensiveness", "sufficiency"):
        for measure in ("hellinger", "nats"):
            result = evaluations[0].result(metric, measure)
            assert [point.at for point in result.curve] == [0.05, 0.1, 0.2, 0.3, 0.5]
            assert result.value == pytest.approx(np.mean([point.value for point in result.curve]))
            assert result.random == pytest.approx(np.mean([point.random for point in result.curve]))
    rising = evaluations[0].result("comprehensiveness", "nats").curve  # each share has its own replacements
    assert all(a.value <= b.value + 2 * np.hypot(a.stderr, b.stderr) for a, b in pairwise(rising))


def test_scores_stand_in_for_effects_that_a_method_does_not_have() -> None:
    model = Planted()
    with_effects = explanation(model, STRENGTHS, effects=STRENGTHS)
    without = explanation(model, STRENGTHS)
    one, two = (evaluate(model, why, ["lds"], replacer="random").result("lds") for why in (with_effects, without))
    assert one.value == pytest.approx(two.value)


def test_negative_effects_order_what_has_no_score() -> None:
    """Scores are often positive effects: what is below zero still has an order."""
    model = Planted()
    scores = [max(0.0, s - 0.9) for s in STRENGTHS]
    plain = explanation(model, scores)
    ordered = explanation(model, scores, effects=[s - 0.9 for s in STRENGTHS])
    settings = EvaluationConfig(metrics=["comprehensiveness"], draws=64, replacer="random")
    a, b = (e.result("comprehensiveness", "nats").curve for e in evaluate_together(model, [plain, ordered], settings))
    assert a[0].value == b[0].value  # the strongest is known either way
    assert b[-1].value > a[-1].value  # at half of the words, three of them have no score
