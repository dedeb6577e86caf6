"""The tables of a study: full results, averages over models and over tasks, the paper's numbers, cost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import mean, median
from typing import Any

from reagent.metrics import METRICS
from reagent.metrics.statistics import Estimate
from reagent.report.analysis import ALPHA, NAMES, SOFT, Family, Finding, measures, shown
from reagent.report.load import Row, Run
from reagent.report.paper_results import CAUTION, published_name
from reagent.report.tables.base import (
    Column,
    Missing,
    Table,
    TableCell,
    best,
    count,
    emphasised,
    interval,
    number,
    transposed,
)

_RATIO = (
    "Natural logarithm of the mean over examples divided by the mean of random attributions on the same examples: "
    "0 is as good as random"
)
_STAR = "* p > .05 in the Wilcoxon signed-rank test: not significantly different from random."
_ONCE = "° significant by itself, but not once p is corrected (Holm) over all entries, tasks and models of the metric."
_NONE = "–: not measured, or no logarithm, since one of the means is 0 or below; the means are in the data."
_DOWN = "↓: lower is better, so that below 0 is better than random."
_PART = "† over a part of the examples, models or tasks, since others are missing: never marked as best."


def averages(run: Run, found: Sequence[Finding], family: Family) -> Iterator[Table]:
    """The means over models and over tasks, where anything of the family was measured."""
    if _measured(found, family):
        yield _averages(run, found, family, over_models=True)
        yield _averages(run, found, family, over_models=False)


def full_table(run: Run, found: Sequence[Finding], family: Family) -> Table | Missing:
    """Every model, method and dataset, with the paper's asterisks."""
    metrics = _measured(found, family)
    if not metrics:
        names = " and ".join(NAMES[name] for name in family.metrics)
        return Missing(f"Results and bars: {family.title.lower()}", f"no cell has {names}")
    at, pairs = shown(found), _model_labels(run, found)
    columns = [[TableCell(run.short(model)) for model, _ in pairs], [TableCell(label) for _, label in pairs]]
    heads = [Column("model", is_number=False), Column("method", is_number=False)]
    for dataset in run.datasets:
        for metric in metrics:
            entries = [at.get((model, dataset, label, metric)) for model, label in pairs]
            columns.append([TableCell(_starred(finding)) for finding in entries])
            columns.append([_range(None if finding is None else finding.comparison.log_ratio) for finding in entries])
            heads += [Column(_heading(metric), dataset), Column("95 %", dataset)]
    kept = [f for f in found if f.comparison.metric in metrics]
    return Table(
        id=f"full_{family.id}",
        title=f"Full results: {family.title.lower()}",
        caption=f"{_RATIO}. With bootstrap intervals over examples. {_cases(kept)}",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(f.record() for f in kept),
        notes=_notes(metrics, columns),
    )


def _averages(run: Run, found: Sequence[Finding], family: Family, over_models: bool) -> Table:
    at, labels, metrics = shown(found), run.labels, _measured(found, family)
    groups, others = (run.datasets, run.models) if over_models else (run.models, run.datasets)
    columns, heads = [[TableCell(label) for label in labels]], [Column("method", is_number=False)]
    records: list[dict[str, Any]] = []
    for metric in metrics:
        for group in groups:
            places = [(other, group) if over_models else (group, other) for other in others]
            tried = [place for place in places if any((*place, label, metric) in at for label in labels)]
            cells = [[at.get((*place, label, metric)) for place in tried] for label in labels]
            ratios = [[None if finding is None else finding.log_ratio for finding in some] for some in cells]
            means = [_mean(some) for some in ratios]
            marks = [
                "†" if any(f is None or f.log_ratio is None or f.is_partial for f in some) else "" for some in cells
            ]
            whole = [None if mark else value for value, mark in zip(means, marks, strict=True)]
            entries = [TableCell(number(value, mark=mark)) for value, mark in zip(means, marks, strict=True)]
            columns.append(emphasised(entries, best(whole, METRICS[metric].higher_is_better)))
            heads.append(Column(group if over_models else run.short(group), _heading(metric)))
            records += _average_records(labels, ratios, metric, "dataset" if over_models else "model", group)
    what, per = ("models", "task") if over_models else ("tasks", "model")
    names = [run.short(name) for name in others] if over_models else others
    return Table(
        id=f"by_{per}_{family.id}",
        title=f"Averages over {what}: {family.title.lower()}",
        caption=f"Log ratio to random for each {per}, mean over {_listed(names, what)}. The best of a column is bold.",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(records),
        notes=_notes(metrics, columns),
    )


