"""Who is ahead: how often each entry is the best, and how all do on the examples of those that have fewer."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any, NamedTuple

from reagent.metrics import METRICS
from reagent.report.analysis import FAMILIES, NAMES, PREDICTED, Finding, by_example, measures, shown
from reagent.report.load import Row, Run
from reagent.report.tables.base import (
    Column,
    Missing,
    Table,
    TableCell,
    best,
    best_within,
    count,
    emphasised,
    number,
    transposed,
)

_METRICS = [name for family in (*FAMILIES, PREDICTED) for name in family.metrics]
_BEST_TITLE = "How often each method is the best"
_SAME_TITLE = "On the same examples"


def best_table(run: Run, found: Sequence[Finding]) -> Table | Missing:
    """Of all means, one for each model, task and metric, how many are the best."""
    groups: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for (model, dataset, label, metric), finding in shown(found).items():
        value = finding.comparison.mean.value
        if metric in _METRICS and not finding.is_partial and value is not None:
            groups[model, dataset, metric][label] = value
    wins, contests, entered = Counter[tuple[str, str]](), Counter[str](), Counter[tuple[str, str]]()
    for (_, _, metric), means in groups.items():
        won = best(list(means.values()), METRICS[metric].higher_is_better, digits=12)
        if any(won):
            contests[metric] += 1
            entered.update((label, metric) for label in means)
            wins.update((label, metric) for label, is_best in zip(means, won, strict=True) if is_best)
    if not contests:
        return Missing(_BEST_TITLE, "no two entries have means over the same examples")
    fought = [metric for metric in _METRICS if contests[metric]]
    labels = [label for label in run.labels if any((label, metric) in entered for metric in fought)]
    totals = [sum(wins[label, metric] for metric in fought) for label in labels]
    marks = ["†" if any(entered[label, m] < contests[m] for m in fought) else "" for label in labels]
    columns = [
        [TableCell(label) for label in labels],
        emphasised([TableCell(f"{total}{mark}") for total, mark in zip(totals, marks, strict=True)], best(totals)),
        *([TableCell(str(wins[label, metric] or "")) for label in labels] for metric in fought),
    ]
    heads = [Column("method", is_number=False), Column(f"of {contests.total()}", "all")]
    return Table(
        id="best",
        title=_BEST_TITLE,
        caption=f"Of the {contests.total()} means, one for each model, task and metric, how many are the best, by "
        "however little. Only entries that have all examples of a task take part in it.",
        columns=(*heads, *(Column(f"of {contests[metric]}", NAMES[metric]) for metric in fought)),
        rows=transposed(columns),
        records=tuple(
            {"label": label, "metric": metric, "best": wins[label, metric], "of": entered[label, metric]}
            for label in labels
            for metric in fought
        ),
        notes=("† took part in fewer, since it lacks examples.",) if any(marks) else (),
    )


class _Group(NamedTuple):
    """Examples of one model and dataset that some entries have, and no others."""

    model: str
    dataset: str
    examples: frozenset[str]
    of: tuple[str, ...]  # the entries that have just these


def same_examples(run: Run, found: Sequence[Finding]) -> Table | Missing:
    """Everyone on the examples of those who have fewer."""
    measure = {name: measure for name, measure in measures(found).items() if name in _METRICS}
    records: list[dict[str, Any]] = []
    for group in _groups(run):
        lines = list(_lines(run, group, measure))
        records += lines if len(lines) > 1 else []
    if not records:
        return Missing(_SAME_TITLE, "all entries have all examples, or too few to compare")
    within = [tuple(line[name] for name in ("model", "dataset", "examples_of")) for line in records]
    columns = [[TableCell(run.short(line["model"])) for line in records]]
    columns += [[TableCell(line[name]) for line in records] for name in ("dataset", "examples_of", "label")]
    heads = [Column(name, is_number=False) for name in ("model", "dataset", "examples of", "method")]
    columns += [
        [TableCell(str(line["cases"])) for line in records],
        [TableCell(count(line["passes"])) for line in records],
    ]
    heads += [Column("examples"), Column("forward passes")]
    for metric in measure:
        higher = METRICS[metric].higher_is_better
        values: list[float | None] = [line[metric] for line in records]
        columns.append(emphasised(map(TableCell, map(number, values)), best_within(within, values, higher)))
        heads.append(Column(NAMES[metric] if higher else f"{NAMES[metric]} ↓"))
    return Table(
        id="same_examples",
        title=_SAME_TITLE,
        caption="Where some entries have fewer examples, all that have them on those alone. Logarithm of the mean over "
        "examples divided by that of random attributions; of LDS the mean. The best of a group is bold.",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(records),
    )


def _groups(run: Run) -> Iterator[_Group]:
    """One for each set of examples that is not all there are; a single example compares nothing."""
    for model in run.models:
        for dataset in run.datasets:
            rows = [row for row in run.rows if (row.model, row.dataset) == (model, dataset)]
            every = frozenset(row.example for row in rows)
            sets: dict[frozenset[str], list[str]] = defaultdict(list)
            for label in run.labels:
                sets[frozenset(row.example for row in rows if row.label == label)].append(label)
            for examples, labels in sets.items():
                if examples != every and len(examples) > 1:
                    yield _Group(model, dataset, examples, tuple(labels))


def _lines(run: Run, group: _Group, measure: dict[str, str]) -> Iterator[dict[str, Any]]:
    for label in run.labels:
        rows = [
            row
            for row in run.rows
            if (row.model, row.dataset, row.label) == (group.model, group.dataset, label)
            and row.example in group.examples
        ]
        if len({row.example for row in rows}) == len(group.examples):
            yield {
                "model": group.model,
                "dataset": group.dataset,
                "examples_of": ", ".join(group.of),
                "label": label,
                "cases": len(group.examples),
                "passes": mean(row.passes for row in rows),
            } | {metric: _value(rows, metric, name) for metric, name in measure.items()}


def _value(rows: Sequence[Row], metric: str, measure: str) -> float | None:
    results = list(by_example(rows, (metric, measure)).values())
    if not results:
        return None
    value, random = mean(result.value for result in results), mean(result.random for result in results)
    if metric in PREDICTED.metrics:
        return value
    return math.log(value / random) if value > 0 and random > 0 else None
