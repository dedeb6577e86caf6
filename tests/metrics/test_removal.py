"""Comprehensiveness, sufficiency and lds by deletion and replacement, and groups that are credited."""

from dataclasses import replace

import numpy as np
import pytest

import reagent
from metrics.planted import STRENGTHS, Planted, explanation
from reagent.api.evaluate import evaluate, evaluate_together
from reagent.errors import CapabilityError, InputError
from reagent.explanation import Explanation, Group
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.lds import _sample, group_surplus
from reagent.metrics.replacement import keep_groups_together
from reagent.testing.planted import all_of, any_of, mentions
from reagent.testing.scripted import ScriptedModel

PROMPT = "w5 w1 w2 w3 w4 w6 w7 w5 w8 w9"  # w5 is mentioned twice
FIRST, SECOND = 0, 7
SHARES = (0.1, 0.3, 0.5)


def log_probability(*logits: float) -> float:
    """Of the first of these tokens, among 20 words of which the others have logit 0."""
    return float(logits[0] - np.log(np.exp(logits).sum() + 20 - len(logits)))


# The planted models predict "w0" with logit 3 while a cause is there and 0 otherwise; its rival has 1.5.
LOST = log_probability(3, 1.5) - log_probability(0, 1.5)


def redundant_model(removal: str) -> ScriptedModel:
    """Either mention is enough. Deletion moves words, so that only their presence may count there."""
    return any_of({FIRST: 5, SECOND: 5}) if removal == "replace" else mentions("w5")


def redundant(*units: int, effect: float = LOST, single: float = 0.0) -> Group:
    return Group(units=units, kind="redundant", effect=effect, stderr=None, single=single)


def with_groups(why: Explanation, *groups: Group) -> Explanation:
    return replace(why, groups=(groups,))


# --- lds ---


@pytest.mark.parametrize("removal", ["replace", "delete"])
@pytest.mark.parametrize("ratio", [0.3, 0.5])
def test_lds_credits_a_group_that_single_effects_cannot_show(removal: str, ratio: float) -> None:
    model = redundant_model(removal)
    scores = [0.5, *[0.0] * 6, 0.5, 0.0, 0.0]
    silent = explanation(model, scores, prompt=PROMPT, effects=[0.0] * 10)  # the truth, one at a time
    settings = EvaluationConfig(metrics=["lds"], ratio=ratio, removal=removal, replacer="random")
    explanations = [silent, with_groups(silent, redundant(FIRST, SECOND))]
    without, reported = (
        e.result("lds", f"pearson_{removal}_{ratio * 100:g}") for e in evaluate_together(model, explanations, settings)
    )
    assert (without.value, without.flags) == (0, ("constant",))
    assert reported.value == pytest.approx(1)
    assert reported.random == without.random


def test_lds_credits_a_complementary_group() -> None:
    """AND: both losses overlap, because the answer is lost after the first."""
    model = all_of({1: 1, 3: 3})
    full, one, none = (log_probability(3 * k, 4.5) for k in (2, 1, 0))
    effects = [0.0] * 10
    effects[1] = effects[3] = full - one
    why = explanation(model, effects, prompt=PROMPT, effects=effects)
    pair = Group(units=(1, 3), kind="complementary", effect=full - none, stderr=None, single=2 * (full - one))
    settings = EvaluationConfig(metrics=["lds"], ratio=0.5, replacer="random")
    without, reported = (
        e.result("lds", "pearson_replace_50").value
        for e in evaluate_together(model, [why, with_groups(why, pair)], settings)
    )
    assert reported == pytest.approx(1)
    assert without < 0.9999


def test_a_method_without_effects_gets_no_credit_for_groups() -> None:
    model = any_of({FIRST: 5, SECOND: 5})
    plain = explanation(model, [0.5, *[0.0] * 6, 0.4, 0.1, 0.0], prompt=PROMPT)
    settings = EvaluationConfig(metrics=["lds"], ratio=0.5, replacer="random")
    a, b = evaluate_together(model, [plain, with_groups(plain, redundant(FIRST, SECOND))], settings)
    assert a.results == b.results


