"""Pairwise tests: the first entry of the suite against each other entry, on the examples that both have."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reagent.metrics.statistics import Comparison, adjust, adjust_comparisons, compare
from reagent.report.analysis import (
    ALPHA,
    CORRECTION,
    LDS,
    METRIC_NAMES,
    RATIO_FAMILIES,
    RATIONALES,
    RESAMPLES,
    EntryResult,
    MetricFamily,
    preferred_measures,
    results_by_example,
)
from reagent.report.contents import Column, Missing, Table, TableCell
from reagent.report.load import CellSummary, MetricKey, Run
from reagent.report.tables.base import NOT_AVAILABLE, columns_to_rows, format_interval, format_number

PairKey = tuple[str, str, str, str]  # model, dataset, label of the other entry, metric
_NOT_SIGNIFICANT = (
    f"* p > {ALPHA} in the Wilcoxon signed-rank test of the pairs, corrected over all tests of the same metric: not "
    "significant."
)
_NOT_TOGETHER = f"° p ≤ {ALPHA}, but not if all {{}} pairwise tests of the run, of all metrics, are corrected together."


@dataclass(frozen=True)
class PairwiseTest:
    """The first entry of the suite compared with another entry, by one metric."""

    comparison: Comparison  # its adjusted p is corrected over all tests of the metric
    adjusted_p_together: float  # corrected over all tests of the run

    @property
    def mark(self) -> str:
        p = self.comparison.adjusted_p
        return "*" if p is None or p > ALPHA else "°" if self.adjusted_p_together > ALPHA else ""


PairwiseTests = Mapping[PairKey, PairwiseTest]


def run_pairwise_tests(run: Run, results: Sequence[EntryResult]) -> PairwiseTests:
    """All pairwise tests of a run."""
    tested = {name for family in (*RATIO_FAMILIES, LDS, RATIONALES) for name in family.metrics}
    measures = {name: measure for name, measure in preferred_measures(results).items() if name in tested}
    comparisons = _compare_pairs(run, reference_label(run), measures)
    together = adjust([one.wilcoxon.p for one in comparisons.values()], CORRECTION)
    return {key: PairwiseTest(one, float(p)) for (key, one), p in zip(comparisons.items(), together, strict=True)}


def pairwise_table(run: Run, all_tests: PairwiseTests, family: MetricFamily) -> Table | Missing:
    """Mean differences of the pairs. Positive means that the first entry is better, for every metric."""
    title = f"Pairwise tests: {family.title.lower()}"
    reference = reference_label(run)
    tests = {key: test for key, test in all_tests.items() if key[3] in family.metrics}
    if not tests:
        return Missing(title, "no two entries have the same metric on the same examples")
    pairs = [(m, label) for m in run.models for label in run.labels if any((k[0], k[2]) == (m, label) for k in tests)]
    columns = [[TableCell(run.short_name(model)) for model, _ in pairs], [TableCell(other) for _, other in pairs]]
    heads = [Column("model", is_number=False), Column(f"{reference} compared with", is_number=False)]
    for dataset in run.datasets:
        for metric in dict.fromkeys(key[3] for key in tests):
            column = [tests.get((model, dataset, other, metric)) for model, other in pairs]
            if any(column):
                columns.append([TableCell(_difference(test)) for test in column])
                columns.append([TableCell(_interval(test), muted=True) for test in column])
                heads += [Column(METRIC_NAMES[metric], dataset), Column("95 %", dataset)]
    marks = {test.mark for test in tests.values()}
    notes = {"*": _NOT_SIGNIFICANT, "°": _NOT_TOGETHER.format(len(all_tests))}
    return Table(
        id=f"pairwise_{family.id}",
        title=title,
        caption=f"Mean difference between {reference} and the other method on the same examples, with its bootstrap "
        f"interval. Above 0, {reference} is better.",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(_record(reference, key, test) for key, test in tests.items()),
        notes=tuple(note for mark, note in notes.items() if mark in marks),
    )


def reference_label(run: Run) -> str:
    """The entry that the suite names first."""
    return next((label for label in run.facts.get("labels", ()) if label in run.labels), run.labels[0])


def _compare_pairs(run: Run, reference: str, measures: Mapping[str, str]) -> dict[PairKey, Comparison]:
    groups: dict[tuple[str, str, str], list[CellSummary]] = defaultdict(list)
    for cell in run.cells:
        groups[cell.model, cell.dataset, cell.label].append(cell)
    comparisons: dict[PairKey, Comparison] = {}
    for metric, measure in measures.items():
        of_metric: dict[PairKey, Comparison] = {}
        for (model, dataset, label), cells in groups.items():
            if label != reference and (model, dataset, reference) in groups:
                comparison = _compare_pair(groups[model, dataset, reference], cells, (metric, measure))
                of_metric |= {(model, dataset, label, metric): comparison} if comparison else {}
        comparisons |= dict(zip(of_metric, adjust_comparisons(list(of_metric.values()), CORRECTION), strict=True))
    return comparisons


def _compare_pair(
    cells: Sequence[CellSummary], other_cells: Sequence[CellSummary], key: MetricKey
) -> Comparison | None:
    own, other = results_by_example(cells, key), results_by_example(other_cells, key)
    shared = [example for example in own if example in other]
    if len(shared) < 2:
        return None
    comparison = compare([own[e] for e in shared], [other[e].value for e in shared], resamples=RESAMPLES)
    return replace(comparison, flagged=0)


def _difference(test: PairwiseTest | None) -> str:
    return NOT_AVAILABLE if test is None else format_number(test.comparison.difference.value, mark=test.mark)


def _interval(test: PairwiseTest | None) -> str:
    return "" if test is None else format_interval(test.comparison.difference.low, test.comparison.difference.high)


def _record(reference: str, key: PairKey, test: PairwiseTest) -> dict[str, Any]:
    (model, dataset, other, metric), comparison = key, test.comparison
    return {
        "model": model,
        "dataset": dataset,
        "label": reference,
        "against": other,
        "metric": metric,
        "measure": comparison.measure,
        "cases": comparison.cases,
        "mean": comparison.mean.value,
        "other_mean": comparison.random.value,
        "difference": comparison.difference.value,
        "difference_low": comparison.difference.low,
        "difference_high": comparison.difference.high,
        "p": comparison.wilcoxon.p,
        "adjusted_p": comparison.adjusted_p,
        "adjusted_p_together": test.adjusted_p_together,
        "correction": comparison.correction,
        "rank_biserial": comparison.rank_biserial,
        "better": comparison.better,
    }