def _average_records(
    labels: Sequence[str], ratios: Sequence[Sequence[float | None]], metric: str, per: str, group: str
) -> Iterator[dict[str, Any]]:
    for label, some in zip(labels, ratios, strict=True):
        have = len([value for value in some if value is not None])
        yield {
            "label": label,
            per: group,
            "metric": metric,
            "log_ratio": _mean(some),
            "averaged": have,
            "missing": len(some) - have,
        }


def lds_table(run: Run, found: Sequence[Finding]) -> Table | Missing:
    """Correlations, which may be negative and so have no log ratio."""
    title = "How well effects predict replacements"
    if "lds" not in measures(found):
        return Missing(title, "no cell has LDS")
    at, pairs = shown(found), _model_labels(run, found)
    kept = [f for f in found if f.comparison.metric == "lds"]
    columns = [[TableCell(run.short(model)) for model, _ in pairs], [TableCell(label) for _, label in pairs]]
    heads = [Column("model", is_number=False), Column("method", is_number=False)]
    for dataset in run.datasets:
        entries = [at.get((model, dataset, label, "lds")) for model, label in pairs]
        means = [Estimate(None, None, None) if f is None else f.comparison.mean for f in entries]
        marks = ["" if f is None else _mark(f) for f in entries]
        columns.append([TableCell(number(e.value, mark=mark)) for e, mark in zip(means, marks, strict=True)])
        columns.append([_range(e) for e in means])
        heads += [Column("LDS ↑", dataset), Column("95 %", dataset)]
    return Table(
        id="lds",
        title=title,
        caption="Rank correlation of what effects predict for random replacements and what these do; mean over "
        f"examples, with its interval. {_cases(kept)}",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(f.record() for f in kept),
        notes=_notes([], columns),
    )


def beside_the_paper(run: Run, found: Sequence[Finding]) -> Table | Missing:
    """Ours and the paper's, for its models and methods."""
    title = "Beside the paper"
    at = {key: finding for key, finding in shown(found).items() if finding.published}
    if not at:
        known = any(published_name(model) for model in run.models)
        reason = "no entry is one of its methods, as published" if known else "none of the models is one of its six"
        return Missing(title, reason)
    pairs = [pair for pair in _model_labels(run, found) if any(key[0] == pair[0] and key[2] == pair[1] for key in at)]
    columns = [
        [TableCell(f"{run.short(model)} ({published_name(model)})") for model, _ in pairs],
        [TableCell(label) for _, label in pairs],
    ]
    heads = [Column("model", is_number=False), Column("method", is_number=False)]
    for dataset in run.datasets:
        for metric in SOFT.metrics:
            entries = [at.get((model, dataset, label, metric)) for model, label in pairs]
            if any(entries):
                columns.append([TableCell(_starred(finding)) for finding in entries])
                columns.append([TableCell(_printed(finding), quiet=True) for finding in entries])
                heads += [Column("ours", f"{dataset} {NAMES[metric]}"), Column("paper", f"{dataset} {NAMES[metric]}")]
    return Table(
        id="beside_the_paper",
        title=title,
        caption=f"Log ratios to random, ours and those of the paper. {CAUTION}",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(finding.record() for finding in at.values()),
        notes=(_STAR, *([_ONCE] if _has(columns, "°") else [])),
    )


