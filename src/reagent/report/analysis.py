"""From the cells of a run to its claims: each entry of the suite against random, in each number, over the examples."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, NamedTuple

from reagent.evaluation import Result
from reagent.metrics import METRICS
from reagent.metrics.statistics import Comparison, adjust, compare
from reagent.report.load import GREEDY, Number, Row, Run
from reagent.report.paper_results import LogRatio, full_results, published_name

RESAMPLES = 2_000  # a full study has thousands of intervals
CORRECTION = "holm"
ALPHA = 0.05  # the paper's; above it, a number has an asterisk


class Family(NamedTuple):
    """Metrics that are shown together."""

    id: str
    title: str
    metrics: tuple[str, ...]


# Those that are never negative, so that a ratio to random means something.
SOFT = Family("soft", "Soft perturbation", ("soft_ns", "soft_nc"))
EQUAL = Family("pi_soft", "Soft perturbation at equal selection", ("pi_soft_ns", "pi_soft_nc"))
REPLACED = Family("replacement", "Replacement", ("comprehensiveness", "sufficiency"))
FAMILIES = (SOFT, EQUAL, REPLACED)
PREDICTED = Family("lds", "Effects as predictions", ("lds",))
MARKED = Family("marks", "What people have marked", ("ante", "no_d"))

NAMES = {
    "soft_ns": "Soft-NS",
    "soft_nc": "Soft-NC",
    "pi_soft_ns": "π-Soft-NS",
    "pi_soft_nc": "π-Soft-NC",
    "comprehensiveness": "Comprehensiveness",
    "sufficiency": "Sufficiency",
    "lds": "LDS",
    "ante": "Ante",
    "no_d": "No.D",
}
_ORDER = [*METRICS, *GREEDY.values()]


@dataclass(frozen=True)
class Finding:
    """One entry of the suite on one dataset by one model, in one number."""

    model: str
    dataset: str
    level: str
    label: str
    method: str
    preset: str
    seeds: int
    comparison: Comparison
    most: int = 0  # examples that some entry has there

    @property
    def is_partial(self) -> bool:
        """Whether it rests on fewer examples than others, so that it cannot be the best of them."""
        return self.comparison.cases < self.most

    @property
    def number(self) -> Number:
        return self.comparison.metric, self.comparison.measure

    @property
    def log_ratio(self) -> float | None:
        return self.comparison.log_ratio.value

    @property
    def significant(self) -> bool:
        return self.comparison.wilcoxon.p <= ALPHA

    @property
    def published(self) -> LogRatio | None:
        """The paper's number for the same, if it has one."""
        model = published_name(self.model)
        as_published = self.method != "reagent" or self.preset.startswith("paper")
        if model is None or not as_published:
            return None
        return full_results().get((model, self.method, self.dataset, self.comparison.metric))

    def record(self) -> dict[str, Any]:
        """Everything about it, in one line of a file."""
        found, paper = self.comparison, self.published
        line: dict[str, Any] = {
            "model": self.model,
            "dataset": self.dataset,
            "level": self.level,
            "label": self.label,
            "method": self.method,
            "metric": found.metric,
            "measure": found.measure,
            "higher_is_better": found.higher_is_better,
            "cases": found.cases,
            "seeds": self.seeds,
        }
        for name in ("log_ratio", "mean", "random", "difference"):
            estimate = getattr(found, name)
            line |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return line | {
            "p": found.wilcoxon.p,
            "adjusted_p": found.adjusted_p,
            "correction": found.correction,
            "significant": self.significant,
            "wilcoxon": found.wilcoxon.statistic,
            "pairs": found.wilcoxon.pairs,
            "rank_biserial": found.rank_biserial,
            "cohens_d": found.cohens_d,
            "better": found.better,
            "flagged": found.flagged,
            "paper_log_ratio": paper and paper.value,
            "paper_significant": paper and paper.significant,
        }


