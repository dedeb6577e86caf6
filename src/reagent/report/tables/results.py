"""Tables of results: every number, averages over models and over tasks, LDS, and the comparison with the paper."""

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any

from reagent.metrics import METRICS
from reagent.metrics.statistics import Estimate
from reagent.report.analysis import (
    ALPHA,
    METRIC_NAMES,
    SOFT,
    EntryResult,
    MetricFamily,
    index_results,
    metric_heading,
    preferred_measures,
)
from reagent.report.contents import Column, Missing, Table, TableCell
from reagent.report.load import Run
from reagent.report.paper_results import CAUTION, paper_model
from reagent.report.tables.base import (
    NOT_AVAILABLE,
    columns_to_rows,
    embolden,
    find_best,
    format_interval,
    format_number,
)

_LOG_RATIO = (
    "Natural logarithm of the mean over examples divided by the mean of random attributions on the same examples: "
    "0 is as good as random"
)
_NOT_SIGNIFICANT = "* p > .05 in the Wilcoxon signed-rank test: not significantly different from random."
_NOT_AFTER_CORRECTION = (
    "° p ≤ .05, but not after Holm’s correction over all entries, tasks and models of the same metric."
)
_UNDEFINED = (
    f"{NOT_AVAILABLE}: not measured, or undefined because a mean is 0 or negative; the means are in the data files."
)
_LOWER_IS_BETTER = "↓: lower is better; a value below 0 is better than random."
_PARTIAL = "† some examples, models or tasks are missing; never marked as the best."


def full_table(run: Run, results: Sequence[EntryResult], family: MetricFamily) -> Table | Missing:
    """Log ratios of every model, method and dataset, with intervals."""
    metrics = _measured(results, family)
    if not metrics:
        names = " and ".join(METRIC_NAMES[name] for name in family.metrics)
        return Missing(f"Results and bars: {family.title.lower()}", f"no cell has {names}")
    index, entries = index_results(results), _entries(run, results)
    columns, heads = _entry_columns(run, entries)
    for dataset in run.datasets:
        for metric in metrics:
            column = [index.get((model, dataset, label, metric)) for model, label in entries]
            columns.append([TableCell(_log_ratio(result)) for result in column])
            columns.append([_interval(None if result is None else result.comparison.log_ratio) for result in column])
            heads += [Column(metric_heading(metric), dataset), Column("95 %", dataset)]
    of_family = [r for r in results if r.comparison.metric in metrics]
    return Table(
        id=f"full_{family.id}",
        title=f"Full results: {family.title.lower()}",
        caption=f"{_LOG_RATIO}. Intervals: bootstrap over examples. {_example_range(of_family)}",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(r.to_record() for r in of_family),
        notes=_notes(metrics, columns),
    )


def average_tables(run: Run, results: Sequence[EntryResult], family: MetricFamily) -> Iterator[Table]:
    """Mean log ratios over models and over tasks, if any metric of the family was measured."""
    if _measured(results, family):
        yield _average_table(run, results, family, over_models=True)
        yield _average_table(run, results, family, over_models=False)


def _average_table(run: Run, results: Sequence[EntryResult], family: MetricFamily, over_models: bool) -> Table:
    index, labels, metrics = index_results(results), run.labels, _measured(results, family)
    groups, averaged = (run.datasets, run.models) if over_models else (run.models, run.datasets)
    columns, heads = [[TableCell(label) for label in labels]], [Column("method", is_number=False)]
    records: list[dict[str, Any]] = []
    for metric in metrics:
        for group in groups:
            places = [(other, group) if over_models else (group, other) for other in averaged]
            places = [place for place in places if any((*place, label, metric) in index for label in labels)]
            members = [[index.get((*place, label, metric)) for place in places] for label in labels]
            ratios = [[None if r is None else r.log_ratio for r in row] for row in members]
            columns.append(_average_column(members, METRICS[metric].higher_is_better))
            heads.append(Column(group if over_models else run.short_name(group), metric_heading(metric)))
            records += _average_records(labels, ratios, metric, "dataset" if over_models else "model", group)
    noun, per = ("models", "task") if over_models else ("tasks", "model")
    names = [run.short_name(name) for name in averaged] if over_models else averaged
    return Table(
        id=f"by_{per}_{family.id}",
        title=f"Averages over {noun}: {family.title.lower()}",
        caption=f"Log ratio to random for each {per}, mean over {_enumerate(names, noun)}. The best of a column is "
        "bold.",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(records),
        notes=_notes(metrics, columns),
    )


def _average_column(members: Sequence[Sequence[EntryResult | None]], higher: bool) -> list[TableCell]:
    means = [_mean([None if r is None else r.log_ratio for r in row]) for row in members]
    marks = ["†" if any(r is None or r.log_ratio is None or r.is_partial for r in row) else "" for row in members]
    complete = [None if mark else value for value, mark in zip(means, marks, strict=True)]
    cells = [TableCell(format_number(value, mark=mark)) for value, mark in zip(means, marks, strict=True)]
    return embolden(cells, find_best(complete, higher))


def _average_records(
    labels: Sequence[str], ratios: Sequence[Sequence[float | None]], metric: str, per: str, group: str
) -> Iterator[dict[str, Any]]:
    for label, row in zip(labels, ratios, strict=True):
        available = len([value for value in row if value is not None])
        yield {
            "label": label,
            per: group,
            "metric": metric,
            "log_ratio": _mean(row),
            "averaged": available,
            "missing": len(row) - available,
        }


