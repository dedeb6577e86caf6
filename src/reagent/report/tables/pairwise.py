"""Head to head: the first entry of the suite against each of the others, on the examples that both have."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reagent.metrics.statistics import Comparison, adjust, adjust_comparisons, compare
from reagent.report.analysis import (
    ALPHA,
    CORRECTION,
    FAMILIES,
    MARKED,
    NAMES,
    PREDICTED,
    RESAMPLES,
    Family,
    Finding,
    by_example,
    measures,
)
from reagent.report.load import Number, Row, Run
from reagent.report.tables.base import Column, Missing, Table, TableCell, interval, number, transposed

Pairing = tuple[str, str, str, str]  # model, dataset, the other's label, metric
_STAR = f"* p > {ALPHA} in the Wilcoxon signed-rank test of the pairs, corrected over all of one metric: may be chance."
_ONCE = "° p is below that, but not once all {} head-to-heads of the run, by whichever metric, are corrected together."


@dataclass(frozen=True)
class PairwiseTest:
    """The first entry against another, by one metric."""

    comparison: Comparison
    adjusted_p: float  # corrected over all pairwise_tests of the run, whatever their metric


PairwiseTests = Mapping[Pairing, PairwiseTest]


def pairwise_tests(run: Run, found: Sequence[Finding]) -> PairwiseTests:
    """All of a run."""
    known = {name for family in (*FAMILIES, PREDICTED, MARKED) for name in family.metrics}
    measure = {name: measure for name, measure in measures(found).items() if name in known}
    fought = _fought(run, first_label(run), measure)
    together = adjust([one.wilcoxon.p for one in fought.values()], CORRECTION)
    return {at: PairwiseTest(one, float(p)) for (at, one), p in zip(fought.items(), together, strict=True)}


def pairwise_tables(run: Run, every: PairwiseTests, family: Family) -> Table | Missing:
    """The differences of pairs; positive is better for the first entry, whichever way the metric goes."""
    title = f"Head to head: {family.title.lower()}"
    first = first_label(run)
    fought = {at: one for at, one in every.items() if at[3] in family.metrics}
    if not fought:
        return Missing(title, "there are no two entries with the same numbers on the same example")
    pairs = [(m, other) for m in run.models for other in run.labels if any(k[0] == m and k[2] == other for k in fought)]
    columns = [[TableCell(run.short(model)) for model, _ in pairs], [TableCell(other) for _, other in pairs]]
    heads = [Column("model", is_number=False), Column(f"{first} against", is_number=False)]
    for dataset in run.datasets:
        for metric in dict.fromkeys(at[3] for at in fought):
            some = [fought.get((model, dataset, other, metric)) for model, other in pairs]
            if any(some):
                columns += [
                    [TableCell(_said(one)) for one in some],
                    [TableCell(_range(one), quiet=True) for one in some],
                ]
                heads += [Column(NAMES[metric], dataset), Column("95 %", dataset)]
    return Table(
        id=f"duels_{family.id}",
        title=title,
        caption=f"Mean difference of {first} and the other method on the same examples, with its bootstrap interval: "
        f"above 0, {first} is better.",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(_record(first, at, one) for at, one in fought.items()),
        notes=tuple(
            note
            for mark, note in (("*", _STAR), ("°", _ONCE.format(len(every))))
            if mark in map(_mark, fought.values())
        ),
    )


def first_label(run: Run) -> str:
    """The entry that the suite names first."""
    return next((label for label in run.facts.get("labels", ()) if label in run.labels), run.labels[0])


def _fought(run: Run, first: str, measure: dict[str, str]) -> dict[Pairing, Comparison]:
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in run.rows:
        groups[row.model, row.dataset, row.label].append(row)
    found: dict[Pairing, Comparison] = {}
    for metric, name in measure.items():
        of_metric: dict[Pairing, Comparison] = {}
        for (model, dataset, label), rows in groups.items():
            if label != first and (model, dataset, first) in groups:
                duel = _duel(groups[model, dataset, first], rows, (metric, name))
                of_metric |= {(model, dataset, label, metric): duel} if duel else {}
        found |= dict(zip(of_metric, adjust_comparisons(list(of_metric.values()), CORRECTION), strict=True))
    return found


def _duel(rows: Sequence[Row], others: Sequence[Row], number: Number) -> Comparison | None:
    own, theirs = by_example(rows, number), by_example(others, number)
    both = [example for example in own if example in theirs]
    if len(both) < 2:
        return None
    duel = compare([own[one] for one in both], [theirs[one].value for one in both], resamples=RESAMPLES)
    return replace(duel, flagged=0)


def _mark(fight: PairwiseTest) -> str:
    of_metric = fight.comparison.adjusted_p
    return "*" if of_metric is None or of_metric > ALPHA else "°" if fight.adjusted_p > ALPHA else ""


def _said(fight: PairwiseTest | None) -> str:
    return number(None) if fight is None else number(fight.comparison.difference.value, mark=_mark(fight))


def _range(fight: PairwiseTest | None) -> str:
    return "" if fight is None else interval(fight.comparison.difference.low, fight.comparison.difference.high)


def _record(first: str, at: Pairing, fight: PairwiseTest) -> dict[str, Any]:
    (model, dataset, other, metric), one = at, fight.comparison
    return {
        "model": model,
        "dataset": dataset,
        "label": first,
        "against": other,
        "metric": metric,
        "measure": one.measure,
        "cases": one.cases,
        "mean": one.mean.value,
        "other_mean": one.random.value,
        "difference": one.difference.value,
        "difference_low": one.difference.low,
        "difference_high": one.difference.high,
        "p": one.wilcoxon.p,
        "adjusted_p": one.adjusted_p,
        "adjusted_p_together": fight.adjusted_p,
        "correction": one.correction,
        "rank_biserial": one.rank_biserial,
        "better": one.better,
    }
