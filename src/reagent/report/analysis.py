"""Statistics of a run: each entry of the suite compared with random attributions, by each metric, over the examples."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, NamedTuple

from reagent.evaluation import Result
from reagent.metrics import METRICS
from reagent.metrics.statistics import Comparison, adjust, compare
from reagent.report.load import AT_GREEDY_LENGTH, CellSummary, MetricKey, Run, natural_key
from reagent.report.paper_results import PaperLogRatio, load_full_results, paper_model

RESAMPLES = 2_000  # a full study has thousands of intervals
CORRECTION = "holm"
ALPHA = 0.05  # as in the paper


class MetricFamily(NamedTuple):
    """Metrics that are shown together."""

    id: str
    title: str
    metrics: tuple[str, ...]


SOFT = MetricFamily("soft", "Soft perturbation", ("soft_ns", "soft_nc"))
PI_SOFT = MetricFamily("pi_soft", "Soft perturbation at equal selection", ("pi_soft_ns", "pi_soft_nc"))
REPLACEMENT = MetricFamily("replacement", "Replacement", ("comprehensiveness", "sufficiency"))
RATIO_FAMILIES = (SOFT, PI_SOFT, REPLACEMENT)  # never negative, so a ratio to random is defined
LDS = MetricFamily("lds", "Effects as predictions", ("lds",))
RATIONALES = MetricFamily("rationales", "Rationales", ("ante", "no_d"))

METRIC_NAMES = {
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
_METRIC_ORDER = [*METRICS, *AT_GREEDY_LENGTH.values()]


def metric_heading(metric: str) -> str:
    """The name of a metric as a column heading; an arrow shows that lower is better."""
    return METRIC_NAMES[metric] if METRICS[metric].higher_is_better else f"{METRIC_NAMES[metric]} ↓"


def metric_title(metric: str) -> str:
    """The name of a metric as the title of a panel."""
    return METRIC_NAMES[metric] if METRICS[metric].higher_is_better else f"{METRIC_NAMES[metric]} (lower is better)"


@dataclass(frozen=True)
class EntryResult:
    """One entry of the suite on one dataset by one model, compared with random by one metric."""

    model: str
    dataset: str
    level: str
    label: str
    method: str
    preset: str
    seeds: int
    comparison: Comparison
    available_cases: int = 0  # examples that at least one entry has

    @property
    def is_partial(self) -> bool:
        """Whether it has fewer examples than there are. Such a result is never marked as the best."""
        return self.comparison.cases < self.available_cases

    @property
    def metric_key(self) -> MetricKey:
        return self.comparison.metric, self.comparison.measure

    @property
    def log_ratio(self) -> float | None:
        return self.comparison.log_ratio.value

    @property
    def significant(self) -> bool:
        return self.comparison.wilcoxon.p <= ALPHA

    @property
    def paper_log_ratio(self) -> PaperLogRatio | None:
        """The paper's number for the same model, method, dataset and metric, if it has one."""
        model = paper_model(self.model)
        as_published = self.method != "reagent" or self.preset.startswith("paper")
        if model is None or not as_published:
            return None
        return load_full_results().get((model, self.method, self.dataset, self.comparison.metric))

    def to_record(self) -> dict[str, Any]:
        """All numbers as one row of a data file."""
        comparison, paper = self.comparison, self.paper_log_ratio
        record: dict[str, Any] = {
            "model": self.model,
            "dataset": self.dataset,
            "level": self.level,
            "label": self.label,
            "method": self.method,
            "metric": comparison.metric,
            "measure": comparison.measure,
            "higher_is_better": comparison.higher_is_better,
            "cases": comparison.cases,
            "seeds": self.seeds,
        }
        for name in ("log_ratio", "mean", "random", "difference"):
            estimate = getattr(comparison, name)
            record |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return record | {
            "p": comparison.wilcoxon.p,
            "adjusted_p": comparison.adjusted_p,
            "correction": comparison.correction,
            "significant": self.significant,
            "wilcoxon": comparison.wilcoxon.statistic,
            "pairs": comparison.wilcoxon.pairs,
            "rank_biserial": comparison.rank_biserial,
            "cohens_d": comparison.cohens_d,
            "better": comparison.better,
            "flagged": comparison.flagged,
            "paper_log_ratio": paper and paper.value,
            "paper_significant": paper and paper.significant,
        }


ResultKey = tuple[str, str, str, str]  # model, dataset, label, metric
ResultIndex = Mapping[ResultKey, EntryResult]


def compare_with_random(run: Run) -> list[EntryResult]:
    """Compare every entry with random; p-values are corrected over all tests that share a metric and a measure."""
    groups: dict[tuple[str, str, str], list[CellSummary]] = defaultdict(list)
    for cell in run.cells:
        groups[cell.model, cell.dataset, cell.label].append(cell)
    results = [result for (_, _, label), cells in groups.items() for result in _compare_entry(label, cells)]
    examples: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for cell in run.cells:
        for key in cell.results:
            examples[cell.model, cell.dataset, *key].add(cell.example)
    tests: dict[MetricKey, list[int]] = defaultdict(list)
    for i, result in enumerate(results):
        tests[result.metric_key].append(i)
    for key, members in tests.items():
        adjusted = adjust([results[i].comparison.wilcoxon.p for i in members], CORRECTION)
        for i, p in zip(members, adjusted, strict=True):
            comparison = replace(results[i].comparison, correction=CORRECTION, adjusted_p=float(p))
            available = examples[results[i].model, results[i].dataset, *key]
            results[i] = replace(results[i], comparison=comparison, available_cases=len(available))
    return results


