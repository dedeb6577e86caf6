"""The table of costs: forward passes and seconds for one example, and the precision that they give."""

from collections import Counter
from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from reagent.report.contents import Column, Table, TableCell
from reagent.report.load import CellSummary, Run
from reagent.report.tables.base import NOT_AVAILABLE, format_count, format_number


def cost_table(run: Run) -> Table:
    """One row for each dataset and entry."""
    records = [
        _record(dataset, label, cells)
        for dataset in run.datasets
        for label in run.labels
        if (cells := [cell for cell in run.cells if (cell.dataset, cell.label) == (dataset, label)])
    ]
    numbers = ("cells", "forward passes", "from", "to", "seconds", "error of the largest effect")
    return Table(
        id="cost",
        title="Cost",
        caption="Forward passes of the explained model and seconds for one example, mean over all cells; loading, "
        "generation and evaluation are not included. Backward passes of gradient methods are not counted. Error: the "
        "standard error of the largest effect relative to that effect, median over cells. Ended: the number of output "
        "tokens by the reason why the search ended.",
        columns=(
            *(Column(name, is_number=False) for name in ("dataset", "method")),
            *map(Column, numbers),
            Column("ended", is_number=False),
        ),
        rows=tuple(map(_row, records)),
        records=tuple(records),
    )


def _record(dataset: str, label: str, cells: Sequence[CellSummary]) -> dict[str, Any]:
    errors = [cell.error for cell in cells if cell.error is not None]
    return {
        "dataset": dataset,
        "label": label,
        "method": cells[0].method,
        "cells": len(cells),
        "forward_passes": mean(cell.passes for cell in cells),
        "fewest_passes": min(cell.passes for cell in cells),
        "most_passes": max(cell.passes for cell in cells),
        "seconds": mean(cell.seconds for cell in cells),
        "error": median(errors) if errors else None,
        "ended": _stop_reasons(cells),
    }


def _row(record: dict[str, Any]) -> tuple[TableCell, ...]:
    return (
        *(TableCell(record[name]) for name in ("dataset", "label")),
        TableCell(f"{record['cells']:,}"),
        *(TableCell(format_count(record[name])) for name in ("forward_passes", "fewest_passes", "most_passes")),
        TableCell(format_number(record["seconds"], 2)),
        TableCell(NOT_AVAILABLE if record["error"] is None else f"{record['error']:.0%}"),
        TableCell(record["ended"]),
    )


def _stop_reasons(cells: Sequence[CellSummary]) -> str:
    """Counts of output tokens by stop reason, the most frequent first; empty for a fixed number of passes."""
    reasons = Counter(reason for cell in cells for reason in cell.stopped if reason != "fixed")
    return ", ".join(f"{times:,} {reason}" for reason, times in reasons.most_common())
