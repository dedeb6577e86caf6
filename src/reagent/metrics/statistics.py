"""Tests over many cases: is a method better than random attributions, by how much, and is that significant?

The pairs are (value of the explanation, value of random attributions) of the same case. The paper reports
ln(mean over cases ÷ mean of random over the same cases). A ratio within single cases would often divide by 0.
No number is NaN or infinite: an undefined number is None.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from reagent.case import Floats, Mask
from reagent.errors import InputError, UnknownNameError
from reagent.evaluation import Evaluation, Result

RESAMPLES = 10_000
MAX_EXACT = 13  # pairs, up to which the test with tied ranks is exact
BATCHES = 10  # of resamples, to save memory
LEVEL = 0.95
CORRECTIONS = {"holm": "Holm: family-wise error rate", "bh": "Benjamini–Hochberg: false discovery rate"}


class Estimate(NamedTuple):
    """A number and its interval; None for a number or an end that is undefined."""

    value: float | None
    low: float | None
    high: float | None


class Wilcoxon(NamedTuple):
    """The signed-rank test, two-sided."""

    statistic: float
    p: float
    pairs: int  # with a difference; the others are left out


@dataclass(frozen=True)
class Comparison:
    """One method against random attributions, or against another method, in one measure over many cases."""

    metric: str
    measure: str
    higher_is_better: bool
    cases: int
    mean: Estimate
    random: Estimate
    difference: Estimate  # positive is better, also for metrics where lower is better
    log_ratio: Estimate
    wilcoxon: Wilcoxon
    rank_biserial: float  # −1 … 1, of the ranks of the Wilcoxon test
    cohens_d: float | None  # None if all differences are equal
    better: float  # share of the cases in which it is better; ties count as half
    flagged: int  # cases with a flag
    correction: str | None = None
    adjusted_p: float | None = None

    def to_dict(self) -> dict[str, Any]:
        named = {name: value._asdict() for name, value in vars(self).items() if isinstance(value, Estimate | Wilcoxon)}
        return asdict(self) | named


def against_random(
    evaluations: Sequence[Evaluation],
    correction: str | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> list[Comparison]:
    """Every measure that all evaluations of one method have, against random; `correction` is as in `adjust`."""
    if not evaluations:
        raise InputError("there is nothing to compare: give at least one evaluation")
    keys = [(r.metric, r.measure) for r in evaluations[0].results]
    shared = [key for key in keys if all(key in {(r.metric, r.measure) for r in e.results} for e in evaluations)]
    comparisons = []
    for metric, measure in shared:
        results = [e.result(metric, measure) for e in evaluations]
        comparisons.append(compare(results, [r.random for r in results], seed, resamples))
    return comparisons if correction is None else adjust_comparisons(comparisons, correction)


def adjust_comparisons(comparisons: Sequence[Comparison], correction: str) -> list[Comparison]:
    """The same comparisons, with p-values adjusted for their number."""
    adjusted = adjust([c.wilcoxon.p for c in comparisons], correction)
    return [replace(c, correction=correction, adjusted_p=float(p)) for c, p in zip(comparisons, adjusted, strict=True)]


def compare(
    results: Sequence[Result], others: Sequence[float], seed: int = 0, resamples: int = RESAMPLES
) -> Comparison:
    """The results of many cases against `others`: the values of random, or of another method, in the same cases."""
    first = results[0]
    own, other = np.array([r.value for r in results]), np.array(others, dtype=np.float64)
    better = (own - other) if first.higher_is_better else (other - own)
    pairs = np.stack([own, other], axis=1)

    def mean(values: Floats) -> Estimate:
        return proportion(values) if first.measure in ("found", "all") else bootstrap(values, _mean, seed, resamples)

    return Comparison(
        metric=first.metric,
        measure=first.measure,
        higher_is_better=first.higher_is_better,
        cases=len(results),
        mean=mean(own),
        random=bootstrap(other, _mean, seed, resamples),
        difference=bootstrap(better, _mean, seed, resamples),
        log_ratio=bootstrap(pairs, _log_ratio, seed, resamples),
        wilcoxon=wilcoxon(better),
        rank_biserial=rank_biserial(better),
        cohens_d=cohens_d(better),
        better=float(np.mean((better > 0) + 0.5 * (better == 0))),
        flagged=sum(bool(r.flags) for r in results),
    )


def log_ratio(own: Floats, random: Floats, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """ln(mean of own ÷ mean of random) over the same cases; cases are resampled in pairs.

    >>> [round(number, 3) for number in log_ratio(np.array([0.4, 0.6]), np.array([0.1, 0.1]))]
    [1.609, 1.386, 1.792]
    """
    return bootstrap(np.stack([own, random], axis=1), _log_ratio, seed, resamples)


def bootstrap(
    values: Floats,
    statistic: Callable[[Floats], Floats],
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Estimate:
    """A statistic of `values` [cases, …] and its percentile bootstrap interval.

    `statistic` takes [resamples, cases, …] and reduces the axis of the cases.
    """
    indices = np.random.default_rng([seed, len(values)]).integers(len(values), size=(resamples, len(values)))
    resampled = np.concatenate([statistic(values[batch]) for batch in np.array_split(indices, BATCHES)])
    ends = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return Estimate(*(_finite(number) for number in (statistic(values[None])[0], *ends)))


def proportion(values: Floats, level: float = LEVEL) -> Estimate:
    """The mean of zeros and ones with Wilson's interval, which is also accurate near 0 and 1.

    >>> [round(number, 3) for number in proportion(np.array([1.0, 1.0, 1.0, 1.0, 0.0]))]
    [0.8, 0.376, 0.964]
    """
    from scipy.special import ndtri

    n, mean, z = len(values), float(values.mean()), float(ndtri((1 + level) / 2))
    centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half_width = z / (1 + z * z / n) * float(np.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n)))
    return Estimate(mean, max(0.0, centre - half_width), min(1.0, centre + half_width))


def student(values: Floats, level: float = LEVEL) -> Estimate:
    """The mean with the interval of Student's t, which is also accurate for few values that are not very skewed.

    >>> [round(number, 3) for number in student(np.array([1.0, 2.0, 3.0]))]
    [2.0, -0.484, 4.484]
    >>> student(np.array([1.0]))
    Estimate(value=1.0, low=None, high=None)
    """
    from scipy.special import stdtrit

    n, mean = len(values), float(values.mean())
    if n < 2:
        return Estimate(mean, None, None)
    half_width = float(stdtrit(n - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, mean - half_width, mean + half_width)


def wilcoxon(differences: Floats) -> Wilcoxon:
    """Whether the differences of pairs are symmetric around 0; pairs without a difference are left out, as usual.

    >>> wilcoxon(np.array([0.0, 0.0]))
    Wilcoxon(statistic=0.0, p=1.0, pairs=0)
    """
    from scipy import stats

    differences = differences[differences != 0]
    if not len(differences):
        return Wilcoxon(0.0, 1.0, 0)
    ranks = stats.rankdata(np.abs(differences))
    if len(ranks) <= MAX_EXACT and len(set(ranks)) < len(ranks):
        return _exact_with_ties(ranks, differences > 0)
    test = stats.wilcoxon(differences)
    return Wilcoxon(float(test.statistic), float(test.pvalue), len(differences))


def _exact_with_ties(ranks: Floats, positive: Mask) -> Wilcoxon:
    """The exact test with tied ranks, by counting the signs that give each sum (scipy enumerates all signs)."""
    counts = np.ones(1)  # index: twice the sum of the positive ranks, an integer
    for step in (2 * ranks).astype(int):
        counts = np.pad(counts, (0, step)) + np.pad(counts, (step, 0))
    doubled = round(2 * ranks[positive].sum())
    tails = counts[: doubled + 1].sum(), counts[doubled:].sum()
    statistic = min(doubled, len(counts) - 1 - doubled) / 2
    return Wilcoxon(statistic, float(min(1.0, 2 * min(tails) / counts.sum())), len(ranks))


def rank_biserial(differences: Floats) -> float:
    """(positive ranks − negative ranks) ÷ all ranks of the signed-rank test; 0 if there are no differences.

    >>> rank_biserial(np.array([1.0, 2.0, -3.0]))
    0.0
    """
    from scipy.stats import rankdata

    differences = differences[differences != 0]
    if not len(differences):
        return 0.0
    ranks = rankdata(np.abs(differences))
    return float((ranks * np.sign(differences)).sum() / ranks.sum())


def cohens_d(differences: Floats) -> float | None:
    """The mean difference in standard deviations of the differences; None if all differences are equal."""
    spread = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    return float(differences.mean() / spread) if spread > 0 else None


def adjust(p: Sequence[float], correction: str) -> Floats:
    """p-values of many tests, corrected: `holm` or `bh` (Benjamini–Hochberg).

    >>> adjust([0.01, 0.04, 0.03], "holm").round(3).tolist(), adjust([0.01, 0.04, 0.03], "bh").round(3).tolist()
    ([0.03, 0.06, 0.06], [0.03, 0.04, 0.04])
    """
    from scipy import stats

    if correction not in CORRECTIONS:
        raise UnknownNameError("correction", correction, CORRECTIONS)
    values = np.asarray(p, dtype=np.float64)
    if correction == "bh":
        return np.asarray(stats.false_discovery_control(values, method="bh"))
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(1.0, stepped)
    return adjusted


def _mean(values: Floats) -> Floats:
    return np.asarray(values.mean(1))


def _log_ratio(pairs: Floats) -> Floats:
    """From [resamples, cases, 2]; −∞ or ∞ if one mean is 0, NaN if the logarithm is undefined."""
    own, random = pairs.mean(1).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where((own < 0) | (random < 0), np.nan, np.log(own) - np.log(random)))


def _finite(number: Any) -> float | None:
    return float(number) if np.isfinite(number) else None
