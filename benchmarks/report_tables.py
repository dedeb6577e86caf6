"""Pieces of Markdown that the sections of docs/benchmarks.md share."""

from collections.abc import Iterable
from typing import Any


def table(corner: str, columns: Iterable[str], rows: dict[str, list[str]]) -> list[str]:
    """The lines of a Markdown table."""
    names = [corner, *columns]
    body = ([name, *cells] for name, cells in rows.items())
    return [f"| {' | '.join(cells)} |" for cells in (names, ["---"] * len(names), *body)]


def mean(cell: dict[str, Any] | None, digits: int) -> str:
    return "–" if not cell or "mean" not in cell else f"{cell['mean']:.{digits}f}"


def interval(cell: dict[str, Any] | None, digits: int) -> str:
    """A mean with its bootstrap interval, which is left out for numbers without digits."""
    middle = mean(cell, digits)
    return (
        middle if middle == "–" or not digits else f"{middle} ({cell['low']:.{digits}f} to {cell['high']:.{digits}f})"
    )


def failures(results: dict[str, Any]) -> list[str]:
    """The different errors, and how many records have each."""
    counts: dict[str, int] = {}
    for failure in results.get("errors", ()):
        text = f"{failure['method']}: `{failure['error']}`"
        counts[text] = counts.get(text, 0) + failure["count"]
    lines = [f"- {text} ({count} records)" for text, count in counts.items()]
    return ["", "Failed:", "", *lines] if lines else []