def test_the_joint_effect_of_a_larger_group_includes_the_smaller_one() -> None:
    free = np.arange(4)
    pair, triple = redundant(0, 1, effect=3.0, single=1.0), redundant(0, 1, 2, effect=5.0, single=1.5)
    removed = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1], [1, 1, 1, 1]], dtype=bool)
    assert group_surplus([pair, triple], free, removed).tolist() == [2.0, 3.5, 0.0, 3.5]
    assert group_surplus([pair], np.array([0, 2, 3]), removed[:, 1:]).tolist() == [0] * 4, "unit 1 cannot be removed"
    assert group_surplus([], free, removed).tolist() == [0] * 4


def test_lds_has_a_measure_for_each_share_and_removal_and_the_usual_one_keeps_its_value() -> None:
    model = mentions("w5")
    why = explanation(model, [0.5, 0.1, *[0.0] * 5, 0.4, 0.0, 0.0], prompt=PROMPT)
    usual = evaluate(model, why, ["lds"], replacer="random", probes=40)
    before = model.meter.forward_passes
    both = evaluate(model, why, ["lds"], replacer="random", probes=40, ratio=SHARES, removal=["replace", "delete"])
    assert [r.measure for r in both.results if r.measure.startswith("spearman")] == [
        "spearman", "spearman_replace_30", "spearman_replace_50",
        "spearman_delete_10", "spearman_delete_30", "spearman_delete_50",
    ]  # fmt: skip
    assert both.results[:2] == usual.results
    assert 1 + 3 * 40 < model.meter.forward_passes - before <= 1 + 6 * 40  # equal deletions are scored once
    assert both.settings["ratio"] == [0.1, 0.3, 0.5]
    assert both.settings["removal"] == ["replace", "delete"]
    config = EvaluationConfig(metrics=["lds"], probes=40, ratio=SHARES, removal=["replace", "delete"])
    assert config.requested_metrics[0].estimate_passes(config, 1, 1) == 6 * 40


@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.8])
def test_a_large_share_is_exactly_that_share(ratio: float) -> None:
    removed, uniform = _sample(10, ratio, 50, 1, np.random.default_rng(0))
    assert set(removed.sum(1)) == {round(10 * ratio)}
    assert uniform.shape == removed.shape
    assert len(np.unique(removed, axis=0)) > 20


def test_lds_at_several_targets_by_deletion() -> None:
    """Earlier output words are deleted, too, and a target sees only what was deleted before it."""
    model = mentions("w5")
    why = reagent.explain(model, PROMPT, target=" w0 w0 w0", probes=32, replacer="random")
    result = evaluate(model, why, ["lds"], targets=[0, 1], removal="delete", ratio=0.5).result("lds")
    assert [target.index for target in result.targets] == [0, 1]
    assert result.measure == "spearman_delete_50"


# --- comprehensiveness and sufficiency ---

# 5, 10, 20, 30 and 50 % of ten words are 1, 1, 2, 3 and 5 of them. The second mention has rank 5.
RANKED = [0.3, 0.2, 0.15, 0.12, 0.05, 0.03, 0.03, 0.1, 0.01, 0.01]


@pytest.mark.parametrize("removal", ["replace", "delete"])
def test_members_of_a_redundant_group_are_removed_together(removal: str) -> None:
    model, suffix = redundant_model(removal), "" if removal == "replace" else "_delete"
    plain = explanation(model, RANKED, prompt=PROMPT)
    settings = EvaluationConfig(
        metrics=["comprehensiveness", "sufficiency"], removal=removal, replacer="random", draws=4
    )
    without, reported = evaluate_together(model, [plain, with_groups(plain, redundant(FIRST, SECOND))], settings)

    def curve(evaluation: reagent.Evaluation, metric: str) -> list[float]:
        return [point.value for point in evaluation.result(metric, f"nats{suffix}").curve]

    np.testing.assert_allclose(curve(without, "comprehensiveness"), [0, 0, 0, 0, LOST], atol=1e-9)
    np.testing.assert_allclose(curve(reported, "comprehensiveness"), [0, 0, LOST, LOST, LOST], atol=1e-9)
    # One mention is enough to keep the answer, so the group changes nothing.
    np.testing.assert_allclose(curve(without, "sufficiency"), [0] * 5, atol=1e-9)
    assert curve(reported, "sufficiency") == curve(without, "sufficiency")
    assert reported.result("comprehensiveness").random == without.result("comprehensiveness").random


