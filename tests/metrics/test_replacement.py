"""Comprehensiveness, sufficiency and lds: by replacement, on whole distributions and on black boxes."""

import numpy as np
import pytest

import reagent
from metrics.planted import STRENGTHS, Planted, explanation
from reagent.api.evaluate import evaluate, evaluate_together
from reagent.case import Case
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.lds import correlation
from reagent.models.base import Model
from reagent.replacers.base import Proposals, no_proposals
from reagent.testing.planted import WORDS, additive
from reagent.testing.scripted import ScriptedModel

REPLACED = ["comprehensiveness", "sufficiency"]
COSTS = (0.5, 0.0, 2.0, 0.3, 1.0, 0.1, 0.7, 0.2, 0.0, 0.4)
PROMPT = " ".join(WORDS[1:11])


def black_box() -> ScriptedModel:
    """What replacing each of ten words costs is known, whatever stands in its place."""
    costs = np.repeat(np.array(COSTS)[:, None], len(WORDS), axis=1)
    costs[np.arange(10), np.arange(1, 11)] = 0
    return additive(costs)


def of_costs(model: ScriptedModel, order: np.ndarray | None = None) -> reagent.Explanation:
    scores = np.array(COSTS) if order is None else np.array(COSTS)[order]
    return explanation(model, scores.tolist(), prompt=PROMPT, effects=scores.tolist())


def test_a_black_box_is_measured_exactly_by_the_target_alone() -> None:
    model = black_box()
    evaluation = evaluate(model, of_costs(model), draws=4, replacer="random")
    assert {r.measure for r in evaluation.results} == {"nats", "spearman", "pearson"}
    # 5, 10, 20, 30, 50 % of ten words are 1, 1, 2, 3 and 5 of them (0.5 is rounded up to at least one).
    best = np.sort(COSTS)[::-1]
    expected = [best[:k].sum() for k in (1, 1, 2, 3, 5)]
    curve = evaluation.result("comprehensiveness").curve
    np.testing.assert_allclose([point.value for point in curve], expected, atol=1e-9)
    rest = [best[k:].sum() for k in (1, 1, 2, 3, 5)]
    np.testing.assert_allclose([p.value for p in evaluation.result("sufficiency").curve], rest, atol=1e-9)
    assert evaluation.result("comprehensiveness").stderr == pytest.approx(0, abs=1e-9)
    assert evaluation.result("lds", "pearson").value == pytest.approx(1)
    assert [skipped.metric for skipped in evaluation.skipped][:4] == ["soft_ns", "soft_nc", "pi_soft_ns", "pi_soft_nc"]


def test_random_is_the_mean_over_all_orders() -> None:
    model = black_box()
    result = evaluate(model, of_costs(model), ["comprehensiveness"], draws=400, replacer="random").results[0]
    expected = np.mean([k * np.mean(COSTS) for k in (1, 1, 2, 3, 5)])
    assert result.random == pytest.approx(expected, abs=4 * result.random_stderr)
    assert 0 < result.random_stderr < 0.1
    assert result.ratio == pytest.approx(result.value / result.random)


def test_both_measures_come_from_one_pass_and_agree_with_the_black_box() -> None:
    model = Planted()
    why = explanation(model, STRENGTHS)

    class Closed(ScriptedModel):
        pass

    closed = Closed(model.vocabulary, model.logits)
    full = evaluate(model, why, REPLACED, draws=8, replacer="random")
    nats = evaluate(closed, why, REPLACED, draws=8, replacer="random")
    for name in REPLACED:
        assert full.result(name, "nats").value == pytest.approx(nats.result(name, "nats").value, abs=1e-5)
        assert 0 <= full.result(name, "hellinger").value <= 1
    # 1 for the text itself; 8 words have 1, 1, 2, 2 and 4 of them replaced, and a text is asked about once.
    assert full.cost["forward_passes"] <= 2 + 8 * 2 * 2 * 4


def test_every_number_goes_the_way_it_says() -> None:
    model = Planted()
    evaluation = evaluate(model, explanation(model, STRENGTHS), draws=8, replacer="random")
    better = {r.metric: r.higher_is_better for r in evaluation.results}
    assert not better.pop("sufficiency")
    assert all(better.values())


def test_equal_scores_are_ordered_by_chance_anew_for_every_draw() -> None:
    model = black_box()
    flat = explanation(model, [1.0] * 10, prompt=PROMPT)
    result = evaluate(model, flat, ["comprehensiveness"], draws=200, replacer="random").results[0]
    assert result.stderr > 0
    assert result.value == pytest.approx(np.mean([k * np.mean(COSTS) for k in (1, 1, 2, 3, 5)]), abs=0.3)


def test_protected_words_are_never_replaced() -> None:
    model = Planted()
    model.asked = []
    first = model.after_tokens
    model.after_tokens = lambda s, p: (model.asked.append(s.copy()), first(s, p))[1]
    why = explanation(model, [0, *STRENGTHS[1:7], 0], protected=[0, 7])
    evaluate(model, why, REPLACED, draws=6, replacer="random")
    texts = np.concatenate(model.asked)
    assert set(texts[:, 0]) == {1}
    assert set(texts[:, 7]) == {8}
    assert len(set(texts[:, 3])) > 3


class NoReplacer:
    """Proposes nothing."""

    @property
    def info(self) -> dict[str, str]:
        return {"id": "none"}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        del model, rng
        return no_proposals(case)


