"""The report as one HTML page. It contains its figures and styles and loads nothing.

The template is assets/page.html. It escapes all text automatically.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reagent.report.contents import Column, Figure, Report, Table, TableCell
from reagent.report.formats.inline_svg import inline_svg, svg_width
from reagent.views.text import sanitize

LONG = 48  # characters; longer cells may break into several lines
MIN_WIDTH = 38  # rem of a figure on a phone, where it scrolls


def render_page(report: Report) -> str:
    """A whole document that works without a network."""
    return _environment().get_template("page.html").render(report=report)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("reagent.report", "assets"),
        autoescape=True,
        finalize=_sanitize,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.tests |= {
        "table": lambda part: isinstance(part, Table),
        "figure": lambda part: isinstance(part, Figure),
    }
    environment.filters |= {
        "as_number": _as_number,
        "cell_class": _cell_class,
        "column_groups": _column_groups,
        "grouped_rows": _grouped_rows,
        "inline_svg": inline_svg,
        "size_limits": _size_limits,
    }
    return environment


def _sanitize(value: Any) -> Any:
    """Replace characters that could hide text or change its direction."""
    return sanitize(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _as_number(text: str) -> Markup:
    """A number with a true minus sign. Its marks hang out of the column, so that digits are aligned."""
    text = sanitize(text)
    text = text.replace("-", "−") if text.startswith(("-", "[")) else text
    digits = text.rstrip("*°†")
    marks = text[len(digits) :]
    if not digits or not marks:
        return Markup.escape(text)
    return Markup('{}<span class="hang">{}</span>').format(digits, marks)


def _cell_class(cell: TableCell, column: Column) -> str:
    kinds = ["number" if column.is_number else "text"]
    kinds += ["quiet"] if cell.muted else []
    kinds += ["long"] if len(cell.text) > LONG else []
    return " ".join(kinds)


def _column_groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """The names of the groups with their numbers of columns; empty if no column belongs to a group."""
    groups = [(name, len(list(members))) for name, members in groupby(columns, key=lambda column: column.group)]
    return groups if any(name for name, _ in groups) else []


def _grouped_rows(table: Table) -> Iterator[tuple[bool, list[tuple[TableCell, Column]]]]:
    """Rows, and whether a row starts a new group: rows with equal first cells are a group. Repeats are muted."""
    names = [row[0].text for row in table.rows]
    has_groups = len(set(names)) < len(names)
    for i, row in enumerate(table.rows):
        repeats = has_groups and i > 0 and names[i] == names[i - 1]
        first = replace(row[0], muted=row[0].muted or repeats)
        yield has_groups and i > 0 and not repeats, list(zip((first, *row[1:]), table.columns, strict=True))


def _size_limits(figure: Figure) -> str:
    """The smallest and the largest width of a figure on the page, as CSS variables."""
    width = svg_width(figure)
    return f"--least: {min(MIN_WIDTH, width * 5):.0f}rem; --most: {width * 6.5:.0f}rem"