def test_other_groups_and_explanations_without_groups_keep_their_order() -> None:
    order, free = np.array([[2, 0, 1, 3], [3, 1, 0, 2]]), np.array([4, 6, 7, 9])
    complementary = Group(units=(4, 9), kind="complementary", effect=1.0, stderr=None, single=2.0)
    assert keep_groups_together(order, [complementary], free) is order
    assert keep_groups_together(order, [redundant(7, 9)], free).tolist() == [[2, 3, 0, 1], [3, 2, 1, 0]]
    assert keep_groups_together(order, [redundant(5, 9)], free).tolist() == order.tolist(), "unit 5 cannot be removed"
    two = [redundant(6, 7), redundant(6, 9)]
    assert keep_groups_together(order, two, free).tolist() == [[2, 1, 0, 3], [3, 1, 0, 2]]


def test_deletion_gives_nats_without_errors_and_replacement_what_it_gave() -> None:
    model = Planted()
    why = explanation(model, STRENGTHS)
    names = ["comprehensiveness", "sufficiency"]
    usual = evaluate(model, why, names, replacer="random", draws=6)
    both = evaluate(model, why, names, replacer="random", draws=6, removal=["replace", "delete"])
    assert [(r.metric, r.measure) for r in both.results] == [
        (name, measure) for name in names for measure in ("hellinger", "nats", "nats_delete")
    ]
    assert [r for r in both.results if r.measure != "nats_delete"] == list(usual.results)
    for name in names:
        deleted = both.result(name, "nats_delete")
        assert deleted.stderr == pytest.approx(0, abs=1e-12), "only ties are random"
        assert deleted.random_stderr > 0


def test_deletion_alone_needs_no_replacer() -> None:
    class Refuses:
        info = {"id": "refuses"}  # noqa: RUF012

        def propose(self, *_: object) -> None:
            raise AssertionError("there is nothing to replace")

    model = mentions("w5")
    why = explanation(model, RANKED, prompt=PROMPT)
    names = ["comprehensiveness", "sufficiency", "lds"]
    evaluation = evaluate(model, why, names, removal="delete", replacer=Refuses(), draws=4)
    assert {r.measure for r in evaluation.results} == {"nats_delete", "spearman_delete_10", "pearson_delete_10"}


def test_the_cost_of_removals_is_estimated() -> None:
    def passes(**settings: object) -> float:
        config = EvaluationConfig(metrics=["sufficiency"], draws=8, **settings)
        return config.requested_metrics[0].estimate_passes(config, 1, 3)

    assert passes() == 8 * 5 * (3 + 1)
    assert passes(removal="delete") == 5 * (8 + 3)
    assert passes(removal=["replace", "delete"]) == passes() + passes(removal="delete")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"removal": "burn"}, "unknown removal 'burn'"),
        ({"removal": []}, "no share or no removal"),
        ({"ratio": []}, "no share or no removal"),
        ({"ratio": [0.1, 0]}, "`ratio` of the evaluation must be between"),
        ({"ratio": "much"}, "`ratio` of the evaluation must be a number"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        EvaluationConfig(**settings)


def test_masking_needs_a_model_that_can() -> None:
    model = mentions("w5")
    why = explanation(model, RANKED, prompt=PROMPT)
    for name in ("lds", "comprehensiveness"):
        with pytest.raises(CapabilityError, match="mask"):
            evaluate(model, why, [name], removal="mask")