def test_where_nothing_can_be_replaced_there_is_a_result_and_a_flag() -> None:
    model = black_box()
    evaluation = evaluate(model, of_costs(model), draws=4, replacer=NoReplacer())
    assert len(evaluation.results) == 4
    for result in evaluation.results:
        assert (result.value, result.stderr, result.random) == (0, 0, 0)
        assert result.flags == ("nothing_to_replace",)


def test_explanations_share_the_draws() -> None:
    """Two explanations with the same ranking get the same number, not the same up to noise."""
    model = Planted()
    one, two = explanation(model, STRENGTHS), explanation(model, (np.array(STRENGTHS) ** 3).tolist())
    settings = EvaluationConfig(metrics=REPLACED, draws=4, replacer="random")
    a, b = evaluate_together(model, [one, two], settings)
    assert [r.value for r in a.results] == [r.value for r in b.results]
    (alone,) = evaluate_together(model, [two], settings)
    np.testing.assert_allclose([r.value for r in alone.results], [r.value for r in b.results], atol=1e-6)


def test_seeds() -> None:
    model = Planted()
    why = explanation(model, STRENGTHS)

    def numbers(seed: int) -> list[float]:
        return [
            r.value for r in evaluate(model, why, [*REPLACED, "lds"], draws=4, seed=seed, replacer="random").results
        ]

    assert numbers(0) == numbers(0)
    assert numbers(0) != numbers(1)


# --- lds ---


def test_lds_of_a_wrong_order_is_lower_and_of_none_is_flagged() -> None:
    model = black_box()
    right, wrong = of_costs(model), of_costs(model, np.random.default_rng(2).permutation(10))
    flat = explanation(model, [1.0] * 10, prompt=PROMPT)
    settings = EvaluationConfig(metrics=["lds"], replacer="random")
    best, worse, none = (e.result("lds") for e in evaluate_together(model, [right, wrong, flat], settings))
    assert best.value == pytest.approx(1, abs=1e-6)
    assert worse.value < 0.8
    assert worse.stderr > 0
    assert (none.value, none.flags) == (0, ("constant",))
    assert best.draws == 128
    assert abs(best.random) < 4 * best.random_stderr + 0.05


def test_lds_is_taken_over_probes_that_touch_the_target_and_shared_by_targets() -> None:
    model = black_box()
    why = reagent.explain(model, PROMPT, target=" w0 w0 w0 w0 w0 w0", probes=64, replacer="random")
    before = model.meter.forward_passes
    evaluation = evaluate(model, why, ["lds"], replacer="random", probes=40)
    assert model.meter.forward_passes - before == 1 + 40
    result = evaluation.result("lds")
    assert [target.index for target in result.targets] == [0, 5]
    assert result.targets[0].value == pytest.approx(1, abs=0.05)
    assert result.value == pytest.approx(np.mean([target.value for target in result.targets]))


def test_its_probes_are_not_those_of_the_explanation() -> None:
    """The same seed for both: the replacements still differ."""
    model = Planted()
    seen: list[np.ndarray] = []
    score = model.score
    model.score = lambda s, p, t: (seen.append(s.copy()), score(s, p, t))[1]
    why = reagent.explain(model, " ".join(f"w{i}" for i in range(1, 9)), target=" w0", probes=64, replacer="random")
    explained = {row.tobytes() for row in np.concatenate(seen)}
    seen.clear()
    evaluate(model, why, ["lds"], replacer="random", ratio=0.3)
    evaluated = {row.tobytes() for row in np.concatenate(seen[1:])}
    assert len(explained & evaluated) < 0.05 * len(evaluated)


def test_errors_of_lds_hold_the_chance_in_the_probes_random_s_too() -> None:
    """Over many seeds, values scatter as widely as they say, and random's lie around 0."""
    rng = np.random.default_rng(7)
    costs = rng.gamma(2, 0.5, (10, len(WORDS)))  # what stands in a word's place matters
    costs[np.arange(10), np.arange(1, 11)] = 0
    model = additive(costs)
    why = explanation(model, [1.0] * 10, prompt=PROMPT, effects=costs.mean(1).tolist())
    runs = [evaluate(model, why, ["lds"], seed=s, replacer="random", probes=40).result("lds") for s in range(24)]
    for of, error in (("value", "stderr"), ("random", "random_stderr")):
        scatter = np.std([getattr(run, of) for run in runs], ddof=1)
        reported = np.mean([getattr(run, error) for run in runs])
        assert 0.6 < reported / scatter < 1.7, of
    assert abs(np.mean([run.random for run in runs])) < 0.1


def test_correlation_agrees_with_scipy() -> None:
    from scipy import stats

    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, 40).astype(float)  # with ties
    y = x + rng.normal(size=40)
    assert correlation(x, y, True)[0] == pytest.approx(stats.spearmanr(x, y).statistic)
    assert correlation(x, y, False)[0] == pytest.approx(stats.pearsonr(x, y).statistic)
    assert correlation(x[:1], y[:1], True) == (0.0, True)


def test_a_target_without_effects_of_its_own_words_still_counts() -> None:
    """Rows differ in length: output words before the target are part of its context."""
    model = black_box()
    why = reagent.explain(model, PROMPT, target=" w0 w0 w0", probes=32, replacer="random")
    evaluation = evaluate(model, why, [*REPLACED, "lds"], targets=[2, -2], draws=4, replacer="random")
    assert evaluation.targets == (2, 1)
    assert evaluation.level == "sequence"
    with pytest.raises(reagent.ReagentError, match="no output token 7"):
        evaluate(model, why, ["lds"], targets=[7])