def findings(run: Run) -> list[Finding]:
    """Every number of every entry; p-values are corrected over all that share a metric and a measure."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in run.rows:
        groups[row.model, row.dataset, row.label].append(row)
    found = [finding for (_, _, label), rows in groups.items() for finding in _of_group(label, rows)]
    every: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in run.rows:
        for number in row.results:
            every[row.model, row.dataset, *number].add(row.example)
    families: dict[Number, list[int]] = defaultdict(list)
    for i, finding in enumerate(found):
        families[finding.number].append(i)
    for number, members in families.items():
        adjusted = adjust([found[i].comparison.wilcoxon.p for i in members], CORRECTION)
        for i, p in zip(members, adjusted, strict=True):
            comparison = replace(found[i].comparison, correction=CORRECTION, adjusted_p=float(p))
            among = every[found[i].model, found[i].dataset, *number]
            found[i] = replace(found[i], comparison=comparison, most=len(among))
    return found


def measures(found: Iterable[Finding]) -> dict[str, str]:
    """The metrics that there are, each with the measure to show: whole distributions before single targets."""
    have: dict[str, list[str]] = defaultdict(list)
    for finding in found:
        have[finding.comparison.metric].append(finding.comparison.measure)
    return {name: _preferred(have[name]) for name in sorted(have, key=_metric_order)}


def shown(found: Iterable[Finding]) -> dict[tuple[str, str, str, str], Finding]:
    """By model, dataset, label and metric, each metric in the measure to show."""
    found = list(found)
    measure = measures(found)
    return {
        (f.model, f.dataset, f.label, f.comparison.metric): f
        for f in found
        if measure[f.comparison.metric] == f.comparison.measure
    }


class MeanRatio(NamedTuple):
    """The log ratio of an entry to random, mean over all models and datasets."""

    value: float
    method: str
    is_partial: bool  # it rests on fewer examples than others


def mean_log_ratios(run: Run, found: Iterable[Finding], metric: str) -> dict[str, MeanRatio]:
    """By label. Only means over the same models and datasets can be compared: who lacks one has none."""
    at = {key: f for key, f in shown(found).items() if key[3] == metric and f.log_ratio is not None}
    places = {key[:2] for key in at}
    means = {}
    for label in run.labels:
        some = [at[*place, label, metric] for place in places if (*place, label, metric) in at]
        if some and len(some) == len(places):
            ratio = mean(f.log_ratio or 0.0 for f in some)
            means[label] = MeanRatio(ratio, some[0].method, any(f.is_partial for f in some))
    return means


def values(run: Run) -> list[dict[str, Any]]:
    """Every single number, for whoever wants other statistics."""
    names = ("model", "dataset", "level", "example", "group", "label", "method", "seed")
    return [
        {name: getattr(row, name) for name in names}
        | {
            "metric": metric,
            "measure": measure,
            "value": result.value,
            "stderr": result.stderr,
            "random": result.random,
            "random_stderr": result.random_stderr,
            "flags": " ".join(result.flags),
            "forward_passes": row.passes,
            "seconds": row.seconds,
        }
        for row in run.rows
        for (metric, measure), result in row.results.items()
    ]


def _of_group(label: str, rows: Sequence[Row]) -> Iterable[Finding]:
    first, seeds = rows[0], len({row.seed for row in rows})
    numbers = {number: None for row in rows for number in row.results}
    for number in sorted(numbers, key=lambda n: (_metric_order(n[0]), n[1])):
        results = list(by_example(rows, number).values())
        comparison = compare(results, [r.random for r in results], resamples=RESAMPLES)
        comparison = comparison if len(results) > 1 else _without_intervals(comparison)
        preset = str(first.settings.get("preset") or "")
        yield Finding(first.model, first.dataset, first.level, label, first.method, preset, seeds, comparison)


def by_example(rows: Iterable[Row], number: Number) -> dict[str, Result]:
    """One number of one entry on each example that has it."""
    cases: dict[str, list[Result]] = defaultdict(list)
    for row in rows:
        if number in row.results:
            cases[row.example].append(row.results[number])
    return {example: _merged(results) for example, results in cases.items()}


def _without_intervals(comparison: Comparison) -> Comparison:
    """One example drawn again and again is the same each time, and says nothing about others."""
    names = ("log_ratio", "mean", "random", "difference")
    ends = {name: getattr(comparison, name)._replace(low=None, high=None) for name in names}
    return replace(comparison, **ends)


def _merged(results: Sequence[Result]) -> Result:
    """Seeds are no cases of their own: the mean over them is one."""
    flags = tuple(sorted({flag for result in results for flag in result.flags}))
    value, random = mean(r.value for r in results), mean(r.random for r in results)
    return replace(results[0], value=value, random=random, flags=flags)


def _preferred(have: Sequence[str]) -> str:
    return next((name for name in ("hellinger", "spearman") if name in have), have[0])


def _metric_order(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)
