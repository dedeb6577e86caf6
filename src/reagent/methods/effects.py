"""Effects of single tokens from probes that replaced several at once, and how sure they are.

A probe k replaced the tokens j of a set R_k, each by one of its candidates c, and cost the target y_k.
Replacing nothing costs nothing, so

    y_k = Σ_{j ∈ R_k} (a_j + b_jc) + noise

where a_j belongs to the token and b_jc to the candidate that happened to stand in for it. Both are
random effects with a variance of their own for every token, which is how one word may matter a lot
while most do not matter at all; the variances are learned from the probes (empirical Bayes, by EM), and
with them the strength of the ridge. Tokens close to the target tend to matter more: how much more in this
text is learned too, as a power of the distance, and shapes what is expected of a token before its own
probes speak. So is how much the candidates of a token differ for its size: where replacing matters, it also matters
more by what. What is reported is the mean over candidates, a_j + Σ_c w_jc b_jc.

Noise is how tokens act together. Where every probe replaced one token there is none, since the same text gets the same
answer: what was tried is known, and only what was not tried is left to guess. Where the candidates are themselves a
sample of what could stand there, such as some of the many alternatives to a sentence, there is more to guess: even when
all were tried, their mean is in error by the variance of b_jc over their number.

Its standard error has two parts. The posterior knows how far the shrinkage may have gone and which
candidates were not tried, but believes that noise is alike in all probes. The residuals know better,
since tokens that act together make some probes far noisier than others: their part is the variance that
they give the estimate (heteroscedasticity-consistent, HC2). The two are added, which is cautious; and as
what is known of a token rests on the few probes that replaced it, the error is stretched as Student's t
of so many observations is wider than the normal distribution, so that ± 1.96 of it covers 95 %. It is stretched
once more where candidates are lopsided, most of them harmless and a few ruinous: who has not met those yet is too
sure. An interval of Student's t from m observations of skewness γ falls short as if it were too narrow by γ²/m
(Hall, "The Bootstrap and Edgeworth Expansion", 1992, section 2.6; the kurtosis taken as that of a gamma distribution).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from reagent.case import Floats, Ids, Mask

ROUNDS = 16  # of EM: fewer are too cautious, more sharpen the variances beyond what the probes can tell
DEGREES = 1.0  # how much a token's variance leans on the usual one: as one observation
SLOPE_PRIOR = 5.0  # how much the probes must say before near tokens are expected to matter more than far ones
FEWEST = 2  # degrees of freedom of a token that was hardly ever replaced: the prior knows the rest


class Effects(NamedTuple):
    mean: Floats  # [tokens]
    stderr: Floats  # [tokens]
    open: Floats  # [tokens], the variance that further probes can take away: not what candidates outside the table hide


@dataclass(frozen=True)
class Design:
    """Which probe replaced which token by which of its candidates."""

    replaced: Mask  # [probes, tokens]
    column: Ids  # [probes, tokens], read only where replaced
    weights: Floats  # [tokens, candidates], each row sums to 1
    sampling_variance: (
        Floats  # [tokens], one over the number of candidates where they are a sample of more, otherwise 0
    )

    @classmethod
    def empty(cls, weights: Floats, sampling_variance: Floats) -> "Design":
        blank = np.zeros((0, len(weights)))
        return cls(blank.astype(np.bool_), blank.astype(np.int64), weights, sampling_variance)

    def append(self, replaced: Mask, column: Ids) -> "Design":
        """With further probes."""
        return replace(
            self, replaced=np.concatenate([self.replaced, replaced]), column=np.concatenate([self.column, column])
        )

    def restrict(self, probes: int, tokens: int) -> "Design":
        """The first probes only, and the first tokens only: what one target can see."""
        seen = (self.replaced[:probes, :tokens], self.column[:probes, :tokens])
        return Design(*seen, self.weights[:tokens], self.sampling_variance[:tokens])


class _Variances(NamedTuple):
    token: Floats  # [tokens], of a_j
    candidate: Floats  # [tokens], of b_jc
    noise: float


def estimate(design: Design, y: Floats) -> Effects:
    """Effects with standard errors."""
    found = _Occurrences.of(design)
    # The same posterior, computed where there is less of it: between probes or between effects.
    solver = _DualSolver(found, y) if len(y) <= found.effects else _PrimalSolver(found, y)
    variances = _learn(found, solver, _guess(design, y))
    mean, known, robust = solver.posterior(variances)
    unseen = (design.weights**2).sum(1) - found.seen_weight**2 @ found.belongs
    still = np.maximum(known + unseen * variances.candidate, 0) + robust
    error, turns = np.sqrt(still + design.sampling_variance * variances.candidate), design.replaced.sum(0)
    lopsided = np.minimum(found.skewness(y) ** 2 / np.maximum(turns, 1), 1)
    return Effects(mean, error * stretch(np.maximum(turns - 1, FEWEST)) * (1 + lopsided), still)


def stretch(degrees: Ids | int) -> Floats:
    """How much wider Student's t of so many degrees of freedom is than the normal distribution, at 95 %.

    >>> stretch(np.array([2, 10, 10_000])).round(2)
    array([2.2 , 1.14, 1.  ])
    """
    return np.asarray(stdtrit(degrees, 0.975) / ndtri(0.975))


def _guess(design: Design, y: Floats) -> _Variances:
    power = float(np.mean(y**2)) + 1e-12
    tokens = design.replaced.shape[1]
    each = np.full(tokens, power / max(1.0, float(design.replaced.sum(1).mean())) / 2)
    return _Variances(each, each, 0.2 * power)


def _learn(found: "_Occurrences", solver: "_DualSolver | _PrimalSolver", now: _Variances) -> _Variances:
    """The variances that explain the answers, by EM."""
    smallest = 1e-6 * float(np.mean(solver.y**2)) + 1e-12
    most = np.inf if found.together else smallest
    now, tokens = now._replace(noise=min(now.noise, most)), len(now.token)
    distance = np.log(np.arange(tokens, 0, -1))  # from the target, which follows the last token
    distance -= distance.mean()
    for _ in range(ROUNDS):
        moments, unexplained = solver.moments(now)
        a, b = moments[:tokens], np.bincount(found.owner, moments[tokens:], minlength=tokens)
        differ = (_pooled(now.candidate, distance) + a * now.candidate.sum() / now.token.sum()) / 2
        now = _Variances(
            (DEGREES * _pooled(now.token, distance) + a) / (DEGREES + 1),
            (DEGREES * differ + b) / (DEGREES + found.distinct),
            min(max(smallest, unexplained / len(solver.y)), most),
        )
    return now


def _pooled(variances: Floats, distance: Floats) -> Floats:
    """The variance of most tokens at each distance: a power of it, and the harmonic mean, which a few do not move."""
    variances = np.maximum(variances, 1e-300)
    slope = distance @ np.log(variances) / (distance @ distance + SLOPE_PRIOR)
    shape = np.exp(slope * distance)
    return np.asarray(shape * np.mean(1 / shape) / np.mean(1 / variances))


@dataclass(frozen=True)
class _Occurrences:
    """The pairs of token and candidate that occurred, and where."""

    replaced: Floats  # [probes, tokens]
    probe: Ids  # [cards] of each replacement
    pair: Ids  # [cards]
    owner: Ids  # [pairs], the token
    seen_weight: Floats  # [pairs], w_jc

    @classmethod
    def of(cls, design: Design) -> "_Occurrences":
        probe, token = np.nonzero(design.replaced)
        wide = design.weights.shape[1]
        codes, pair = np.unique(token * wide + design.column[probe, token], return_inverse=True)
        owner = codes // wide
        return cls(design.replaced.astype(np.float64), probe, pair, owner, design.weights[owner, codes % wide])

    @property
    def effects(self) -> int:
        return int(self.replaced.shape[1]) + len(self.owner)

    @property
    def distinct(self) -> Ids:
        """How many of its candidates each token has shown."""
        return np.bincount(self.owner, minlength=self.replaced.shape[1])

    @property
    def belongs(self) -> Floats:
        """[pairs, tokens]: 1 where the pair is the token's."""
        return np.asarray(self.owner[:, None] == np.arange(self.replaced.shape[1]), dtype=np.float64)

    @property
    def together(self) -> bool:
        """Whether any probe replaced several tokens."""
        return bool(self.replaced.sum(1).max(initial=0) > 1)

    def skewness(self, y: Floats) -> float:
        """Of what the candidates of one token cost, on average over tokens; 0 where it cannot be seen."""
        if self.together:
            return 0.0
        cost, tokens = np.zeros(len(self.owner)), self.replaced.shape[1]
        cost[self.pair] = y[self.probe]

        def total(values: Floats) -> Floats:
            return np.asarray(np.bincount(self.owner, values, minlength=tokens))

        count = self.distinct
        apart = cost - (total(cost) / np.maximum(count, 1))[self.owner]
        spread = np.sqrt(total(apart**2) / np.maximum(count - 1, 1))
        third = total((apart / np.where(spread > 0, spread, 1)[self.owner]) ** 3)
        told = (count > 2) & (spread > 0)
        each = count[told] / (count[told] - 1) * third[told]  # the skewness of a sample, times its weight: count - 2
        return float(each.sum() / max(1, (count[told] - 2).sum()))

    def parts(self, token: Ids) -> list[Ids]:
        """What has nothing to do with each other: all in one, or by its token where no probe replaced two."""
        if self.together:
            return [np.arange(len(token))]
        return [np.flatnonzero(token == j) for j in range(self.replaced.shape[1])]

    def each(self, v: _Variances) -> Floats:
        """The prior variance of every effect: tokens first, then pairs."""
        return np.concatenate([v.token, v.candidate[self.owner]])


