"""The Hellinger distance: a true distance in [0, 1]."""

import numpy as np
import pytest

from reagent.metrics.hellinger import distances, hellinger


def distributions(count: int, size: int = 50, seed: int = 0) -> np.ndarray:
    """Log-probabilities, from flat to nearly certain."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(count, size)) * rng.uniform(0.1, 30, size=(count, 1))
    return (
        logits
        - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True))
        - logits.max(1, keepdims=True)
    )


def test_it_is_symmetric_between_0_and_1_and_obeys_the_triangle() -> None:
    p, q, r = (distributions(200, seed=s) for s in range(3))
    forth, back = hellinger(p, q), hellinger(q, p)
    assert (forth == back).all()
    assert (forth > 0).all()
    assert (forth <= 1).all()
    assert (forth <= hellinger(p, r) + hellinger(r, q) + 1e-12).all()


def test_it_is_0_only_for_equal_distributions() -> None:
    p = distributions(20)
    assert (hellinger(p, p) == 0).all()
    for step in (1e-3, 1e-6, 1e-9):  # where 1 − Σ √(pq) would long be rounding
        moved = np.log(np.exp(p) * (1 - step) + step / p.shape[1])
        assert (hellinger(p, moved) > 0).all()


def test_no_overlap_is_1() -> None:
    left, right = np.array([0.0, -np.inf]), np.array([-np.inf, 0.0])
    assert hellinger(left, right) == 1
    spread = np.log(np.full(100_000, 1e-5))
    apart = np.concatenate([spread, np.full(100_000, -np.inf)])
    assert hellinger(apart, apart[::-1]) == pytest.approx(1)
    assert hellinger(apart, apart[::-1]) <= 1


def test_it_is_the_textbook_formula() -> None:
    p, q = np.array([0.36, 0.48, 0.16]), np.array([0.30, 0.50, 0.20])
    by_hand = np.sqrt(1 - (np.sqrt(0.36 * 0.30) + np.sqrt(0.48 * 0.50) + np.sqrt(0.16 * 0.20)))
    assert hellinger(np.log(p), np.log(q)) == pytest.approx(by_hand, abs=1e-12)


def test_single_precision_is_good_enough() -> None:
    p, q = distributions(50, 5000, 3), distributions(50, 5000, 4)
    np.testing.assert_allclose(hellinger(p.astype(np.float32), q.astype(np.float32)), hellinger(p, q), atol=1e-6)
    assert hellinger(p.astype(np.float32), q.astype(np.float32)).dtype == np.float64


def test_a_target_of_several_tokens_has_the_mean_distance() -> None:
    p = distributions(6).reshape(2, 3, -1)
    reference = distributions(3, seed=9)
    expected = [np.mean([hellinger(p[b, k], reference[k]) for k in range(3)]) for b in range(2)]
    np.testing.assert_allclose(distances(p, reference), expected)
