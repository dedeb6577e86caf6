"""The surrogate: known functions of removed units are recovered, and standard errors cover the truth."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal

from reagent.case import Floats, Mask
from reagent.methods.surrogate import (
    DENSE,
    FEWER_ITERATIONS,
    MAX_ITERATIONS,
    SPARSE,
    Priors,
    Surrogate,
    _centred,
    _flat_covariance,
    _negative_log_posterior,
)


def random_sets(probes: int, units: int, seed: int = 0) -> Mask:
    return np.random.default_rng(seed).random((probes, units)) < 0.6


def redundant_pair(removed: Mask) -> Floats:
    return 5.0 * (removed[:, 0] & removed[:, 1]) + 2.0 * removed[:, 3]


@pytest.mark.parametrize("priors", [SPARSE, DENSE])
def test_the_gradient_is_the_derivative(priors: Priors) -> None:
    removed = random_sets(40, 9)
    drops = redundant_pair(removed)
    x = _centred(removed)
    args = (x, drops / drops.std(), priors, _flat_covariance(x, x))
    for seed in range(3):
        point = np.random.default_rng(seed).normal(size=10) - 1
        error = check_grad(
            lambda p: _negative_log_posterior(p, *args)[0], lambda p: _negative_log_posterior(p, *args)[1], point
        )
        assert error < 1e-3


def test_the_posterior_is_that_of_a_gaussian_process() -> None:
    """Up to a constant, against the density of scipy and a covariance that is added up over all terms."""
    removed = random_sets(30, 5)
    x, y, units = _centred(removed), redundant_pair(removed), range(5)
    trend = 2 * x.mean(1)
    differences = []
    for seed in range(4):
        parameters = np.random.default_rng(seed).normal(size=6) - 1
        *w, noise = np.exp(parameters)
        covariance = noise * np.eye(30) + 9.0 * (1 + np.outer(trend, trend))
        covariance += sum(w[i] * np.outer(x[:, i], x[:, i]) for i in units)
        pairs = [(i, j, x[:, i] * x[:, j]) for i in units for j in units if i < j]
        covariance += sum(SPARSE.pair_variance * w[i] * w[j] * np.outer(xx, xx) for i, j, xx in pairs)
        prior = -SPARSE.sparsity * sum(w) - (np.log(noise / SPARSE.noise_median) / SPARSE.noise_spread) ** 2 / 2
        expected = multivariate_normal(cov=covariance).logpdf(y) + prior
        differences.append(_negative_log_posterior(parameters, x, y, SPARSE, _flat_covariance(x, x))[0] + expected)
    assert differences == pytest.approx([differences[0]] * 4, abs=1e-8)


def test_fewer_iterations_predict_other_probes_as_well() -> None:
    errors: dict[int, list[float]] = {MAX_ITERATIONS: [], FEWER_ITERATIONS: []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        removed = random_sets(90, 30, seed)
        drops = redundant_pair(removed) + removed @ np.where(rng.random(30) < 0.3, rng.normal(0, 2, 30), 0.0)
        drops += rng.normal(0, 0.5, 90)
        for iterations, found in errors.items():
            surrogate = Surrogate.fit(removed[:60], drops[:60], iterations=iterations)
            found.append(float(np.std(surrogate.mean_effects()(removed[60:]) - drops[60:])))
    assert np.mean(errors[FEWER_ITERATIONS]) < 1.05 * np.mean(errors[MAX_ITERATIONS])


def test_a_redundant_pair_and_a_single_cause_are_recovered() -> None:
    removed = random_sets(60, 12)
    surrogate = Surrogate.fit(removed, redundant_pair(removed))
    values, _ = surrogate.shapley_values()
    assert values[[0, 1, 3]] == pytest.approx([2.5, 2.5, 2.0], abs=0.3)
    assert abs(np.delete(values, [0, 1, 3])).max() < 0.1
    sets = np.zeros((3, 12), dtype=np.bool_)
    sets[0, 0] = sets[1, [0, 1]] = sets[2, 3] = True
    effects, errors = surrogate.effects(sets)
    assert effects == pytest.approx([0.0, 5.0, 2.0], abs=0.5)
    assert (errors > 0).all()
    pairs = surrogate.interactions()
    assert np.unravel_index(pairs.argmax(), pairs.shape) in {(0, 1), (1, 0)}


def test_few_causes_among_many_units_need_few_probes() -> None:
    removed = random_sets(80, 300)
    drops = 4.0 * removed[:, 17] + 3.0 * (removed[:, 100] & removed[:, 250])
    values, _ = Surrogate.fit(removed, drops).shapley_values()
    assert set(np.argsort(-values)[:3].tolist()) == {17, 100, 250}


def test_intervals_cover_the_truth() -> None:
    """Over functions drawn like the model assumes: sparse single terms, pairs of those, noise."""
    covered: list[bool] = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        single = np.where(rng.random(25) < 0.25, rng.normal(0, 2, 25), 0.0)
        pairs = np.triu(np.outer(single, single) * rng.normal(0, 0.15, (25, 25)), 1)

        def value(removed: Mask, single: Floats = single, pairs: Floats = pairs) -> Floats:
            return np.asarray(removed @ single + np.einsum("ki,ij,kj->k", removed, pairs, removed))

        removed = random_sets(70, 25, seed)
        surrogate = Surrogate.fit(removed, value(removed) + rng.normal(0, 0.5, 70))
        sets = np.concatenate([np.eye(25, dtype=np.bool_), random_sets(25, 25, 100 + seed)])
        effects, errors = surrogate.effects(sets)
        covered += (abs(effects - value(sets)) <= 1.96 * errors + 1e-3).tolist()
    assert 0.88 <= np.mean(covered) <= 0.995


def test_constant_drops_have_no_effects() -> None:
    removed = random_sets(20, 6)
    values, errors = Surrogate.fit(removed, np.zeros(20)).shapley_values()
    assert np.isfinite(errors).all()
    assert values == pytest.approx(np.zeros(6))


def test_many_probes_are_fitted_in_part_and_all_used() -> None:
    removed = random_sets(700, 8)
    drops = redundant_pair(removed) + np.random.default_rng(1).normal(0, 0.5, 700)
    many, few = (Surrogate.fit(removed[:count], drops[:count]) for count in (700, 100))
    assert len(many.x) == 700
    assert (many.shapley_values()[1] < few.shapley_values()[1]).all()
