"""From many cases to a claim: does a method beat random, by how much, and may that be chance?

The pairs are (what the explanation got, what random attributions got) of the same case. The paper's figure is
ln(mean over cases ÷ mean of random over the same cases); a ratio within single cases would often divide by 0.
Nothing here is NaN or infinite: what does not exist is None.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from reagent.case import Floats, Mask
from reagent.errors import InputError, UnknownNameError
from reagent.evaluation import Evaluation, Result

RESAMPLES = 10_000
FEW = 13  # pairs with equal ranks, up to which the test is exact
PARTS = 10  # in which they are made, to spare memory
LEVEL = 0.95
CORRECTIONS = {"holm": "Holm: of any false claim", "bh": "Benjamini–Hochberg: of the share of false claims"}


class Estimate(NamedTuple):
    """A number and its interval; None where there is no such number, or no such end."""

    value: float | None
    low: float | None
    high: float | None


class Wilcoxon(NamedTuple):
    """The signed-rank test, two-sided."""

    statistic: float
    p: float
    pairs: int  # that differ; the others say nothing


@dataclass(frozen=True)
class Comparison:
    """One method against random (or against another) in one number, over many cases."""

    metric: str
    measure: str
    higher_is_better: bool
    cases: int
    mean: Estimate
    random: Estimate
    difference: Estimate  # positive is better, whichever way the metric goes
    log_ratio: Estimate
    wilcoxon: Wilcoxon
    rank_biserial: float  # −1 … 1, of the same ranks: how one-sided the differences are
    cohens_d: float | None  # mean difference in its standard deviations; None where all differences are equal
    better: float  # share of the cases in which it is better, ties as half
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
    """Every number that the evaluations of one method have in common, against random's; `correction` as in `adjust`."""
    if not evaluations:
        raise InputError("there is nothing to compare: give at least one evaluation")
    keys = [(r.metric, r.measure) for r in evaluations[0].results]
    shared = [key for key in keys if all(key in {(r.metric, r.measure) for r in e.results} for e in evaluations)]
    found = []
    for metric, measure in shared:
        results = [e.result(metric, measure) for e in evaluations]
        found.append(compare(results, [r.random for r in results], seed, resamples))
    return found if correction is None else corrected(found, correction)


def corrected(comparisons: Sequence[Comparison], correction: str) -> list[Comparison]:
    """The same, with p-values adjusted for being that many."""
    adjusted = adjust([c.wilcoxon.p for c in comparisons], correction)
    return [replace(c, correction=correction, adjusted_p=float(p)) for c, p in zip(comparisons, adjusted, strict=True)]


def compare(
    results: Sequence[Result], others: Sequence[float], seed: int = 0, resamples: int = RESAMPLES
) -> Comparison:
    """The results of many cases against the `others` of the same cases: random's, or another method's."""
    first = results[0]
    own, other = np.array([r.value for r in results]), np.array(others, dtype=np.float64)
    better = (own - other) if first.higher_is_better else (other - own)
    pairs = np.stack([own, other], axis=1)

    def mean(values: Floats) -> Estimate:
        return share(values) if first.measure == "found" else bootstrap(values, _mean, seed, resamples)

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
    """A statistic and its percentile interval, cases [cases, …] drawn again with replacement.

    `statistic` takes […, cases, …] and reduces the axis of the cases: the second where there are resamples.
    """
    drawn = np.random.default_rng([seed, len(values)]).integers(len(values), size=(resamples, len(values)))
    again = np.concatenate([statistic(values[some]) for some in np.array_split(drawn, PARTS)])
    ends = np.quantile(again, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return Estimate(*(_finite(number) for number in (statistic(values[None])[0], *ends)))


def share(values: Floats, level: float = LEVEL) -> Estimate:
    """The share of cases with 1 among 0 and 1, and Wilson's interval, which is right for shares near 0 and 1 too.

    >>> [round(number, 3) for number in share(np.array([1.0, 1.0, 1.0, 1.0, 0.0]))]
    [0.8, 0.376, 0.964]
    """
    from scipy.special import ndtri

    n, found, z = len(values), float(values.mean()), float(ndtri((1 + level) / 2))
    centre = (found + z * z / (2 * n)) / (1 + z * z / n)
    wide = z / (1 + z * z / n) * float(np.sqrt(found * (1 - found) / n + z * z / (4 * n * n)))
    return Estimate(found, max(0.0, centre - wide), min(1.0, centre + wide))


def wilcoxon(differences: Floats) -> Wilcoxon:
    """Whether differences of pairs lie around 0; pairs without a difference are left out, as is usual.

    >>> wilcoxon(np.array([0.0, 0.0]))
    Wilcoxon(statistic=0.0, p=1.0, pairs=0)
    """
    from scipy import stats

    differences = differences[differences != 0]
    if not len(differences):
        return Wilcoxon(0.0, 1.0, 0)
    ranks = stats.rankdata(np.abs(differences))
    if len(ranks) <= FEW and len(set(ranks)) < len(ranks):
        return _tied(ranks, differences > 0)
    found = stats.wilcoxon(differences)
    return Wilcoxon(float(found.statistic), float(found.pvalue), len(differences))


def _tied(ranks: Floats, positive: Mask) -> Wilcoxon:
    """The same exactly where ranks are shared: how many choices of signs give each sum (scipy tries all of them)."""
    counts = np.ones(1)  # by twice the sum of the positive ranks, which is whole
    for step in (2 * ranks).astype(int):
        counts = np.pad(counts, (0, step)) + np.pad(counts, (step, 0))
    found = round(2 * ranks[positive].sum())
    tails = counts[: found + 1].sum(), counts[found:].sum()
    statistic = min(found, len(counts) - 1 - found) / 2
    return Wilcoxon(statistic, float(min(1.0, 2 * min(tails) / counts.sum())), len(ranks))


def rank_biserial(differences: Floats) -> float:
    """(positive ranks − negative ranks) ÷ all ranks of the signed-rank test; 0 where nothing differs.

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
    """The mean difference in standard deviations of the differences; None where these are all equal."""
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
    """Of [resamples, cases, 2]; −∞ and ∞ at one mean of 0, nothing where the ratio has no logarithm."""
    own, random = pairs.mean(1).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where((own < 0) | (random < 0), np.nan, np.log(own) - np.log(random)))


def _finite(number: Any) -> float | None:
    return float(number) if np.isfinite(number) else None
