"""Ranking or sharpness? How far each method spreads its scores, beside what each metric gives it.

Soft perturbation rewards peaked scores whatever their order. Where a metric sorts methods as their sharpness does, it
may say little about what they found.
"""

from collections.abc import Sequence
from statistics import mean

import numpy as np

from reagent.bench.report.reading import Run
from reagent.bench.report.results import FAMILIES, NAMES, Finding, mean_log_ratios, measures
from reagent.bench.report.tables import Column, Entry, Missing, Table, number, transposed
from reagent.metrics import METRICS

FEWEST = 4  # methods that a correlation needs
_TITLE = "Ranking or sharpness"


def sharpness_table(run: Run, found: Sequence[Finding]) -> Table | Missing:
    """Methods from the sharpest to the flattest; below, how far each metric follows that order."""
    have = measures(found)
    metrics = [name for family in FAMILIES for name in family.metrics if name in have]
    spread = {label: mean(row.spread for row in run.rows if row.label == label) for label in run.labels}
    ratios = {
        metric: {label: m.value for label, m in mean_log_ratios(run, found, metric).items() if not m.is_partial}
        for metric in metrics
    }
    labels = sorted((label for label in run.labels if any(label in ratios[m] for m in metrics)), key=spread.__getitem__)
    if len(labels) < FEWEST:
        return Missing(_TITLE, f"fewer than {FEWEST} entries have log ratios to random on the same examples")
    blind = {row.label for row in run.rows if row.method == "random"}  # flat and last by design
    last = "order like sharpness"
    columns = [
        [*(Entry(label) for label in labels), Entry(last)],
        [*(Entry(f"{spread[label]:.0%}") for label in labels), Entry("")],
    ]
    heads, records = [Column("method", is_number=False), Column("spread")], []
    for metric in metrics:
        values = [ratios[metric].get(label) for label in labels]
        agreed = _agreement(
            [label for label in labels if label not in blind], spread, ratios[metric], METRICS[metric].higher_is_better
        )
        columns.append([*(Entry(number(value)) for value in values), Entry(number(agreed, 2), bold=True)])
        heads.append(Column(NAMES[metric] if METRICS[metric].higher_is_better else f"{NAMES[metric]} ↓"))
        for label, value in zip(labels, values, strict=True):
            records.append({"label": label, "spread": spread[label], "metric": metric, "log_ratio": value})
        records.append({"label": last, "spread": None, "metric": metric, "log_ratio": agreed})
    return Table(
        id="sharpness",
        title=_TITLE,
        caption="Spread: over which share of the tokens the scores are spread (the exponential of their entropy, by "
        "the number of tokens), mean over cells; and log ratios to random, mean over models and datasets. Last line: "
        "rank correlation over methods, random apart, of sharpness and what the metric says: 1 where it sorts them "
        "from sharp to flat.",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(records),
    )


def _agreement(labels: Sequence[str], spread: dict[str, float], ratios: dict[str, float], higher: bool) -> float | None:
    from scipy.stats import spearmanr

    both = [label for label in labels if label in ratios]
    sharp, good = [-spread[label] for label in both], [ratios[label] if higher else -ratios[label] for label in both]
    if len(both) < FEWEST or np.ptp(sharp) == 0 or np.ptp(good) == 0:
        return None
    return float(spearmanr(sharp, good).statistic)
