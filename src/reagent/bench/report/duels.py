"""Head to head: the first entry of the suite against each of the others, on the examples that both have."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reagent.bench.report.reading import Number, Row, Run
from reagent.bench.report.results import (
    ALPHA,
    CORRECTION,
    NAMES,
    RESAMPLES,
    Family,
    Finding,
    by_example,
    measures,
)
from reagent.bench.report.tables import Column, Entry, Missing, Table, interval, number, transposed
from reagent.metrics.statistics import Comparison, compare, corrected

Pairing = tuple[str, str, str, str]  # model, dataset, the other's label, metric
_STAR = f"* p > {ALPHA} in the Wilcoxon signed-rank test of the pairs, corrected over all of one metric: may be chance."


def duels(run: Run, found: Sequence[Finding], family: Family) -> Table | Missing:
    """The differences of pairs; positive is better for the first entry, whichever way the metric goes."""
    title = f"Head to head: {family.title.lower()}"
    measure = {name: measure for name, measure in measures(found).items() if name in family.metrics}
    first = first_label(run)
    fought = _fought(run, first, measure)
    if not fought:
        return Missing(title, "there are no two entries with the same numbers on the same example")
    pairs = [(m, other) for m in run.models for other in run.labels if any(k[0] == m and k[2] == other for k in fought)]
    columns = [[Entry(run.short(model)) for model, _ in pairs], [Entry(other) for _, other in pairs]]
    heads = [Column("model", is_number=False), Column(f"{first} against", is_number=False)]
    for dataset in run.datasets:
        for metric in measure:
            some = [fought.get((model, dataset, other, metric)) for model, other in pairs]
            if any(some):
                columns += [[Entry(_said(one)) for one in some], [Entry(_range(one), quiet=True) for one in some]]
                heads += [Column(NAMES[metric], dataset), Column("95 %", dataset)]
    return Table(
        id=f"duels_{family.id}",
        title=title,
        caption=f"Mean difference of {first} and the other method on the same examples, with its bootstrap interval: "
        f"above 0, {first} is better.",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(_record(first, at, one) for at, one in fought.items()),
        notes=(_STAR,) if any(one is not None and not _is_sure(one) for one in fought.values()) else (),
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
        found |= dict(zip(of_metric, corrected(list(of_metric.values()), CORRECTION), strict=True))
    return found


def _duel(rows: Sequence[Row], others: Sequence[Row], number: Number) -> Comparison | None:
    own, theirs = by_example(rows, number), by_example(others, number)
    both = [example for example in own if example in theirs]
    if len(both) < 2:
        return None
    duel = compare([own[one] for one in both], [theirs[one].value for one in both], resamples=RESAMPLES)
    return replace(duel, flagged=0)


def _is_sure(one: Comparison) -> bool:
    return one.adjusted_p is not None and one.adjusted_p <= ALPHA


def _said(one: Comparison | None) -> str:
    return number(None) if one is None else number(one.difference.value, mark="" if _is_sure(one) else "*")


def _range(one: Comparison | None) -> str:
    return "" if one is None else interval(one.difference.low, one.difference.high)


def _record(first: str, at: Pairing, one: Comparison) -> dict[str, Any]:
    model, dataset, other, metric = at
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
        "correction": one.correction,
        "rank_biserial": one.rank_biserial,
        "better": one.better,
    }
