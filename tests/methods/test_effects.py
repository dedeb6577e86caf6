"""Effects and their errors, against answers that are known."""

from dataclasses import replace

import numpy as np
import pytest

from reagent.case import Floats
from reagent.methods.effects import Design, _DualSolver, _guess, _Occurrences, _PrimalSolver, estimate
from reagent.sampling import sample_balanced

CANDIDATES = 10


def some_design(tokens: int, probes: int, seed: int, ratio: float = 0.1) -> Design:
    replaced, uniform = sample_balanced(
        tokens, max(1, round(ratio * tokens)), probes, CANDIDATES, np.random.default_rng(seed)
    )
    weights = np.full((tokens, CANDIDATES), 1 / CANDIDATES)
    return Design(replaced, (uniform * CANDIDATES).astype(np.int64), weights, np.zeros(tokens))


def answers(design: Design, cost: Floats, noise: float = 0.0, seed: int = 0) -> Floats:
    """What additive costs [tokens, candidates] make of the probes."""
    chosen = np.take_along_axis(cost, design.column.T, axis=1).T
    return (design.replaced * chosen).sum(1) + noise * np.random.default_rng([seed, 1]).normal(
        size=len(design.replaced)
    )


def some_costs(tokens: int, seed: int) -> Floats:
    """Few tokens matter, and by how much depends on what stands in for them."""
    rng = np.random.default_rng([seed, 2])
    size = np.zeros(tokens)
    size[rng.choice(tokens, 5, replace=False)] = [6, 4, 2, 1, 0.5]
    return size[:, None] * rng.gamma(4, 0.25, (tokens, CANDIDATES)) + 0.05 * rng.normal(size=(tokens, CANDIDATES))