def lds_table(run: Run, results: Sequence[EntryResult]) -> Table | Missing:
    """Mean LDS: a correlation may be negative, so it has no log ratio."""
    title = "How well effects predict replacements"
    if "lds" not in preferred_measures(results):
        return Missing(title, "no cell has LDS")
    index, entries = index_results(results), _entries(run, results)
    of_lds = [r for r in results if r.comparison.metric == "lds"]
    columns, heads = _entry_columns(run, entries)
    for dataset in run.datasets:
        column = [index.get((model, dataset, label, "lds")) for model, label in entries]
        means = [Estimate(None, None, None) if r is None else r.comparison.mean for r in column]
        marks = ["" if r is None else _mark(r) for r in column]
        columns.append([TableCell(format_number(e.value, mark=mark)) for e, mark in zip(means, marks, strict=True)])
        columns.append([_interval(e) for e in means])
        heads += [Column("LDS ↑", dataset), Column("95 %", dataset)]
    return Table(
        id="lds",
        title=title,
        caption="Rank correlation between the predicted and the measured effect of random replacements; mean over "
        f"examples, with its interval. {_example_range(of_lds)}",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(r.to_record() for r in of_lds),
        notes=_notes([], columns),
    )


def paper_table(run: Run, results: Sequence[EntryResult]) -> Table | Missing:
    """Log ratios of this run next to those of the paper, for the models and methods of the paper."""
    title = "Comparison with the paper"
    index = {key: result for key, result in index_results(results).items() if result.paper_log_ratio}
    if not index:
        has_model = any(paper_model(model) for model in run.models)
        reason = (
            "no entry is a method of the paper, as published" if has_model else "no model is one of the paper’s six"
        )
        return Missing(title, reason)
    entries = [e for e in _entries(run, results) if any(key[0] == e[0] and key[2] == e[1] for key in index)]
    columns = [
        [TableCell(f"{run.short_name(model)} ({paper_model(model)})") for model, _ in entries],
        [TableCell(label) for _, label in entries],
    ]
    heads = [Column("model", is_number=False), Column("method", is_number=False)]
    for dataset in run.datasets:
        for metric in SOFT.metrics:
            column = [index.get((model, dataset, label, metric)) for model, label in entries]
            if any(column):
                columns.append([TableCell(_log_ratio(result)) for result in column])
                columns.append([TableCell(_paper_log_ratio(result), muted=True) for result in column])
                group = f"{dataset} {METRIC_NAMES[metric]}"
                heads += [Column("ours", group), Column("paper", group)]
    return Table(
        id="paper_comparison",
        title=title,
        caption=f"Log ratios to random, ours and those of the paper. {CAUTION}",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(result.to_record() for result in index.values()),
        notes=_notes([], columns),
    )


# --- shared by these tables ---


def _measured(results: Sequence[EntryResult], family: MetricFamily) -> list[str]:
    measures = preferred_measures(results)
    return [name for name in family.metrics if name in measures]


def _entries(run: Run, results: Sequence[EntryResult]) -> list[tuple[str, str]]:
    """Pairs of model and label."""
    available = {(result.model, result.label) for result in results}
    return [(model, label) for model in run.models for label in run.labels if (model, label) in available]


def _entry_columns(run: Run, entries: Sequence[tuple[str, str]]) -> tuple[list[list[TableCell]], list[Column]]:
    columns = [
        [TableCell(run.short_name(model)) for model, _ in entries],
        [TableCell(label) for _, label in entries],
    ]
    return columns, [Column("model", is_number=False), Column("method", is_number=False)]


def _mean(values: Sequence[float | None]) -> float | None:
    available = [value for value in values if value is not None]
    return mean(available) if available else None


def _mark(result: EntryResult) -> str:
    significance = "*" if not result.significant else "°" if (result.comparison.adjusted_p or 0) > ALPHA else ""
    return significance + ("†" if result.is_partial else "")


def _log_ratio(result: EntryResult | None) -> str:
    return NOT_AVAILABLE if result is None else format_number(result.log_ratio, mark=_mark(result))


def _paper_log_ratio(result: EntryResult | None) -> str:
    paper = None if result is None else result.paper_log_ratio
    return "" if paper is None else format_number(paper.value, mark="" if paper.significant else "*")


def _interval(estimate: Estimate | None) -> TableCell:
    if estimate is None or estimate.value is None:
        return TableCell("", muted=True)
    return TableCell(format_interval(estimate.low, estimate.high), muted=True)


def _example_range(results: Sequence[EntryResult]) -> str:
    """How many examples the numbers are based on."""
    counts = sorted({result.comparison.cases for result in results})
    return f"Examples: {counts[0]}." if len(counts) == 1 else f"Examples: {counts[0]} to {counts[-1]}."


def _notes(metrics: Sequence[str], columns: Sequence[Sequence[TableCell]]) -> tuple[str, ...]:
    """Explanations of the marks that occur in these columns."""
    any_lower = not all(METRICS[metric].higher_is_better for metric in metrics)
    marks = {"*": _NOT_SIGNIFICANT, "°": _NOT_AFTER_CORRECTION, "†": _PARTIAL, NOT_AVAILABLE: _UNDEFINED}
    notes = (note for mark, note in marks.items() if _has_mark(columns, mark))
    return (*notes, *([_LOWER_IS_BETTER] if any_lower else []))


def _has_mark(columns: Sequence[Sequence[TableCell]], mark: str) -> bool:
    return any(cell.text.endswith(mark) or f"{mark}†" in cell.text for column in columns for cell in column)


def _enumerate(names: Sequence[str], noun: str) -> str:
    return f"{len(names)} {noun}: {', '.join(names)}" if len(names) > 1 else f"one {noun.removesuffix('s')}: {names[0]}"
