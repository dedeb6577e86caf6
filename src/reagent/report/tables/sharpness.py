"""Ranking or sharpness: the spread of each method's scores next to the values of the metrics.

Soft perturbation rewards peaked scores whatever their order. If a metric sorts the methods by sharpness, it may not
measure the quality of their rankings.
"""

from collections.abc import Sequence
from statistics import mean

import numpy as np

from reagent.metrics import METRICS
from reagent.report.analysis import (
    RATIO_FAMILIES,
    EntryResult,
    MeanLogRatio,
    mean_log_ratios,
    metric_heading,
    preferred_measures,
)
from reagent.report.contents import Column, Missing, Table, TableCell
from reagent.report.load import Run
from reagent.report.tables.base import NOT_AVAILABLE, columns_to_rows, format_number

MIN_METHODS = 4  # for a correlation
_TITLE = "Ranking or sharpness"
_CORRELATION = "correlation with sharpness"
_PARTIAL = "† on fewer examples than the others."


def sharpness_table(run: Run, results: Sequence[EntryResult]) -> Table | Missing:
    """Methods from the sharpest to the flattest; last row: the correlation of each metric with sharpness."""
    measured = preferred_measures(results)
    metrics = [name for family in RATIO_FAMILIES for name in family.metrics if name in measured]
    spread = {label: mean(cell.spread for cell in run.cells if cell.label == label) for label in run.labels}
    ratios = {metric: mean_log_ratios(run, results, metric) for metric in metrics}
    labels = sorted((label for label in run.labels if any(label in ratios[m] for m in metrics)), key=spread.__getitem__)
    if len(labels) < MIN_METHODS:
        return Missing(_TITLE, f"fewer than {MIN_METHODS} entries have log ratios to random on the same examples")
    random = {cell.label for cell in run.cells if cell.method == "random"}  # flat and last by construction
    columns = [
        [*(TableCell(label) for label in labels), TableCell(_CORRELATION)],
        [*(TableCell(f"{spread[label]:.0%}") for label in labels), TableCell("")],
    ]
    heads, records = [Column("method", is_number=False), Column("spread")], []
    for metric in metrics:
        by_label = {label: ratios[metric].get(label) for label in labels}
        complete = {label: r.value for label, r in by_label.items() if r and not r.is_partial and label not in random}
        correlation = _correlation_with_sharpness(spread, complete, METRICS[metric].higher_is_better)
        columns.append([*map(_cell, by_label.values()), TableCell(format_number(correlation, 2), bold=True)])
        heads.append(Column(metric_heading(metric)))
        for label, ratio in by_label.items():
            value = ratio and ratio.value
            records.append({"label": label, "spread": spread[label], "metric": metric, "log_ratio": value})
        records.append({"label": _CORRELATION, "spread": None, "metric": metric, "log_ratio": correlation})
    return Table(
        id="sharpness",
        title=_TITLE,
        caption="Spread: the effective share of tokens that carry the scores (the exponential of their entropy, "
        "divided by the number of tokens), mean over cells. Log ratios to random are means over models and datasets. "
        "Last row: Spearman correlation over methods between sharpness and the metric, without random and without "
        "methods with a †; 1 means that the metric sorts the methods from sharp to flat.",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(records),
        notes=(_PARTIAL,) if any(cell.text.endswith("†") for column in columns for cell in column) else (),
    )


def _cell(ratio: MeanLogRatio | None) -> TableCell:
    return TableCell(
        NOT_AVAILABLE if ratio is None else format_number(ratio.value, mark="†" if ratio.is_partial else "")
    )


def _correlation_with_sharpness(spread: dict[str, float], ratios: dict[str, float], higher: bool) -> float | None:
    from scipy.stats import spearmanr

    sharpness = [-spread[label] for label in ratios]
    quality = [value if higher else -value for value in ratios.values()]
    if len(ratios) < MIN_METHODS or np.ptp(sharpness) == 0 or np.ptp(quality) == 0:
        return None
    return float(spearmanr(sharpness, quality).statistic)