def cost_table(run: Run) -> Table:
    """What explaining one example took, and how sure one is then."""
    records: list[dict[str, Any]] = [
        {
            "dataset": dataset,
            "label": label,
            "method": rows[0].method,
            "cells": len(rows),
            "forward_passes": mean(row.passes for row in rows),
            "fewest_passes": min(row.passes for row in rows),
            "most_passes": max(row.passes for row in rows),
            "seconds": mean(row.seconds for row in rows),
            "error": median(errors) if (errors := [row.error for row in rows if row.error is not None]) else None,
            "ended": _ended(rows),
        }
        for dataset in run.datasets
        for label in run.labels
        if (rows := [row for row in run.rows if (row.dataset, row.label) == (dataset, label)])
    ]
    return Table(
        id="cost",
        title="Cost",
        caption="Forward passes of the explained model and seconds for one example, mean over all cells; without "
        "loading, generating and evaluating. Backward passes of gradient methods are not counted. And how sure one is "
        "then: the standard error of the largest effect by that effect, median over cells, and for how many output "
        "tokens the search ended in which way.",
        columns=(
            *(Column(name, is_number=False) for name in ("dataset", "method")),
            *(
                Column(name)
                for name in ("cells", "forward passes", "from", "to", "seconds", "error of the largest effect")
            ),
            Column("ended", is_number=False),
        ),
        rows=tuple(
            (
                *(TableCell(str(line[name])) for name in ("dataset", "label")),
                TableCell(f"{line['cells']:,}"),
                *(TableCell(count(line[name])) for name in ("forward_passes", "fewest_passes", "most_passes")),
                TableCell(number(line["seconds"], 2)),
                TableCell("–" if line["error"] is None else f"{line['error']:.0%}"),
                TableCell(str(line["ended"])),
            )
            for line in records
        ),
        records=tuple(records),
    )


def _ended(rows: Sequence[Row]) -> str:
    """For how many output tokens in which way, most often first; nothing where the number of passes was fixed."""
    reasons = Counter(reason for row in rows for reason in row.stopped if reason != "fixed")
    return ", ".join(f"{times:,} {reason}" for reason, times in reasons.most_common())


# --- what they share ---


def _measured(found: Sequence[Finding], family: Family) -> list[str]:
    have = measures(found)
    return [name for name in family.metrics if name in have]


def _model_labels(run: Run, found: Sequence[Finding]) -> list[tuple[str, str]]:
    have = {(finding.model, finding.label) for finding in found}
    return [(model, label) for model in run.models for label in run.labels if (model, label) in have]


def _mean(values: Sequence[float | None]) -> float | None:
    have = [value for value in values if value is not None]
    return mean(have) if have else None


def _mark(finding: Finding) -> str:
    chance = "*" if not finding.significant else "°" if (finding.comparison.adjusted_p or 0) > ALPHA else ""
    return chance + ("†" if finding.is_partial else "")


def _starred(finding: Finding | None) -> str:
    return number(None) if finding is None else number(finding.log_ratio, mark=_mark(finding))


def _range(estimate: Estimate | None) -> TableCell:
    if estimate is None or estimate.value is None:
        return TableCell("", quiet=True)
    return TableCell(interval(estimate.low, estimate.high), quiet=True)


def _printed(finding: Finding | None) -> str:
    paper = None if finding is None else finding.published
    return "" if paper is None else number(paper.value, mark="" if paper.significant else "*")


def _heading(metric: str) -> str:
    return NAMES[metric] if METRICS[metric].higher_is_better else f"{NAMES[metric]} ↓"


def _cases(found: Sequence[Finding]) -> str:
    """How many examples the numbers rest on."""
    counts = sorted({finding.comparison.cases for finding in found})
    return f"Examples: {counts[0]}." if len(counts) == 1 else f"Examples: {counts[0]} to {counts[-1]}."


def _notes(metrics: Sequence[str], columns: Sequence[Sequence[TableCell]]) -> tuple[str, ...]:
    """What the marks mean, where there are any."""
    lower = not all(METRICS[metric].higher_is_better for metric in metrics)
    signs = {"*": _STAR, "°": _ONCE, "†": _PART, number(None): _NONE}
    return (*(note for sign, note in signs.items() if _has(columns, sign)), *([_DOWN] if lower else []))


def _has(columns: Sequence[Sequence[TableCell]], sign: str) -> bool:
    return any(entry.text.endswith(sign) or f"{sign}†" in entry.text for column in columns for entry in column)


def _listed(names: Sequence[str], what: str) -> str:
    return f"{len(names)} {what}: {', '.join(names)}" if len(names) > 1 else f"one {what.removesuffix('s')}: {names[0]}"
