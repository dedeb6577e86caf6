"""Soft-NS and Soft-NC as defined, and what their π variants are for."""

from dataclasses import replace

import numpy as np
import pytest

from metrics.planted import STRENGTHS, Planted, explanation
from reagent.api.evaluate import evaluate, evaluate_together
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.context import make_context
from reagent.metrics.soft import SOFT_METRICS, measure_soft, select

N = len(STRENGTHS)
SOFT = tuple(SOFT_METRICS)


def values(model: Planted, scores: list[float], **more: object) -> dict[str, float]:
    why = explanation(model, scores, shared=False)
    return {r.metric: r.value for r in evaluate(model, why, SOFT, **({"draws": 8} | more)).results}


# --- the definitions ---


def test_keeping_everything_is_soft_ns_1_and_removing_everything_soft_nc_1() -> None:
    found = values(Planted(), [1.0] * N)
    assert found["soft_ns"] == pytest.approx(1, abs=1e-6)
    assert found["soft_nc"] == pytest.approx(1, abs=1e-6)


def test_no_importance_keeps_nothing_and_removes_nothing() -> None:
    why = explanation(model := Planted(), [0.0] * N, shared=False)
    for result in evaluate(model, why, SOFT, draws=4).results:
        assert result.value == pytest.approx(0, abs=1e-6)
        assert result.stderr == pytest.approx(0, abs=1e-6)
        assert result.flags == (("too_few_positive",) if result.metric.startswith("pi_") else ())


def test_elements_are_kept_as_likely_as_the_score_says() -> None:
    model = Planted(width=4096)
    scores = [0.5, 0.25, 0.0, 0.1, 0.15, 0.0, 0.0, 0.0]
    context = make_context(model, [explanation(model, scores)], EvaluationConfig(draws=16))
    for name, expected in (("soft_ns", np.array(scores)), ("soft_nc", 1 - np.array(scores))):
        model.seen.clear()
        measure_soft(context, [name])
        own = [row for batch in model.seen[2:] for row in batch][0::2]  # explanation and random alternate
        kept = np.mean([(row != 0).mean(-1) for row in own], axis=0)
        np.testing.assert_allclose(kept, expected, atol=0.01)
        elements = own[0][0] != 0
        assert 0 < elements.mean() < 1, "elements, not whole vectors"
        untouched = own[0][np.abs(own[0]) > 0]
        assert set(np.unique(untouched)) <= {-1.0, 1.0}, "an element is kept as it is or removed"


def test_soft_ns_and_soft_nc_follow_their_formulas() -> None:
    """With a single word of all the strength, H depends on the share of its elements alone."""
    model = Planted([3.0, 0, 0, 0, 0, 0, 0, 0], width=20_000)

    def distance(share: float) -> float:
        def distribution(s: float) -> np.ndarray:
            weights = np.append(np.exp(3.0 * s), np.ones(59))
            return weights / weights.sum()

        return float(np.sqrt(0.5 * np.square(np.sqrt(distribution(1)) - np.sqrt(distribution(share))).sum()))

    found = values(model, [0.4, *[0.6 / 7] * 7])
    assert found["soft_ns"] == pytest.approx((distance(0) - distance(0.4)) / distance(0), abs=0.01)
    assert found["soft_nc"] == pytest.approx(distance(0.6) / distance(0), abs=0.01)


def test_protected_tokens_stay_whole_in_every_input_and_in_the_zero_input() -> None:
    model = Planted()
    why = explanation(model, [0.0, 1, 1, 1, 1, 1, 1, 0.0], protected=[0, 7])
    evaluate(model, why, SOFT, draws=4)
    rows = np.concatenate(model.seen)
    own = model.table[1 : N + 1]
    assert (rows[:, [0, 7]] == own[[0, 7]]).all()
    zero = model.seen[1][0]
    assert (zero[1:7] == 0).all()


def test_a_model_that_ignores_its_input_has_a_result_and_a_flag() -> None:
    model = Planted([0.0] * N)
    evaluation = evaluate(model, explanation(model, STRENGTHS), SOFT, draws=4)
    for result in evaluation.results:
        assert (result.value, result.stderr, result.random, result.ratio) == (0, 0, 0, None)
        assert "no_effect_of_input" in result.flags
    assert "NaN" not in evaluation.to_json()


