"""Ranking or sharpness? How far each method spreads its scores, beside what each metric gives it.

Soft perturbation rewards peaked scores whatever their order. Where a metric sorts methods as their sharpness does, it
may say little about what they found.
"""

from collections.abc import Sequence
from statistics import mean

import numpy as np

from reagent.metrics import METRICS
from reagent.report.analysis import FAMILIES, NAMES, Finding, MeanRatio, mean_log_ratios, measures
from reagent.report.load import Run
from reagent.report.tables.base import Column, Missing, Table, TableCell, number, transposed

FEWEST = 4  # methods that a correlation needs
_TITLE = "Ranking or sharpness"
_PART = "† on fewer examples than the others."


def sharpness_table(run: Run, found: Sequence[Finding]) -> Table | Missing:
    """Methods from the sharpest to the flattest; below, how far each metric follows that order."""
    measured = measures(found)
    metrics = [name for family in FAMILIES for name in family.metrics if name in measured]
    spread = {label: mean(row.spread for row in run.rows if row.label == label) for label in run.labels}
    ratios = {metric: mean_log_ratios(run, found, metric) for metric in metrics}
    labels = sorted((label for label in run.labels if any(label in ratios[m] for m in metrics)), key=spread.__getitem__)
    if len(labels) < FEWEST:
        return Missing(_TITLE, f"fewer than {FEWEST} entries have log ratios to random on the same examples")
    blind = {row.label for row in run.rows if row.method == "random"}  # flat and last by design
    last = "order like sharpness"
    columns = [
        [*(TableCell(label) for label in labels), TableCell(last)],
        [*(TableCell(f"{spread[label]:.0%}") for label in labels), TableCell("")],
    ]
    heads, records = [Column("method", is_number=False), Column("spread")], []
    for metric in metrics:
        have = {label: ratios[metric].get(label) for label in labels}
        whole = {label: m.value for label, m in have.items() if m and not m.is_partial and label not in blind}
        agreed = _agreement(spread, whole, METRICS[metric].higher_is_better)
        columns.append([*map(_entry, have.values()), TableCell(number(agreed, 2), bold=True)])
        heads.append(Column(NAMES[metric] if METRICS[metric].higher_is_better else f"{NAMES[metric]} ↓"))
        for label, m in have.items():
            records.append({"label": label, "spread": spread[label], "metric": metric, "log_ratio": m and m.value})
        records.append({"label": last, "spread": None, "metric": metric, "log_ratio": agreed})
    return Table(
        id="sharpness",
        title=_TITLE,
        caption="Spread: over which share of the tokens the scores are spread (the exponential of their entropy, by "
        "the number of tokens), mean over cells; and log ratios to random, mean over models and datasets. Last line: "
        "rank correlation over methods, random and those with a † apart, of sharpness and what the metric says: 1 "
        "where it sorts them from sharp to flat.",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(records),
        notes=(_PART,) if any(entry.text.endswith("†") for column in columns for entry in column) else (),
    )


def _entry(m: MeanRatio | None) -> TableCell:
    return TableCell(number(None) if m is None else number(m.value, mark="†" if m.is_partial else ""))


def _agreement(spread: dict[str, float], ratios: dict[str, float], higher: bool) -> float | None:
    from scipy.stats import spearmanr

    sharp = [-spread[label] for label in ratios]
    good = [value if higher else -value for value in ratios.values()]
    if len(ratios) < FEWEST or np.ptp(sharp) == 0 or np.ptp(good) == 0:
        return None
    return float(spearmanr(sharp, good).statistic)