def test_both_ways_of_computing_agree() -> None:
    design = some_design(20, 90, seed=0)
    y = answers(design, some_costs(20, 0), noise=0.3)
    found, start = _Occurrences.of(design), _guess(design, y)
    a, b = _DualSolver(found, y), _PrimalSolver(found, y)
    for x, z in zip(a.moments(start) + a.posterior(start), b.moments(start) + b.posterior(start), strict=True):
        np.testing.assert_allclose(x, z, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("probes", [60, 400])  # between probes, between effects
@pytest.mark.parametrize("seen", [20, 12])  # of twenty tokens: a target sees only those before it
def test_tokens_that_were_never_replaced_together_are_solved_apart(
    probes: int, seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = some_design(20, probes, seed=0, ratio=0.05)
    y = answers(design, some_costs(20, 0), noise=0.3)
    design = design.restrict(probes, seen)
    assert len(_Occurrences.of(design).parts(np.arange(seen))) == seen
    apart = estimate(design, y)
    monkeypatch.setattr(_Occurrences, "parts", lambda _, token: [np.arange(len(token))])
    for x, z in zip(apart, estimate(design, y), strict=True):
        np.testing.assert_allclose(x, z, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("probes", [64, 96, 256])
def test_95_percent_intervals_cover_the_truth(probes: int) -> None:
    inside = []
    for seed in range(40):
        design, cost = some_design(40, probes, seed), some_costs(40, seed)
        found = estimate(design, answers(design, cost, noise=0.3, seed=seed))
        largest = np.argsort(-cost.mean(1))[:5]
        inside.append((abs(found.mean - cost.mean(1)) < 1.96 * found.stderr)[largest])
    assert 0.94 <= np.mean(inside) <= 0.99  # cautious where noise is alike in all probes; real models are less tidy


def test_errors_are_wider_where_candidates_are_lopsided() -> None:
    tokens, turns = 12, 10
    even = 5 + np.tile([-1.0, 1.0], (tokens, CANDIDATES // 2))  # skewness 0
    ruinous = np.where(np.arange(CANDIDATES) == 3, 8.0, 5.0) + np.zeros((tokens, 1))  # one of ten: skewness 8 / 3
    design = some_design(tokens, tokens * turns, seed=0, ratio=0.01)
    assert _Occurrences.of(design).skewness(answers(design, even)) == pytest.approx(0, abs=1e-9)
    exact = np.sqrt(CANDIDATES * (CANDIDATES - 1)) / (CANDIDATES - 2) * 8 / 3  # as samples tell it
    assert _Occurrences.of(design).skewness(answers(design, ruinous)) == pytest.approx(exact)
    # With some candidates left to try: as much wider as it is lopsided.
    few = some_design(tokens, tokens * 5, seed=0, ratio=0.01)
    y = answers(few, some_costs(tokens, 0))
    found, skewness = estimate(few, y), _Occurrences.of(few).skewness(y)
    assert abs(skewness) > 0.1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Occurrences, "skewness", lambda *_: 0.0)
        np.testing.assert_allclose(found.stderr, estimate(few, y).stderr * (1 + skewness**2 / 5))
    # Of tokens that were replaced together, single costs are not seen.
    pairs = some_design(tokens, 60, seed=0, ratio=0.2)
    assert _Occurrences.of(pairs).skewness(answers(pairs, ruinous)) == 0


def test_errors_match_the_spread_over_seeds() -> None:
    cost = some_costs(40, 7)
    runs = []
    for seed in range(40):
        design = some_design(40, 128, seed)
        runs.append(estimate(design, answers(design, cost, noise=0.3, seed=seed)))
    spread = np.std([run.mean for run in runs], axis=0)
    claimed = np.sqrt(np.mean([run.stderr**2 for run in runs], axis=0))
    matters = cost.mean(1) > 0.3
    assert matters.sum() == 5
    assert 0.95 < np.sqrt((claimed[matters] ** 2).mean() / (spread[matters] ** 2).mean()) < 1.4


def test_with_every_candidate_of_every_token_seen_the_answer_is_exact() -> None:
    cost = some_costs(12, 3)
    design = some_design(12, 12 * CANDIDATES, seed=1, ratio=0.01)  # one token at a time
    assert design.replaced.sum(1).max() == 1
    found = estimate(design, answers(design, cost))
    np.testing.assert_allclose(found.mean, cost.mean(1), atol=0.01)
    assert found.stderr.max() < 0.01


def test_more_probes_mean_smaller_errors_not_larger_effects() -> None:
    cost = some_costs(40, 5)
    few, many = (some_design(40, n, 0) for n in (64, 512))
    a, b = (estimate(d, answers(d, cost, noise=0.5)) for d in (few, many))
    assert b.stderr.mean() < 0.6 * a.stderr.mean()
    assert a.mean.sum() == pytest.approx(b.mean.sum(), rel=0.25)


def test_it_beats_a_plain_ridge_on_few_probes() -> None:
    better = []
    for seed in range(20):
        design, cost = some_design(40, 64, seed), some_costs(40, seed)
        y, x = answers(design, cost, noise=0.5, seed=seed), design.replaced.astype(float)
        ridge = np.linalg.solve(x.T @ x + 3 * np.eye(40), x.T @ y)
        ours = estimate(design, y).mean
        better.append(np.corrcoef(ours, cost.mean(1))[0, 1] > np.corrcoef(ridge, cost.mean(1))[0, 1])
    assert np.mean(better) >= 0.8


def nearness(seed: int, power: float) -> tuple[float, float]:
    """How well 32 probes find costs that fall with a power of the distance: told in order, and in no order."""
    rng = np.random.default_rng([seed, 3])
    usual = np.arange(40, 0, -1.0) ** -power
    cost = np.tile((usual / usual.mean() * rng.exponential(size=40))[:, None], CANDIDATES)
    design, mixed = some_design(40, 32, seed), rng.permutation(40)
    y = answers(design, cost, noise=0.5, seed=seed)
    told = estimate(design, y).mean
    shuffled = replace(design, replaced=design.replaced[:, mixed], column=design.column[:, mixed])
    untold = estimate(shuffled, y).mean[np.argsort(mixed)]
    return np.corrcoef(told, cost[:, 0])[0, 1], np.corrcoef(untold, cost[:, 0])[0, 1]


@pytest.mark.parametrize(("power", "least", "most"), [(1.0, 0.01, 0.2), (0.0, -0.03, 0.03), (-1.0, 0.01, 0.2)])
def test_that_near_or_far_tokens_matter_more_is_learned_and_helps(power: float, least: float, most: float) -> None:
    gain = np.mean([told - untold for told, untold in (nearness(seed, power) for seed in range(40))])
    assert least < gain < most


@pytest.mark.parametrize("y", [np.zeros(16), np.full(16, 1e-9), np.full(16, 80.0)])
def test_answers_without_variation_break_nothing(y: Floats) -> None:
    found = estimate(some_design(10, 16, 0), y)
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.stderr).all()


@pytest.mark.parametrize(("tokens", "probes"), [(1, 1), (1, 5), (3, 1), (2, 300)])
def test_the_smallest_cases(tokens: int, probes: int) -> None:
    design = some_design(tokens, probes, 0)
    found = estimate(design, answers(design, np.ones((tokens, CANDIDATES))))
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.stderr).all()


def test_few_candidates_of_a_weighted_table_count_by_their_weight() -> None:
    design = some_design(6, 240, seed=2)
    weights = np.tile([0.82] + [0.02] * 9, (6, 1))
    column = np.where(np.random.default_rng(0).random(design.column.shape) < 0.82, 0, design.column)
    cost = np.tile([1.0] + [5.0] * 9, (6, 1))
    design = replace(design, column=column, weights=weights)
    found = estimate(design, answers(design, cost))
    np.testing.assert_allclose(found.mean, (weights * cost).sum(1), atol=0.3)