def test_the_value_is_the_mean_of_clipped_draws_and_never_negative() -> None:
    model = Planted([2.0, -2.0, 1.5, -1.5, 1.0, -1.0, 0.5, -0.5], width=16)
    result = evaluate(model, explanation(model, [1.0] * N), ["soft_ns"], draws=64).result("soft_ns")
    assert result.value >= 0
    assert result.random >= 0


# --- equal selection ---


def softmax(logits: np.ndarray, temperature: float) -> np.ndarray:
    scores = np.exp((logits - logits.max()) / temperature)
    return scores / scores.sum()


@pytest.mark.parametrize("pi", [0.05, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_selected_shares_have_the_mean_pi_at_every_temperature(pi: float, seed: int) -> None:
    logits = np.random.default_rng(seed).normal(size=30)
    chosen = [select(softmax(logits, t), pi) for t in (0.02, 0.1, 1.0, 10.0, 100.0)]
    for one in chosen:
        assert one.flags == ()
        assert one.p.mean() == pytest.approx(pi, abs=1e-9)
        assert one.p.max() == 1
        np.testing.assert_allclose(one.p, chosen[2].p, atol=1e-6)
        assert (np.argsort(one.p) == np.argsort(logits)).all()


def test_units_count_as_many_tokens_as_they_have() -> None:
    scores, sizes = np.array([0.5, 0.3, 0.2]), np.array([1.0, 4.0, 5.0])
    chosen = select(scores, 0.3, sizes)
    assert chosen.p @ sizes / sizes.sum() == pytest.approx(0.3, abs=1e-9)


def test_too_few_scores_above_zero_are_all_selected_and_flagged() -> None:
    chosen = select(np.array([0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0.0]), 0.3)
    assert chosen.p.tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert chosen.flags == ("too_few_positive",)
    assert select(np.array([0.4, 0.3, 0.3, 0, 0, 0, 0, 0, 0, 0.0]), 0.3).flags == ()  # just enough
    assert select(np.zeros(4), 0.3).p.tolist() == [0, 0, 0, 0]


def test_a_shared_first_place_is_shared_out() -> None:
    chosen = select(np.full(10, 0.1), 0.3)
    np.testing.assert_allclose(chosen.p, 0.3)
    assert chosen.flags == ("tied",)
    chosen = select(np.array([0.2, 0.2, 0.2, 0.2, 0.1, 0.1]), 0.3)
    np.testing.assert_allclose(chosen.p, [0.45] * 4 + [0, 0])
    assert chosen.p.mean() == pytest.approx(0.3)


def test_extreme_scores_do_not_break_the_solution() -> None:
    tiny = np.array([1.0, 1e-300, 1e-301, 1e-302, 1e-303, 0.0])
    near = 1 + 1e-15 * np.arange(6)
    for scores in (tiny, near, near / near.sum(), np.array([1.0, 0.999999999, 1e-300, 0.5])):
        chosen = select(scores, 0.3)
        assert np.isfinite(chosen.p).all()
        assert chosen.p.mean() == pytest.approx(0.3, abs=1e-6)


def test_temperature_moves_soft_nc_and_not_pi_soft_nc() -> None:
    model = Planted()
    at = [explanation(model, softmax(np.array(STRENGTHS), t).tolist()) for t in (0.05, 0.3, 1.0, 10.0)]
    settings = EvaluationConfig(metrics=["soft_nc", "pi_soft_nc"], draws=16)
    found = evaluate_together(model, at, settings)
    moved = {name: np.ptp([e.result(name).value for e in found]) for name in ("soft_nc", "pi_soft_nc")}
    assert moved["soft_nc"] > 0.15
    assert moved["pi_soft_nc"] < 1e-6


def test_several_pi_give_a_curve_that_begins_with_the_number() -> None:
    model = Planted()
    result = evaluate(model, explanation(model, STRENGTHS), ["pi_soft_nc"], pi=[0.3, 0.1, 0.5], draws=8).results[0]
    assert [point.at for point in result.curve] == [0.3, 0.1, 0.5]
    assert result.value == result.curve[0].value
    assert result.curve[1].value < result.curve[0].value < result.curve[2].value
    alone = evaluate(model, explanation(model, STRENGTHS), ["pi_soft_nc"], draws=8).results[0]
    assert (alone.value, alone.stderr, alone.random) == (result.value, result.stderr, result.random)


# --- draws ---


def test_numbers_depend_on_the_seed_and_not_on_how_batches_are_cut() -> None:
    def numbers(seed: int = 0, rows: int = 64, names: tuple[str, ...] = SOFT) -> dict[str, tuple[float, ...]]:
        model = Planted(rows=rows)
        results = evaluate(model, explanation(model, STRENGTHS), names, draws=12, seed=seed).results
        return {r.metric: (r.value, r.stderr, r.random, r.random_stderr) for r in results}

    usual = numbers()
    assert usual == numbers()
    assert usual != numbers(seed=1)
    for other in (numbers(rows=1), numbers(rows=7), numbers(names=SOFT[::-1]), numbers(names=SOFT[2:])):
        for name, found in other.items():
            np.testing.assert_allclose(found, usual[name], atol=1e-6)


def test_explanations_evaluated_together_get_what_they_get_alone() -> None:
    model, rng = Planted(), np.random.default_rng(0)
    several = [explanation(model, rng.permutation(STRENGTHS).tolist()) for _ in range(3)]
    settings = EvaluationConfig(metrics=SOFT, draws=6)
    together = evaluate_together(model, several, settings)
    for why, found in zip(several, together, strict=True):
        (alone,) = evaluate_together(model, [why], settings)
        for one, other in zip(alone.results, found.results, strict=True):
            assert one.value == pytest.approx(other.value, abs=1e-6)
            assert one.random == pytest.approx(other.random, abs=1e-6)
    passes = together[0].cost["forward_passes"]
    assert passes == 1 + 2 + 6 * 4 * (3 + 1)


def test_the_error_is_honest_and_shrinks_with_the_root_of_the_draws() -> None:
    model = Planted(width=32)
    why = explanation(model, STRENGTHS)

    def run(draws: int, seed: int) -> tuple[float, float]:
        result = evaluate(model, why, ["soft_nc"], draws=draws, seed=seed).results[0]
        return result.value, result.stderr

    few, many = (np.array([run(draws, seed) for seed in range(60)]) for draws in (16, 144))
    assert few[:, 1].mean() / many[:, 1].mean() == pytest.approx(3, rel=0.15)
    for runs in (few, many):
        assert runs[:, 0].std(ddof=1) == pytest.approx(runs[:, 1].mean(), rel=0.3)


def test_without_a_number_of_draws_they_go_on_until_the_error_is_small() -> None:
    model = Planted(width=16)
    evaluation = evaluate(model, explanation(model, STRENGTHS), SOFT)
    assert all(result.stderr <= 0.01 for result in evaluation.results)
    assert all(result.random_stderr <= 0.02 for result in evaluation.results)
    draws = [result.draws for result in evaluation.results]
    assert max(draws) > min(draws) >= 32
    exact = evaluate(model, explanation(model, STRENGTHS), SOFT, draws=max(draws))
    again = next(r for r in exact.results if r.draws == evaluation.result(r.metric).draws)
    assert again.value == pytest.approx(evaluation.result(again.metric).value), "the draws are the same, by number"


def test_every_target_has_its_own_context_and_the_mean_is_theirs() -> None:
    model = Planted()
    why = explanation(model, STRENGTHS)
    case = model.case(why.prompt, " w0 w0 w0 w0 w0 w0 w0").with_logprobs(model)
    rows = tuple((*(s / sum(STRENGTHS) for s in STRENGTHS), *[0.0] * t) for t in range(7))
    cost = replace(why.cost, steps=(0,) * 7, stopped=("fixed",) * 7)
    longer = replace(why, completion=case.completion, output=case.output, scores=rows, cost=cost)
    evaluation = evaluate(model, longer, ["soft_nc"], draws=16)
    assert (evaluation.level, evaluation.targets) == ("sequence", (0, 5))
    result = evaluation.results[0]
    assert [target.index for target in result.targets] == [0, 5]
    assert result.value == pytest.approx(np.mean([target.value for target in result.targets]))
    assert result.stderr < max(target.stderr for target in result.targets)
    first = evaluate(model, longer, ["soft_nc"], draws=16, targets=[0])
    assert first.level == "token"
    assert first.results[0].value == pytest.approx(result.targets[0].value)
    assert evaluate(model, longer, ["soft_nc"], draws=2, stride=3).targets == (0, 3, 6)