class _DualSolver:
    """The posterior through the covariance of the answers, [probes, probes]: for few probes."""

    def __init__(self, found: _Occurrences, y: Floats) -> None:
        self.found, self.y, self.size = found, y, len(y)
        # Two cards of one pair tie their probes together; there are few of them, so they are listed.
        order = np.argsort(found.pair, kind="stable")
        count = np.bincount(found.pair, minlength=len(found.owner))
        first = np.repeat(np.cumsum(count) - count, count)  # where the pair of each card begins
        partners = np.repeat(count, count)
        left = np.repeat(np.arange(len(order)), partners)
        right = np.repeat(first, partners) + _ramp(partners)
        self.tie_left, self.tie_right = found.probe[order][left], found.probe[order][right]
        self.tie_pair = found.pair[order][left]
        self.parts = found.parts(found.replaced.argmax(1))

    def _inverse(self, v: _Variances) -> Floats:
        x = self.found.replaced
        where = self.tie_left * self.size + self.tie_right
        shared = np.bincount(where, v.candidate[self.found.owner][self.tie_pair], minlength=self.size**2)
        covariance = (x * v.token) @ x.T + shared.reshape(self.size, self.size)
        covariance[np.diag_indices(self.size)] += v.noise
        return _inverse(covariance, self.parts)

    def moments(self, v: _Variances) -> tuple[Floats, float]:
        """E[effect²] of every effect, and the expected unexplained sum of squares."""
        inverse = self._inverse(v)
        pull, x, pairs = inverse @ self.y, self.found.replaced, len(self.found.owner)
        prior = self.found.each(v)
        mean = prior * np.concatenate([x.T @ pull, np.bincount(self.found.pair, pull[self.found.probe], pairs)])
        within = np.bincount(self.tie_pair, inverse[self.tie_left, self.tie_right], pairs)
        known = np.concatenate([np.einsum("ki,ki->i", x, inverse @ x), within])
        unexplained = v.noise * (self.size - v.noise * np.trace(inverse)) + v.noise**2 * (pull @ pull)
        return mean**2 + prior - prior**2 * known, float(unexplained)

    def posterior(self, v: _Variances) -> tuple[Floats, Floats, Floats]:
        """Mean and variance of a_j + Σ w_jc b_jc over the candidates that occurred; variance from the residuals."""
        inverse, link = self._inverse(v), self._link(v)
        pull, recipe = inverse @ self.y, link.T @ inverse  # the means are recipe @ y
        prior = v.token + self.found.seen_weight**2 @ self.found.belongs * v.candidate
        residual = v.noise * pull**2 / np.diag(inverse)  # squared, and made up for its own pull on the fit
        return recipe @ self.y, prior - np.einsum("ik,ki->i", recipe, link), recipe**2 @ residual

    def _link(self, v: _Variances) -> Floats:
        """Covariance of each reported effect with each answer, [probes, tokens]."""
        link = self.found.replaced * v.token
        token = self.found.owner[self.found.pair]
        link[self.found.probe, token] += self.found.seen_weight[self.found.pair] * v.candidate[token]
        return np.asarray(link)


