"""Helpers that all tables share: formatting of numbers, bold for the best of a column."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from math import isfinite

from reagent.report.contents import TableCell

NOT_AVAILABLE = "–"


def format_number(value: float | None, digits: int = 3, mark: str = "") -> str:
    """
    >>> format_number(1.23456), format_number(-0.0001), format_number(None), format_number(0.5, 2, "*")
    ('1.235', '0.000', '–', '0.50*')
    """
    if value is None or not isfinite(value):
        return NOT_AVAILABLE
    return f"{round(value, digits) + 0.0:.{digits}f}{mark}"


def format_count(value: float) -> str:
    """
    >>> format_count(1234.4), format_count(2.5)
    ('1,234', '2.5')
    """
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


def format_interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """
    >>> format_interval(0.1, None)
    '[0.100, –]'
    """
    return f"[{format_number(low, digits)}, {format_number(high, digits)}]"


def find_best(values: Sequence[float | None], higher: bool = True, digits: int = 3) -> list[bool]:
    """Which values are the best after rounding to `digits`. With fewer than two values, none is.

    >>> find_best([1.0, 2.0, None, 2.0001]), find_best([1.0, None])
    ([False, True, False, True], [False, False])
    """
    rounded = [None if value is None else round(value, digits) for value in values]
    available = [value for value in rounded if value is not None]
    if len(available) < 2:
        return [False] * len(rounded)
    top = max(available) if higher else min(available)
    return [value == top for value in rounded]


def find_best_by_group(
    groups: Sequence[Hashable], values: Sequence[float | None], higher: bool = True, digits: int = 3
) -> list[bool]:
    """Which values are the best of their group.

    >>> find_best_by_group(["a", "a", "b", "b"], [1.0, 2.0, 4.0, 3.0])
    [False, True, True, False]
    """
    flags = [False] * len(values)
    for group in dict.fromkeys(groups):
        members = [i for i, other in enumerate(groups) if other == group]
        for i, is_best in zip(members, find_best([values[i] for i in members], higher, digits), strict=True):
            flags[i] = is_best
    return flags


def embolden(cells: Iterable[TableCell], bold: Iterable[bool]) -> list[TableCell]:
    return [replace(cell, bold=is_bold) for cell, is_bold in zip(cells, bold, strict=True)]


def columns_to_rows(columns: Sequence[Sequence[TableCell]]) -> tuple[tuple[TableCell, ...], ...]:
    """Tables are built column by column, because the best value of a column is bold."""
    return tuple(zip(*columns, strict=True))
