"""Effects and standard errors, against planted truths."""

from dataclasses import replace

import numpy as np
import pytest

from reagent.case import Floats
from reagent.methods.effects import Design, _DualSolver, _initial_variances, _ObservedPairs, _PrimalSolver, estimate
from reagent.sampling import sample_balanced

CANDIDATES = 10


def some_design(tokens: int, probes: int, seed: int, ratio: float = 0.1) -> Design:
    replaced, uniform = sample_balanced(
        tokens, max(1, round(ratio * tokens)), probes, CANDIDATES, np.random.default_rng(seed)
    )
    weights = np.full((tokens, CANDIDATES), 1 / CANDIDATES)
    return Design(replaced, (uniform * CANDIDATES).astype(np.int64), weights, np.zeros(tokens))


def responses(design: Design, cost: Floats, noise: float = 0.0, seed: int = 0) -> Floats:
    """Responses to the probes if costs [tokens, candidates] are additive."""
    chosen = np.take_along_axis(cost, design.column.T, axis=1).T
    return (design.replaced * chosen).sum(1) + noise * np.random.default_rng([seed, 1]).normal(
        size=len(design.replaced)
    )


def some_costs(tokens: int, seed: int) -> Floats:
    """Few tokens matter, and their costs differ between candidates."""
    rng = np.random.default_rng([seed, 2])
    size = np.zeros(tokens)
    size[rng.choice(tokens, 5, replace=False)] = [6, 4, 2, 1, 0.5]
    return size[:, None] * rng.gamma(4, 0.25, (tokens, CANDIDATES)) + 0.05 * rng.normal(size=(tokens, CANDIDATES))


