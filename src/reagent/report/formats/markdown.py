"""Tables as Markdown, one by one and all in one document."""

import re
from collections.abc import Sequence

from reagent.report.contents import Contents, Drawing
from reagent.report.tables.base import Column, Table, TableCell
from reagent.views.text import sanitize

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&])")


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is, in one line.

    >>> escaped("a|b_c\nd*")
    'a\\|b\\_c d\\*'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(sanitize(text).split()))


def table(table: Table) -> str:
    """The table with its caption and notes; what stands over several columns is said in each of them."""
    lines = [
        f"**{escaped(table.title)}.** {escaped(table.caption)}",
        "",
        _line([_heading(column) for column in table.columns]),
        _line(["---:" if column.is_number else "---" for column in table.columns]),
        *(_line([_entry(entry) for entry in row]) for row in table.rows),
    ]
    for note in table.notes:
        lines += ["", escaped(note)]
    return "\n".join(lines) + "\n"


def document(contents: Contents) -> str:
    """Everything, with the figures as pictures."""
    parts = [
        f"# {escaped(contents.title)}\n",
        *(f"- {escaped(name)}: {escaped(value)}" for name, value in contents.facts),
    ]
    for section in contents.sections:
        parts.append(f"\n## {escaped(section.title)}\n")
        for part in section.parts:
            if isinstance(part, Table):
                parts.append(table(part))
            elif isinstance(part, Drawing):
                parts.append(f"![{escaped(part.title)}](figures/{part.id}.png)\n\n{escaped(part.caption)}\n")
    if contents.missing:
        parts.append("\n## Left out\n")
        parts += [f"- {escaped(one.title)}: {escaped(one.reason)}" for one in contents.missing]
    return "\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _heading(column: Column) -> str:
    return escaped(f"{column.over} {column.name}".strip())


def _entry(entry: TableCell) -> str:
    text = escaped(entry.text)
    return f"**{text}**" if entry.bold and text else text