class _PrimalSolver:
    """The same through the precision of the effects, [effects, effects]: for many probes."""

    def __init__(self, found: _Occurrences, y: Floats) -> None:
        indicator = np.zeros((len(y), len(found.owner)))
        indicator[found.probe, found.pair] = 1
        self.x = np.concatenate([found.replaced, indicator], axis=1)
        self.gram, self.moment, self.y, self.found = self.x.T @ self.x, self.x.T @ y, y, found
        self.parts = found.parts(np.concatenate([np.arange(found.replaced.shape[1]), found.owner]))

    def _solve(self, v: _Variances) -> tuple[Floats, Floats]:
        precision = self.gram / v.noise
        precision[np.diag_indices_from(precision)] += 1 / np.maximum(self.found.each(v), 1e-300)
        covariance = _inverse(precision, self.parts)
        return covariance @ self.moment / v.noise, covariance

    def moments(self, v: _Variances) -> tuple[Floats, float]:
        mean, covariance = self._solve(v)
        residual = self.y - self.x @ mean
        return mean**2 + np.diag(covariance), float(residual @ residual + (covariance * self.gram).sum())

    def posterior(self, v: _Variances) -> tuple[Floats, Floats, Floats]:
        mean, covariance = self._solve(v)
        told = covariance @ self._report  # [effects, tokens]
        leverage = np.einsum("ki,ki->k", self.x, self.x @ covariance) / v.noise
        residual = (self.y - self.x @ mean) ** 2 / np.maximum(1 - leverage, 1e-9)
        recipe = told.T @ self.x.T / v.noise
        return self._report.T @ mean, np.einsum("ij,ij->j", self._report, told), recipe**2 @ residual

    @property
    def _report(self) -> Floats:
        """[effects, tokens]: what is reported of the effects, a_j + Σ w_jc b_jc."""
        own = np.eye(self.found.replaced.shape[1])
        return np.concatenate([own, self.found.belongs * self.found.seen_weight[:, None]])


def _inverse(matrix: Floats, parts: list[Ids]) -> Floats:
    """Of a matrix that has nothing but zeros between its parts.

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
    """0, 1, … for each length, one after another.

    >>> _ramp(np.array([2, 3]))
    array([0, 1, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths))
