"""The data model of a report: tables, figures, shaded examples, and the sections that hold them.

Tables and figures are built into these classes; the formats render them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32


@dataclass(frozen=True)
class TableCell:
    """One cell of a table."""

    text: str
    bold: bool = False
    muted: bool = False  # secondary information: an interval, or a number of the paper


@dataclass(frozen=True)
class Column:
    """The heading of a column, and of the group of columns that it belongs to."""

    name: str
    group: str = ""
    is_number: bool = True


@dataclass(frozen=True)
class Table:
    """A table as it is shown, and the records of its data file."""

    id: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    records: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A rendered figure."""

    id: str
    title: str
    caption: str
    png: bytes
    svg: str


@dataclass(frozen=True)
class ShadedText:
    """A prompt as one method explains it: pieces of text with their share of the largest score."""

    label: str
    pieces: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ShadedExample:
    """One example, shaded once for each method."""

    id: str
    title: str
    output: str  # the explained output
    texts: tuple[ShadedText, ...]


@dataclass(frozen=True)
class Missing:
    """A table or a figure that this run has no data for, and the reason."""

    title: str
    reason: str


@dataclass(frozen=True)
class Section:
    """A section of the report; its parts are in reading order."""

    id: str
    title: str
    introduction: str
    parts: tuple[Table | Figure | ShadedExample, ...]


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    summary: str  # the size of the run, and whether it is finished
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    missing: tuple[Missing, ...]

    @property
    def tables(self) -> list[Table]:
        return [part for section in self.sections for part in section.parts if isinstance(part, Table)]

    @property
    def figures(self) -> list[Figure]:
        return [part for section in self.sections for part in section.parts if isinstance(part, Figure)]

    @property
    def examples(self) -> list[ShadedExample]:
        return [part for section in self.sections for part in section.parts if isinstance(part, ShadedExample)]


def file_stem(name: str) -> str:
    """Turn a name into a part of a file name. Different names give different results.

    Datasets and examples may be named by a path, so the name can hold any character.

    >>> file_stem("longra"), file_stem("my data.jsonl")
    ('longra', 'my_data_jsonl_8444c259')
    """
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)[:40]
    return plain if plain == name else f"{plain}_{crc32(name.encode('utf-8', 'replace')):08x}"
