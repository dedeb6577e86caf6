"""What a table is, before it becomes Markdown, LaTeX or HTML."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

NOTHING = "–"


@dataclass(frozen=True)
class TableCell:
    """What stands in one place of a table."""

    text: str
    bold: bool = False
    quiet: bool = False  # an interval, another's number: set apart from what the table is about


@dataclass(frozen=True)
class Column:
    """A heading, and what it shares with its neighbours."""

    name: str
    over: str = ""
    is_number: bool = True


@dataclass(frozen=True)
class Table:
    """One table and the lines of the file that belongs to it."""

    id: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    records: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Missing:
    """A table or a figure that this run does not allow, and why."""

    title: str
    reason: str


def number(value: float | None, digits: int = 3, mark: str = "") -> str:
    """A number as a table shows it.

    >>> number(1.23456), number(-0.0001), number(None), number(0.5, 2, "*")
    ('1.235', '0.000', '–', '0.50*')
    """
    if value is None or not isfinite(value):
        return NOTHING
    return f"{round(value, digits) + 0.0:.{digits}f}{mark}"


def count(value: float) -> str:
    """
    >>> count(1234.4), count(2.5)
    ('1,234', '2.5')
    """
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """
    >>> interval(0.1, None)
    '[0.100, –]'
    """
    return f"[{number(low, digits)}, {number(high, digits)}]"


def best(values: Sequence[float | None], higher: bool = True, digits: int = 3) -> list[bool]:
    """Which are the best as they are printed; none where there is nothing to be better than.

    >>> best([1.0, 2.0, None, 2.0001]), best([1.0, None])
    ([False, True, False, True], [False, False])
    """
    printed = [None if value is None else round(value, digits) for value in values]
    have = [value for value in printed if value is not None]
    if len(have) < 2:
        return [False] * len(printed)
    top = max(have) if higher else min(have)
    return [value == top for value in printed]


def best_within(
    groups: Sequence[Hashable], values: Sequence[float | None], higher: bool = True, digits: int = 3
) -> list[bool]:
    """The same among those that share a group.

    >>> best_within(["a", "a", "b", "b"], [1.0, 2.0, 4.0, 3.0])
    [False, True, True, False]
    """
    found = [False] * len(values)
    for group in dict.fromkeys(groups):
        members = [i for i, other in enumerate(groups) if other == group]
        for i, is_best in zip(members, best([values[i] for i in members], higher, digits), strict=True):
            found[i] = is_best
    return found


def emphasised(entries: Iterable[TableCell], bold: Iterable[bool]) -> list[TableCell]:
    return [replace(entry, bold=is_bold) for entry, is_bold in zip(entries, bold, strict=True)]


def transposed(columns: Sequence[Sequence[TableCell]]) -> tuple[tuple[TableCell, ...], ...]:
    """Tables are made column by column, since the best of a column is bold."""
    return tuple(zip(*columns, strict=True))