def preferred_measures(results: Iterable[EntryResult]) -> dict[str, str]:
    """The metrics of these results, each with the measure to show; data files contain all of them."""
    measures: dict[str, list[str]] = defaultdict(list)
    for result in results:
        measures[result.comparison.metric].append(result.comparison.measure)
    return {name: _preferred(measures[name]) for name in sorted(measures, key=_metric_order)}


def index_results(results: Iterable[EntryResult]) -> dict[ResultKey, EntryResult]:
    """Results by model, dataset, label and metric, each metric in its preferred measure."""
    results = list(results)
    measures = preferred_measures(results)
    return {
        (r.model, r.dataset, r.label, r.comparison.metric): r
        for r in results
        if measures[r.comparison.metric] == r.comparison.measure
    }


class MeanLogRatio(NamedTuple):
    """The log ratio of an entry to random, mean over all models and datasets."""

    value: float
    method: str
    is_partial: bool  # it has fewer examples than others


def mean_log_ratios(run: Run, results: Iterable[EntryResult], metric: str) -> dict[str, MeanLogRatio]:
    """Mean log ratios by label. An entry that lacks a model or a dataset has none, because it is not comparable."""
    index = {key: r for key, r in index_results(results).items() if key[3] == metric and r.log_ratio is not None}
    places = {key[:2] for key in index}
    means = {}
    for label in run.labels:
        entry = [index[*place, label, metric] for place in places if (*place, label, metric) in index]
        if entry and len(entry) == len(places):
            ratio = mean(r.log_ratio or 0.0 for r in entry)
            means[label] = MeanLogRatio(ratio, entry[0].method, any(r.is_partial for r in entry))
    return means


def value_records(run: Run) -> list[dict[str, Any]]:
    """Every single measured value, as rows of a data file."""
    names = ("model", "dataset", "level", "example", "group", "label", "method", "seed")
    return [
        {name: getattr(cell, name) for name in names}
        | {
            "metric": metric,
            "measure": measure,
            "value": result.value,
            "stderr": result.stderr,
            "random": result.random,
            "random_stderr": result.random_stderr,
            "flags": " ".join(result.flags),
            "forward_passes": cell.passes,
            "seconds": cell.seconds,
        }
        for cell in run.cells
        for (metric, measure), result in cell.results.items()
    ]


def results_by_example(cells: Iterable[CellSummary], key: MetricKey) -> dict[str, Result]:
    """The results of one entry by one metric, for each example; several seeds are averaged."""
    cases: dict[str, list[Result]] = defaultdict(list)
    for cell in cells:
        if key in cell.results:
            cases[cell.example].append(cell.results[key])
    return {example: _average_seeds(results) for example, results in cases.items()}


def _compare_entry(label: str, cells: Sequence[CellSummary]) -> Iterable[EntryResult]:
    first, seeds = cells[0], len({cell.seed for cell in cells})
    keys = {key: None for cell in cells for key in cell.results}
    for key in sorted(keys, key=lambda k: (_metric_order(k[0]), k[1])):
        results = list(results_by_example(cells, key).values())
        comparison = compare(results, [r.random for r in results], resamples=RESAMPLES)
        comparison = comparison if len(results) > 1 else _without_intervals(comparison)
        preset = str(first.settings.get("preset") or "")
        yield EntryResult(first.model, first.dataset, first.level, label, first.method, preset, seeds, comparison)


def _without_intervals(comparison: Comparison) -> Comparison:
    """A bootstrap of a single example has no variance, so its interval would be wrong."""
    names = ("log_ratio", "mean", "random", "difference")
    estimates = {name: getattr(comparison, name)._replace(low=None, high=None) for name in names}
    return replace(comparison, **estimates)


def _average_seeds(results: Sequence[Result]) -> Result:
    """Seeds of one example are not independent cases, so their mean counts as one."""
    flags = tuple(sorted({flag for result in results for flag in result.flags}))
    value, random = mean(r.value for r in results), mean(r.random for r in results)
    return replace(results[0], value=value, random=random, flags=flags)


def _preferred(measures: Sequence[str]) -> str:
    """A measure of whole distributions comes first, and the plain name before those of other removals and shares.

    >>> _preferred(["nats", "hellinger", "nats_delete"]), _preferred(["pearson_delete_50", "spearman_delete_50"])
    ('hellinger', 'spearman_delete_50')
    """
    for quantity in ("hellinger", "nats", "spearman", "found"):
        names = [name for name in measures if name.partition("_")[0] == quantity]
        if names:
            return min(names, key=natural_key)
    return measures[0]


def _metric_order(name: str) -> int:
    return _METRIC_ORDER.index(name) if name in _METRIC_ORDER else len(_METRIC_ORDER)
