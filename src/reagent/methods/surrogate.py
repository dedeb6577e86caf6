"""A surrogate of the model: a Gaussian process over sets of removed units.

The drop y(R) of a target when the units of a set R are removed is modelled as a sum of a constant, a trend with the
share of removed units, one term for each unit and one for each pair of units. With x_i = ½ if unit i is removed and
−½ if it is kept:

    y(R) = c + d · share(R) + Σ_i a_i x_i + Σ_{i<j} b_ij x_i x_j + noise

All coefficients are random: var(a_i) = w_i and var(b_ij) = κ w_i w_j. Each unit has its own variance w_i, so a few
units may matter much while most matter hardly (automatic relevance determination). The noise covers interactions of
more than two units. The variances are the maximum of their posterior density. Priors keep them moderate where probes
are few: an exponential prior favours w_i near 0, and the noise has a log-normal prior.

Everything that is reported about the target is linear in y and has a posterior mean and a standard error:

- the effect of removing any set of units together,
- the Shapley value of unit i. For terms of at most two units it is a_i + d / n: the mean effect of removing the unit
  over the sets of removed units, where a set has every size with equal probability.

The number of probes that the surrogate needs grows with the number of units that matter and with log n (as in sparse
regression), not with n.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import minimize

from reagent.case import Floats, Mask

FLAT_VARIANCE = 9.0  # of the constant and of the trend, in units of the variance of the drops: almost no shrinkage
MAX_ITERATIONS = 80
FEWER_ITERATIONS = 40  # for one of many targets: drops of other probes are predicted as well as after 80
MOST_FITTED = 320  # probes from which the variances are estimated: the time grows with the cube of their number


class Priors(NamedTuple):
    """Of the variances, in units of the variance of the drops."""

    sparsity: float  # rate of the exponential prior of the unit variances
    pair_variance: float  # κ
    noise_median: float  # of the log-normal prior of the noise …
    noise_spread: float  # … and the standard deviation of its logarithm


SPARSE = Priors(3.0, 0.1, 0.3, 0.5)  # many units, few of which matter
DENSE = Priors(0.1, 1.0, 0.05, 1.0)  # few units, most of which matter, also in pairs


@dataclass(frozen=True)
class Surrogate:
    """The fitted process; drops are divided by `scale` inside."""

    x: Floats  # [probes, units], ± ½
    variance: Floats  # w, [units]
    noise: float
    scale: float
    factor: Floats  # lower Cholesky factor of the covariance of the drops
    weights: Floats  # inverse covariance times the drops, [probes]
    priors: Priors

    @classmethod
    def fit(
        cls,
        removed: Mask,
        drops: Floats,
        priors: Priors = SPARSE,
        start: "Surrogate | None" = None,
        iterations: int = MAX_ITERATIONS,
    ) -> "Surrogate":
        """Estimate the variances from probes [probes, units] and their drops [probes].

        `start` is the surrogate of earlier probes, which makes the search shorter.
        """
        if len(removed) > MOST_FITTED:
            some = np.linspace(0, len(removed) - 1, MOST_FITTED).astype(np.int64)
            return cls.fit(removed[some], drops[some], priors, start, iterations).with_probes(removed, drops)
        x = _centred(removed)
        scale = float(drops.std()) or 1.0
        y, units = drops / scale, x.shape[1]
        low, high = np.append(np.full(units, -14.0), -7.0), np.append(np.full(units, 3.0), 1.0)  # log-variances
        variance = np.full(units, 4 / units) if start is None else start.variance
        noise = priors.noise_median if start is None else start.noise
        found = minimize(
            _negative_log_posterior,
            np.clip(np.log(np.append(variance, noise)), low, high),
            args=(x, y, priors, _flat_covariance(x, x)),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": iterations},
        )
        variance, noise = np.exp(found.x[:-1]), float(np.exp(found.x[-1]))
        return cls._condition(x, y, variance, noise, scale, priors)

    def with_probes(self, removed: Mask, drops: Floats) -> "Surrogate":
        """The same variances, conditioned on these probes instead."""
        return self._condition(
            _centred(removed), drops / self.scale, self.variance, self.noise, self.scale, self.priors
        )

    @classmethod
    def _condition(
        cls, x: Floats, y: Floats, variance: Floats, noise: float, scale: float, priors: Priors
    ) -> "Surrogate":
        covariance = _covariance(x, x, variance, priors)
        covariance[np.diag_indices_from(covariance)] += noise
        factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        return cls(x, variance, noise, scale, factor, cho_solve((factor, True), y), priors)

    def effects(self, removed: Mask) -> tuple[Floats, Floats]:
        """Drop when each of the given sets is removed, [sets, units], and its standard error."""
        x, origin = _centred(removed), np.full((1, self.x.shape[1]), -0.5)
        w, priors = self.variance, self.priors
        across = _covariance(x, self.x, w, priors) - _covariance(origin, self.x, w, priors)
        own = _own_variance(x, w, priors) + _own_variance(origin, w, priors)
        own -= 2 * _covariance(x, origin, w, priors)[:, 0]
        return self._posterior(across, own)

    def mean_effects(self) -> Callable[[Mask], Floats]:
        """A function that predicts the drops of many sets, [sets, units], faster than `effects`."""
        units, w, z, alpha = self.x.shape[1], self.variance, self.x, self.weights
        linear = w * (z.T @ alpha) + FLAT_VARIANCE * (2 * z.mean(1) @ alpha) * 2 / units
        scaled = z * w
        pairs = self.priors.pair_variance / 2 * (scaled.T @ (scaled * alpha[:, None]))
        linear, pairs = linear * self.scale, pairs * self.scale
        origin = np.full(units, -0.5)
        offset = origin @ linear + origin @ pairs @ origin

        def predict(removed: Mask) -> Floats:
            x = _centred(removed)
            return np.asarray(x @ linear + ((x @ pairs) * x).sum(1) - offset)

        return predict

    def shapley_values(self) -> tuple[Floats, Floats]:
        """The Shapley value of each unit, in the unit of the drops, and its standard error."""
        units = self.x.shape[1]
        across = self.variance[:, None] * self.x.T + FLAT_VARIANCE * 2 * self.x.mean(1) * (2 / units)
        return self._posterior(across, self.variance + FLAT_VARIANCE * (2 / units) ** 2)

    def interactions(self) -> Floats:
        """Posterior mean of b_ij, [units, units]: positive for redundant units, whose joint removal costs more."""
        pairs = np.outer(self.variance, self.variance) * (self.x.T @ (self.x * self.weights[:, None]))
        np.fill_diagonal(pairs, 0.0)
        return np.asarray(self.priors.pair_variance * pairs * self.scale)

    def _posterior(self, across: Floats, own: Floats) -> tuple[Floats, Floats]:
        """Mean and standard error of quantities with the given covariance with the drops and prior variance."""
        half = solve_triangular(self.factor, across.T, lower=True)
        variance = np.maximum(own - (half * half).sum(0), 0.0)
        return across @ self.weights * self.scale, np.sqrt(variance) * self.scale


def _centred(removed: Mask) -> Floats:
    """½ for a removed unit, −½ for a kept one."""
    return np.where(removed, 0.5, -0.5)


def _covariance(x: Floats, z: Floats, variance: Floats, priors: Priors) -> Floats:
    """Prior covariance of the drops of two lists of sets, without noise."""
    return _unit_covariance((x * variance) @ z.T, variance, priors) + _flat_covariance(x, z)


def _unit_covariance(single: Floats, variance: Floats, priors: Priors) -> Floats:
    """The part of the covariance from the units and their pairs, where `single` is the part from the units."""
    pairs = (single**2 - np.sum(variance**2) / 16) / 2  # x² = ¼, so that Σ w_i² x_i² z_i² is constant
    return np.asarray(single + priors.pair_variance * pairs)


def _flat_covariance(x: Floats, z: Floats) -> Floats:
    """The part of the covariance from the constant and the trend."""
    return np.asarray(FLAT_VARIANCE * (1 + np.outer(2 * x.mean(1), 2 * z.mean(1))))


def _own_variance(x: Floats, variance: Floats, priors: Priors) -> Floats:
    """The diagonal of `_covariance(x, x)`."""
    single = variance.sum() / 4
    pairs = (single**2 - np.sum(variance**2) / 16) / 2
    return np.asarray(single + priors.pair_variance * pairs + FLAT_VARIANCE * (1 + (2 * x.mean(1)) ** 2))


def _negative_log_posterior(
    parameters: Floats, x: Floats, y: Floats, priors: Priors, flat: Floats
) -> tuple[float, Floats]:
    """Of the logarithms of the unit variances and of the noise, and its gradient; `flat` is `_flat_covariance(x, x)`.

    It is computed about a hundred times for each target, so it calls LAPACK without the wrappers of scipy, which take
    longer than small matrices do.
    """
    variance, noise = np.exp(parameters[:-1]), float(np.exp(parameters[-1]))
    single = (x * variance) @ x.T
    covariance = _unit_covariance(single, variance, priors) + flat
    covariance.flat[:: len(y) + 1] += noise
    factor, failed = dpotrf(covariance, lower=True, clean=False)
    if failed:
        raise np.linalg.LinAlgError("the covariance of the drops is not positive definite")
    weights, inverse = dpotrs(factor, y, lower=True)[0], dpotrs(factor, np.eye(len(y)), lower=True)[0]
    log_noise = (parameters[-1] - np.log(priors.noise_median)) / priors.noise_spread
    value = 0.5 * y @ weights + np.log(factor.diagonal()).sum()
    value += priors.sparsity * variance.sum() + 0.5 * log_noise**2
    slope = np.outer(weights, weights) - inverse  # twice the derivative of the log-likelihood by the covariance
    by_variance = np.einsum("ki,ki->i", x, (slope * (1 + priors.pair_variance * single)) @ x)
    by_variance -= priors.pair_variance * variance * slope.sum() / 16
    gradient = np.append(
        (priors.sparsity - 0.5 * by_variance) * variance,
        log_noise / priors.noise_spread - 0.5 * np.trace(slope) * noise,
    )
    return float(value), gradient
