"""The leaderboard: how often each entry has the best mean, and all entries on the examples of the smaller ones."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any, NamedTuple

from reagent.metrics import METRICS
from reagent.report.analysis import (
    LDS,
    METRIC_NAMES,
    RATIO_FAMILIES,
    EntryResult,
    index_results,
    metric_heading,
    preferred_measures,
    results_by_example,
)
from reagent.report.contents import Column, Missing, Table, TableCell
from reagent.report.load import CellSummary, Run
from reagent.report.tables.base import (
    columns_to_rows,
    embolden,
    find_best,
    find_best_by_group,
    format_count,
    format_number,
)

_METRICS = [name for family in (*RATIO_FAMILIES, LDS) for name in family.metrics]
_LEADERBOARD_TITLE = "How often each method is the best"
_SAME_EXAMPLES_TITLE = "Results on the same examples"


def leaderboard_table(run: Run, results: Sequence[EntryResult]) -> Table | Missing:
    """Count, for each entry, the combinations of model, task and metric in which its mean is the best."""
    counts = _count_best(results)
    if not counts.comparisons:
        return Missing(_LEADERBOARD_TITLE, "no two entries have means over the same examples")
    best, entered, comparisons = counts
    metrics = [metric for metric in _METRICS if comparisons[metric]]
    labels = [label for label in run.labels if any((label, metric) in entered for metric in metrics)]
    totals = [sum(best[label, metric] for metric in metrics) for label in labels]
    marks = ["†" if any(entered[label, m] < comparisons[m] for m in metrics) else "" for label in labels]
    columns = [
        [TableCell(label) for label in labels],
        embolden([TableCell(f"{total}{mark}") for total, mark in zip(totals, marks, strict=True)], find_best(totals)),
        *([TableCell(str(best[label, metric] or "")) for label in labels] for metric in metrics),
    ]
    heads = [Column("method", is_number=False), Column(f"of {comparisons.total()}", "all")]
    return Table(
        id="leaderboard",
        title=_LEADERBOARD_TITLE,
        caption=f"There are {comparisons.total()} combinations of model, task and metric. The table counts those in "
        "which a method has the best mean, by any margin. Only entries with all examples of a task are compared.",
        columns=(*heads, *(Column(f"of {comparisons[metric]}", METRIC_NAMES[metric]) for metric in metrics)),
        rows=columns_to_rows(columns),
        records=tuple(
            {"label": label, "metric": metric, "best": best[label, metric], "of": entered[label, metric]}
            for label in labels
            for metric in metrics
        ),
        notes=("† compared in fewer combinations, because some of its examples are missing.",) if any(marks) else (),
    )


class _BestCounts(NamedTuple):
    best: Counter[tuple[str, str]]  # by label and metric
    entered: Counter[tuple[str, str]]  # by label and metric
    comparisons: Counter[str]  # by metric


def _count_best(results: Sequence[EntryResult]) -> _BestCounts:
    groups: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for (model, dataset, label, metric), result in index_results(results).items():
        value = result.comparison.mean.value
        if metric in _METRICS and not result.is_partial and value is not None:
            groups[model, dataset, metric][label] = value
    counts = _BestCounts(Counter(), Counter(), Counter())
    for (_, _, metric), means in groups.items():
        flags = find_best(list(means.values()), METRICS[metric].higher_is_better, digits=12)
        if any(flags):
            counts.comparisons[metric] += 1
            counts.entered.update((label, metric) for label in means)
            counts.best.update((label, metric) for label, is_best in zip(means, flags, strict=True) if is_best)
    return counts


class _ExampleSet(NamedTuple):
    """A proper subset of the examples of one model and dataset, and the entries that have exactly these."""

    model: str
    dataset: str
    examples: frozenset[str]
    labels: tuple[str, ...]


def same_examples_table(run: Run, results: Sequence[EntryResult]) -> Table | Missing:
    """Where some entries have fewer examples: every entry on those examples only."""
    measures = {name: measure for name, measure in preferred_measures(results).items() if name in _METRICS}
    records: list[dict[str, Any]] = []
    for subset in _example_sets(run):
        rows = list(_records(run, subset, measures))
        records += rows if len(rows) > 1 else []
    if not records:
        return Missing(_SAME_EXAMPLES_TITLE, "all entries have all examples, or too few to compare")
    groups = [tuple(record[name] for name in ("model", "dataset", "examples_of")) for record in records]
    columns = [[TableCell(run.short_name(record["model"])) for record in records]]
    columns += [[TableCell(record[name]) for record in records] for name in ("dataset", "examples_of", "label")]
    heads = [Column(name, is_number=False) for name in ("model", "dataset", "examples of", "method")]
    columns += [
        [TableCell(str(record["cases"])) for record in records],
        [TableCell(format_count(record["passes"])) for record in records],
    ]
    heads += [Column("examples"), Column("forward passes")]
    for metric in measures:
        values: list[float | None] = [record[metric] for record in records]
        flags = find_best_by_group(groups, values, METRICS[metric].higher_is_better)
        columns.append(embolden(map(TableCell, map(format_number, values)), flags))
        heads.append(Column(metric_heading(metric)))
    return Table(
        id="same_examples",
        title=_SAME_EXAMPLES_TITLE,
        caption="Where some entries have fewer examples, all entries that have these, on these only. Natural logarithm "
        "of the mean over examples divided by that of random attributions; for LDS the mean. The best of a group is "
        "bold.",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(records),
    )


def _example_sets(run: Run) -> Iterator[_ExampleSet]:
    """The sets of two or more examples that some entry has and that are not all examples."""
    for model in run.models:
        for dataset in run.datasets:
            cells = [cell for cell in run.cells if (cell.model, cell.dataset) == (model, dataset)]
            every = frozenset(cell.example for cell in cells)
            labels_by_set: dict[frozenset[str], list[str]] = defaultdict(list)
            for label in run.labels:
                labels_by_set[frozenset(cell.example for cell in cells if cell.label == label)].append(label)
            for examples, labels in labels_by_set.items():
                if examples != every and len(examples) > 1:
                    yield _ExampleSet(model, dataset, examples, tuple(labels))


def _records(run: Run, subset: _ExampleSet, measures: dict[str, str]) -> Iterator[dict[str, Any]]:
    for label in run.labels:
        cells = [
            cell
            for cell in run.cells
            if (cell.model, cell.dataset, cell.label) == (subset.model, subset.dataset, label)
            and cell.example in subset.examples
        ]
        if len({cell.example for cell in cells}) == len(subset.examples):
            yield {
                "model": subset.model,
                "dataset": subset.dataset,
                "examples_of": ", ".join(subset.labels),
                "label": label,
                "cases": len(subset.examples),
                "passes": mean(cell.passes for cell in cells),
            } | {metric: _value(cells, metric, measure) for metric, measure in measures.items()}


def _value(cells: Sequence[CellSummary], metric: str, measure: str) -> float | None:
    """The log ratio to random, or the mean for LDS."""
    results = list(results_by_example(cells, (metric, measure)).values())
    if not results:
        return None
    value, random = mean(result.value for result in results), mean(result.random for result in results)
    if metric in LDS.metrics:
        return value
    return math.log(value / random) if value > 0 and random > 0 else None
