"""Effects of single tokens, with standard errors, estimated from probes that may replace several tokens at once.

Model. Probe k replaces the tokens j of a set R_k, each by one of its candidates c, and lowers the log-probability of
the target by y_k. Replacing nothing has no effect, so there is no intercept:

    y_k = Σ_{j ∈ R_k} (a_j + b_jc) + noise

a_j is the effect of the token and b_jc the deviation of its candidate c. Both are random effects. Each token has its
own variances, so a few tokens may have large effects while most have almost none.

Estimation. The variances, and with them the shrinkage, are estimated by EM (empirical Bayes). Two further parameters
are learned and set the prior variance of a token before its own probes are seen. The first is the power of the
distance to the target with which variances fall: tokens near the target tend to matter more. The second is the ratio
of candidate variance to token variance: the candidates of a token with a large effect tend to differ more. The
reported effect is the mean over the candidates, a_j + Σ_c w_jc b_jc.

Noise. The noise is the interaction between tokens. If every probe replaces one token there is none, because the same
text always gets the same log-probability; only the candidates that were not tried are uncertain. If the candidates of
a token are themselves a sample of a larger set (for example the alternatives of a sentence), their mean has the error
variance var(b_jc) / (number of candidates), even when all of them were tried.

Standard errors. Two variances are added, which is conservative. The posterior variance covers the shrinkage and the
candidates that were not tried, but assumes the same noise variance in every probe. The second, a
heteroscedasticity-consistent (HC2) variance, is computed from the residuals, because interactions make some probes
much noisier than others. The effect of a token rests on the few probes that replaced it, so the standard error is
multiplied by the ratio of the quantiles of Student's t and of the normal distribution: ± 1.96 standard errors is a
95 % interval. If a few candidates have very large effects and none has been sampled yet, the standard error is too
small. An interval of Student's t from m observations with skewness γ is too narrow by about γ²/m (Hall, "The Bootstrap
and Edgeworth Expansion", 1992, section 2.6, with the kurtosis of a gamma distribution), so the standard error is
widened by that factor.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from reagent.case import Floats, Ids, Mask

EM_ITERATIONS = 16  # fewer give intervals that are too wide, more overfit the variances
PRIOR_DEGREES = 1.0  # weight of the pooled variance in the variance of a token, in observations
SLOPE_PRIOR = 5.0  # ridge penalty on the power of the distance
MIN_DEGREES = 2  # degrees of freedom of a token with few replicates, which also has the prior


class Effects(NamedTuple):
    """Estimated effects and their uncertainty."""

    mean: Floats  # [tokens]
    stderr: Floats  # [tokens]
    reducible: Floats  # [tokens], the part of the variance that further probes can reduce


@dataclass(frozen=True)
class Design:
    """The design of the experiment: which probe replaced which token by which candidate."""

    replaced: Mask  # [probes, tokens]
    column: Ids  # [probes, tokens], read only where replaced
    weights: Floats  # [tokens, candidates], each row sums to 1
    sampling_variance: Floats  # [tokens], see `Proposals.sampling_variance`

    @classmethod
    def empty(cls, weights: Floats, sampling_variance: Floats) -> "Design":
        """A design with no probes."""
        no_probes = np.zeros((0, len(weights)))
        return cls(no_probes.astype(np.bool_), no_probes.astype(np.int64), weights, sampling_variance)

    def append(self, replaced: Mask, column: Ids) -> "Design":
        """The design with further probes."""
        return replace(
            self, replaced=np.concatenate([self.replaced, replaced]), column=np.concatenate([self.column, column])
        )

    def restrict(self, probes: int, tokens: int) -> "Design":
        """The first probes and the first tokens: the design for a target that these tokens precede."""
        return Design(
            self.replaced[:probes, :tokens],
            self.column[:probes, :tokens],
            self.weights[:tokens],
            self.sampling_variance[:tokens],
        )


class _Variances(NamedTuple):
    token: Floats  # [tokens], of a_j
    candidate: Floats  # [tokens], of b_jc
    noise: float


def estimate(design: Design, y: Floats) -> Effects:
    """Effects and standard errors from the responses `y`, [probes]."""
    pairs = _ObservedPairs.of(design)
    # Both solvers compute the same posterior; the one with the smaller matrix is used.
    solver = _DualSolver(pairs, y) if len(y) <= pairs.effect_count else _PrimalSolver(pairs, y)
    variances = _fit_variances(pairs, solver, _initial_variances(design, y))
    mean, posterior, robust = solver.posterior(variances)
    untried = (design.weights**2).sum(1) - pairs.weight**2 @ pairs.membership
    reducible = np.maximum(posterior + untried * variances.candidate, 0) + robust
    stderr = np.sqrt(reducible + design.sampling_variance * variances.candidate)
    replicates = design.replaced.sum(0)
    skew_factor = 1 + np.minimum(pairs.skewness(y) ** 2 / np.maximum(replicates, 1), 1)
    t_factor = t_to_normal_ratio(np.maximum(replicates - 1, MIN_DEGREES))
    return Effects(mean, stderr * t_factor * skew_factor, reducible)


def t_to_normal_ratio(degrees: Ids | int) -> Floats:
    """Ratio of the 97.5 % quantiles of Student's t with `degrees` degrees of freedom and of the normal distribution.

    >>> t_to_normal_ratio(np.array([2, 10, 10_000])).round(2)
    array([2.2 , 1.14, 1.  ])
    """
    return np.asarray(stdtrit(degrees, 0.975) / ndtri(0.975))


def _initial_variances(design: Design, y: Floats) -> _Variances:
    power = float(np.mean(y**2)) + 1e-12
    tokens = design.replaced.shape[1]
    each = np.full(tokens, power / max(1.0, float(design.replaced.sum(1).mean())) / 2)
    return _Variances(each, each, 0.2 * power)


def _fit_variances(pairs: "_ObservedPairs", solver: "_DualSolver | _PrimalSolver", variances: _Variances) -> _Variances:
    """The variances that explain the responses, by EM."""
    smallest = 1e-6 * float(np.mean(solver.y**2)) + 1e-12
    largest = np.inf if pairs.has_joint_replacements else smallest
    variances, tokens = variances._replace(noise=min(variances.noise, largest)), len(variances.token)
    log_distance = np.log(np.arange(tokens, 0, -1))  # to the target, which follows the last token
    log_distance -= log_distance.mean()
    for _ in range(EM_ITERATIONS):
        moments, unexplained = solver.moments(variances)
        a, b = moments[:tokens], np.bincount(pairs.token, moments[tokens:], minlength=tokens)
        proportional = a * variances.candidate.sum() / variances.token.sum()
        candidate_prior = (_pooled(variances.candidate, log_distance) + proportional) / 2
        variances = _Variances(
            (PRIOR_DEGREES * _pooled(variances.token, log_distance) + a) / (PRIOR_DEGREES + 1),
            (PRIOR_DEGREES * candidate_prior + b) / (PRIOR_DEGREES + pairs.candidates_tried),
            min(max(smallest, unexplained / len(solver.y)), largest),
        )
    return variances


def _pooled(variances: Floats, log_distance: Floats) -> Floats:
    """The typical variance at each distance: a power law, scaled to the harmonic mean, which few outliers affect."""
    variances = np.maximum(variances, 1e-300)
    slope = log_distance @ np.log(variances) / (log_distance @ log_distance + SLOPE_PRIOR)
    shape = np.exp(slope * log_distance)
    return np.asarray(shape * np.mean(1 / shape) / np.mean(1 / variances))


@dataclass(frozen=True)
class _ObservedPairs:
    """The pairs of token and candidate that occur in the probes.

    `probe` and `pair` have one entry for each replacement of a token in a probe.
    """

    replaced: Floats  # [probes, tokens]
    probe: Ids  # [replacements]
    pair: Ids  # [replacements]
    token: Ids  # [pairs]
    weight: Floats  # [pairs], w_jc

    @classmethod
    def of(cls, design: Design) -> "_ObservedPairs":
        probe, token = np.nonzero(design.replaced)
        candidates = design.weights.shape[1]
        codes, pair = np.unique(token * candidates + design.column[probe, token], return_inverse=True)
        owner = codes // candidates
        weight = design.weights[owner, codes % candidates]
        return cls(design.replaced.astype(np.float64), probe, pair, owner, weight)

    @property
    def effect_count(self) -> int:
        """Number of random effects: one a_j per token, one b_jc per pair."""
        return int(self.replaced.shape[1]) + len(self.token)

    @property
    def candidates_tried(self) -> Ids:
        """Number of different candidates of each token that occur, [tokens]."""
        return np.bincount(self.token, minlength=self.replaced.shape[1])

    @property
    def membership(self) -> Floats:
        """1 where a pair belongs to a token, otherwise 0; [pairs, tokens]."""
        return np.asarray(self.token[:, None] == np.arange(self.replaced.shape[1]), dtype=np.float64)

    @property
    def has_joint_replacements(self) -> bool:
        """Whether any probe replaced several tokens."""
        return bool(self.replaced.sum(1).max(initial=0) > 1)

    def skewness(self, y: Floats) -> float:
        """Skewness of the responses to the candidates of one token, averaged over tokens.

        It is 0 if probes replace several tokens, because then the response to a single candidate is not observed.
        """
        if self.has_joint_replacements:
            return 0.0
        response, tokens = np.zeros(len(self.token)), self.replaced.shape[1]
        response[self.pair] = y[self.probe]

        def total(values: Floats) -> Floats:
            return np.asarray(np.bincount(self.token, values, minlength=tokens))

        count = self.candidates_tried
        deviation = response - (total(response) / np.maximum(count, 1))[self.token]
        spread = np.sqrt(total(deviation**2) / np.maximum(count - 1, 1))
        third = total((deviation / np.where(spread > 0, spread, 1)[self.token]) ** 3)
        valid = (count > 2) & (spread > 0)
        each = count[valid] / (count[valid] - 1) * third[valid]  # sample skewness times its weight, count - 2
        return float(each.sum() / max(1, (count[valid] - 2).sum()))

    def independent_parts(self, token: Ids) -> list[Ids]:
        """Indices of `token` that can be solved separately: by token if no probe replaced two, otherwise all in one."""
        if self.has_joint_replacements:
            return [np.arange(len(token))]
        return [np.flatnonzero(token == j) for j in range(self.replaced.shape[1])]

    def prior_variances(self, v: _Variances) -> Floats:
        """The prior variance of every effect: tokens first, then pairs."""
        return np.concatenate([v.token, v.candidate[self.token]])


class _DualSolver:
    """The posterior through the covariance of the responses, [probes, probes]: for few probes."""

    def __init__(self, pairs: _ObservedPairs, y: Floats) -> None:
        self.pairs, self.y, self.size = pairs, y, len(y)
        # Two replacements of the same pair correlate their probes. There are few of them, so they are listed.
        order = np.argsort(pairs.pair, kind="stable")
        count = np.bincount(pairs.pair, minlength=len(pairs.token))
        first = np.repeat(np.cumsum(count) - count, count)  # for each replacement, the first one of its pair
        partners = np.repeat(count, count)
        left = np.repeat(np.arange(len(order)), partners)
        right = np.repeat(first, partners) + _ramp(partners)
        self.tie_left, self.tie_right = pairs.probe[order][left], pairs.probe[order][right]
        self.tie_pair = pairs.pair[order][left]
        self.parts = pairs.independent_parts(pairs.replaced.argmax(1))

    def _inverse(self, v: _Variances) -> Floats:
        """The inverse covariance of the responses."""
        x = self.pairs.replaced
        where = self.tie_left * self.size + self.tie_right
        shared = np.bincount(where, v.candidate[self.pairs.token][self.tie_pair], minlength=self.size**2)
        covariance = (x * v.token) @ x.T + shared.reshape(self.size, self.size)
        covariance[np.diag_indices(self.size)] += v.noise
        return _inverse(covariance, self.parts)

    def moments(self, v: _Variances) -> tuple[Floats, float]:
        """E[effect²] of every effect, and the expected unexplained sum of squares."""
        inverse = self._inverse(v)
        weighted_y, x, count = inverse @ self.y, self.pairs.replaced, len(self.pairs.token)
        prior = self.pairs.prior_variances(v)
        by_pair = np.bincount(self.pairs.pair, weighted_y[self.pairs.probe], count)
        mean = prior * np.concatenate([x.T @ weighted_y, by_pair])
        within = np.bincount(self.tie_pair, inverse[self.tie_left, self.tie_right], count)
        information = np.concatenate([np.einsum("ki,ki->i", x, inverse @ x), within])
        unexplained = v.noise * (self.size - v.noise * np.trace(inverse)) + v.noise**2 * (weighted_y @ weighted_y)
        return mean**2 + prior - prior**2 * information, float(unexplained)

    def posterior(self, v: _Variances) -> tuple[Floats, Floats, Floats]:
        """Mean, posterior variance and HC2 variance of a_j + Σ w_jc b_jc over the candidates that occur; [tokens]."""
        inverse, covariance = self._inverse(v), self._covariance(v)
        weighted_y, estimator = inverse @ self.y, covariance.T @ inverse  # the means are estimator @ y
        prior = v.token + self.pairs.weight**2 @ self.pairs.membership * v.candidate
        residual = v.noise * weighted_y**2 / np.diag(inverse)  # squared, divided by 1 - leverage
        posterior = prior - np.einsum("ik,ki->i", estimator, covariance)
        return estimator @ self.y, posterior, estimator**2 @ residual

    def _covariance(self, v: _Variances) -> Floats:
        """Covariance of each response with each reported effect, [probes, tokens]."""
        covariance = self.pairs.replaced * v.token
        token = self.pairs.token[self.pairs.pair]
        covariance[self.pairs.probe, token] += self.pairs.weight[self.pairs.pair] * v.candidate[token]
        return np.asarray(covariance)


class _PrimalSolver:
    """The same posterior through the precision of the effects, [effects, effects]: for many probes."""

    def __init__(self, pairs: _ObservedPairs, y: Floats) -> None:
        indicator = np.zeros((len(y), len(pairs.token)))
        indicator[pairs.probe, pairs.pair] = 1
        self.x = np.concatenate([pairs.replaced, indicator], axis=1)
        self.gram, self.moment, self.y, self.pairs = self.x.T @ self.x, self.x.T @ y, y, pairs
        self.parts = pairs.independent_parts(np.concatenate([np.arange(pairs.replaced.shape[1]), pairs.token]))

    def _solve(self, v: _Variances) -> tuple[Floats, Floats]:
        """Posterior mean and covariance of all effects."""
        precision = self.gram / v.noise
        precision[np.diag_indices_from(precision)] += 1 / np.maximum(self.pairs.prior_variances(v), 1e-300)
        covariance = _inverse(precision, self.parts)
        return covariance @ self.moment / v.noise, covariance

    def moments(self, v: _Variances) -> tuple[Floats, float]:
        mean, covariance = self._solve(v)
        residual = self.y - self.x @ mean
        return mean**2 + np.diag(covariance), float(residual @ residual + (covariance * self.gram).sum())

    def posterior(self, v: _Variances) -> tuple[Floats, Floats, Floats]:
        mean, covariance = self._solve(v)
        reported = covariance @ self._combination  # [effects, tokens]
        leverage = np.einsum("ki,ki->k", self.x, self.x @ covariance) / v.noise
        residual = (self.y - self.x @ mean) ** 2 / np.maximum(1 - leverage, 1e-9)
        estimator = reported.T @ self.x.T / v.noise
        posterior = np.einsum("ij,ij->j", self._combination, reported)
        return self._combination.T @ mean, posterior, estimator**2 @ residual

    @property
    def _combination(self) -> Floats:
        """Coefficients of the reported effects a_j + Σ w_jc b_jc, [effects, tokens]."""
        own = np.eye(self.pairs.replaced.shape[1])
        return np.concatenate([own, self.pairs.membership * self.pairs.weight[:, None]])


def _inverse(matrix: Floats, parts: list[Ids]) -> Floats:
    """The inverse of a matrix that is zero outside the blocks given by `parts`.

    >>> _inverse(np.array([[2.0, 0, 2], [0, 5, 0], [0, 0, 1]]), [np.array([0, 2]), np.array([1])])
    array([[ 0.5,  0. , -1. ],
           [ 0. ,  0.2,  0. ],
           [ 0. ,  0. ,  1. ]])
    """
    inverse = np.zeros_like(matrix)
    for part in parts:
        block = np.ix_(part, part)
        inverse[block] = np.linalg.inv(matrix[block])
    return inverse


def _ramp(lengths: Ids) -> Ids:
    """0, 1, …, length - 1 for each length, concatenated.

    >>> _ramp(np.array([2, 3]))
    array([0, 1, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths))
