"""The report as Markdown: single tables, and the whole report."""

import re
from collections.abc import Sequence

from reagent.report.contents import Column, Figure, Report, Table, TableCell
from reagent.views.text import sanitize

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&])")


def escape(text: str) -> str:
    r"""Escape text so that Markdown shows it literally, in one line.

    >>> escape("a|b_c\nd*")
    'a\\|b\\_c d\\*'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(sanitize(text).split()))


def render_table(table: Table) -> str:
    """The table with its caption and notes. The name of a group of columns is repeated in each heading."""
    lines = [
        f"**{escape(table.title)}.** {escape(table.caption)}",
        "",
        _row([_heading(column) for column in table.columns]),
        _row(["---:" if column.is_number else "---" for column in table.columns]),
        *(_row([_cell(cell) for cell in row]) for row in table.rows),
    ]
    for note in table.notes:
        lines += ["", escape(note)]
    return "\n".join(lines) + "\n"


def render_report(report: Report) -> str:
    """The whole report; figures are linked as PNG."""
    parts = [
        f"# {escape(report.title)}\n",
        *(f"- {escape(name)}: {escape(value)}" for name, value in report.facts),
    ]
    for section in report.sections:
        parts.append(f"\n## {escape(section.title)}\n")
        for part in section.parts:
            if isinstance(part, Table):
                parts.append(render_table(part))
            elif isinstance(part, Figure):
                parts.append(f"![{escape(part.title)}](figures/{part.id}.png)\n\n{escape(part.caption)}\n")
    if report.missing:
        parts.append("\n## Left out\n")
        parts += [f"- {escape(part.title)}: {escape(part.reason)}" for part in report.missing]
    return "\n".join(parts) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _heading(column: Column) -> str:
    return escape(f"{column.group} {column.name}".strip())


def _cell(cell: TableCell) -> str:
    text = escape(cell.text)
    return f"**{text}**" if cell.bold and text else text