def test_both_solvers_agree() -> None:
    design = some_design(20, 90, seed=0)
    y = responses(design, some_costs(20, 0), noise=0.3)
    pairs, start = _ObservedPairs.of(design), _initial_variances(design, y)
    a, b = _DualSolver(pairs, y), _PrimalSolver(pairs, y)
    for x, z in zip(a.moments(start) + a.posterior(start), b.moments(start) + b.posterior(start), strict=True):
        np.testing.assert_allclose(x, z, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("probes", [60, 400])  # dual solver, primal solver
@pytest.mark.parametrize("seen", [20, 12])  # tokens of twenty that precede the target
def test_tokens_that_were_never_replaced_together_are_solved_apart(
    probes: int, seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = some_design(20, probes, seed=0, ratio=0.05)
    y = responses(design, some_costs(20, 0), noise=0.3)
    design = design.restrict(probes, seen)
    assert len(_ObservedPairs.of(design).independent_parts(np.arange(seen))) == seen
    apart = estimate(design, y)
    monkeypatch.setattr(_ObservedPairs, "independent_parts", lambda _, token: [np.arange(len(token))])
    for x, z in zip(apart, estimate(design, y), strict=True):
        np.testing.assert_allclose(x, z, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("probes", [64, 96, 256])
def test_95_percent_intervals_cover_the_truth(probes: int) -> None:
    inside = []
    for seed in range(40):
        design, cost = some_design(40, probes, seed), some_costs(40, seed)
        result = estimate(design, responses(design, cost, noise=0.3, seed=seed))
        largest = np.argsort(-cost.mean(1))[:5]
        inside.append((abs(result.mean - cost.mean(1)) < 1.96 * result.stderr)[largest])
    assert 0.94 <= np.mean(inside) <= 0.99  # conservative here: all probes have the same noise


def test_errors_are_wider_where_candidates_are_skewed() -> None:
    tokens, replicates = 12, 10
    even = 5 + np.tile([-1.0, 1.0], (tokens, CANDIDATES // 2))  # skewness 0
    skewed = np.where(np.arange(CANDIDATES) == 3, 8.0, 5.0) + np.zeros((tokens, 1))  # one of ten: skewness 8 / 3
    design = some_design(tokens, tokens * replicates, seed=0, ratio=0.01)
    assert _ObservedPairs.of(design).skewness(responses(design, even)) == pytest.approx(0, abs=1e-9)
    exact = np.sqrt(CANDIDATES * (CANDIDATES - 1)) / (CANDIDATES - 2) * 8 / 3  # of a sample
    assert _ObservedPairs.of(design).skewness(responses(design, skewed)) == pytest.approx(exact)
    # With some candidates not tried, errors are wider by the factor of the skewness.
    few = some_design(tokens, tokens * 5, seed=0, ratio=0.01)
    y = responses(few, some_costs(tokens, 0))
    result, skewness = estimate(few, y), _ObservedPairs.of(few).skewness(y)
    assert abs(skewness) > 0.1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ObservedPairs, "skewness", lambda *_: 0.0)
        np.testing.assert_allclose(result.stderr, estimate(few, y).stderr * (1 + skewness**2 / 5))
    # The costs of tokens that were replaced together are not observed separately.
    pairs = some_design(tokens, 60, seed=0, ratio=0.2)
    assert _ObservedPairs.of(pairs).skewness(responses(pairs, skewed)) == 0


def test_errors_match_the_spread_over_seeds() -> None:
    cost = some_costs(40, 7)
    runs = []
    for seed in range(40):
        design = some_design(40, 128, seed)
        runs.append(estimate(design, responses(design, cost, noise=0.3, seed=seed)))
    spread = np.std([run.mean for run in runs], axis=0)
    claimed = np.sqrt(np.mean([run.stderr**2 for run in runs], axis=0))
    matters = cost.mean(1) > 0.3
    assert matters.sum() == 5
    assert 0.95 < np.sqrt((claimed[matters] ** 2).mean() / (spread[matters] ** 2).mean()) < 1.4


def test_the_mean_is_exact_if_every_candidate_was_tried() -> None:
    cost = some_costs(12, 3)
    design = some_design(12, 12 * CANDIDATES, seed=1, ratio=0.01)  # one token at a time
    assert design.replaced.sum(1).max() == 1
    result = estimate(design, responses(design, cost))
    np.testing.assert_allclose(result.mean, cost.mean(1), atol=0.01)
    assert result.stderr.max() < 0.01


def test_more_probes_mean_smaller_errors_not_larger_effects() -> None:
    cost = some_costs(40, 5)
    few, many = (some_design(40, n, 0) for n in (64, 512))
    a, b = (estimate(d, responses(d, cost, noise=0.5)) for d in (few, many))
    assert b.stderr.mean() < 0.6 * a.stderr.mean()
    assert a.mean.sum() == pytest.approx(b.mean.sum(), rel=0.25)


def test_it_beats_a_plain_ridge_on_few_probes() -> None:
    better = []
    for seed in range(20):
        design, cost = some_design(40, 64, seed), some_costs(40, seed)
        y, x = responses(design, cost, noise=0.5, seed=seed), design.replaced.astype(float)
        ridge = np.linalg.solve(x.T @ x + 3 * np.eye(40), x.T @ y)
        ours = estimate(design, y).mean
        better.append(np.corrcoef(ours, cost.mean(1))[0, 1] > np.corrcoef(ridge, cost.mean(1))[0, 1])
    assert np.mean(better) >= 0.8


def distance_agreement(seed: int, power: float) -> tuple[float, float]:
    """Correlation with costs that fall with a power of the distance, from 32 probes: tokens in order, and shuffled."""
    rng = np.random.default_rng([seed, 3])
    typical = np.arange(40, 0, -1.0) ** -power
    cost = np.tile((typical / typical.mean() * rng.exponential(size=40))[:, None], CANDIDATES)
    design, mixed = some_design(40, 32, seed), rng.permutation(40)
    y = responses(design, cost, noise=0.5, seed=seed)
    ordered = estimate(design, y).mean
    shuffled = replace(design, replaced=design.replaced[:, mixed], column=design.column[:, mixed])
    unordered = estimate(shuffled, y).mean[np.argsort(mixed)]
    return np.corrcoef(ordered, cost[:, 0])[0, 1], np.corrcoef(unordered, cost[:, 0])[0, 1]


@pytest.mark.parametrize(("power", "least", "most"), [(1.0, 0.01, 0.2), (0.0, -0.03, 0.03), (-1.0, 0.01, 0.2)])
def test_learning_the_power_of_the_distance_helps(power: float, least: float, most: float) -> None:
    gain = np.mean(
        [ordered - unordered for ordered, unordered in (distance_agreement(seed, power) for seed in range(40))]
    )
    assert least < gain < most


@pytest.mark.parametrize("y", [np.zeros(16), np.full(16, 1e-9), np.full(16, 80.0)])
def test_responses_without_variation_give_finite_effects(y: Floats) -> None:
    result = estimate(some_design(10, 16, 0), y)
    assert np.isfinite(result.mean).all()
    assert np.isfinite(result.stderr).all()


@pytest.mark.parametrize(("tokens", "probes"), [(1, 1), (1, 5), (3, 1), (2, 300)])
def test_the_smallest_cases(tokens: int, probes: int) -> None:
    design = some_design(tokens, probes, 0)
    result = estimate(design, responses(design, np.ones((tokens, CANDIDATES))))
    assert np.isfinite(result.mean).all()
    assert np.isfinite(result.stderr).all()


def test_few_candidates_of_a_weighted_table_count_by_their_weight() -> None:
    design = some_design(6, 240, seed=2)
    weights = np.tile([0.82] + [0.02] * 9, (6, 1))
    column = np.where(np.random.default_rng(0).random(design.column.shape) < 0.82, 0, design.column)
    cost = np.tile([1.0] + [5.0] * 9, (6, 1))
    design = replace(design, column=column, weights=weights)
    result = estimate(design, responses(design, cost))
    np.testing.assert_allclose(result.mean, (weights * cost).sum(1), atol=0.3)
