"""What a report consists of, before it is a page or a document."""

from dataclasses import dataclass
from zlib import crc32

from reagent.report.tables.base import Missing, Table


@dataclass(frozen=True)
class Drawing:
    """A finished figure."""

    id: str
    title: str
    caption: str
    png: bytes
    svg: str


@dataclass(frozen=True)
class Shaded:
    """One example as running text, once for each method: each piece with its share of the largest score."""

    id: str
    title: str
    said: str  # what the texts led to
    texts: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]  # a method's name and its pieces


@dataclass(frozen=True)
class Section:
    """What belongs together on the page."""

    id: str
    title: str
    words: str
    parts: tuple[Table | Drawing | Shaded, ...]  # in the order in which they are read


@dataclass(frozen=True)
class Contents:
    """A whole report."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    missing: tuple[Missing, ...]

    @property
    def tables(self) -> list[Table]:
        return [part for section in self.sections for part in section.parts if isinstance(part, Table)]

    @property
    def figures(self) -> list[Drawing]:
        return [part for section in self.sections for part in section.parts if isinstance(part, Drawing)]

    @property
    def examples(self) -> list[Shaded]:
        return [part for section in self.sections for part in section.parts if isinstance(part, Shaded)]


def safe(name: str) -> str:
    """A part of a file name, also where a dataset or an example is named by a path; two names stay two.

    >>> safe("longra"), safe("my data.jsonl")
    ('longra', 'my_data_jsonl_8444c259')
    """
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)[:40]
    return plain if plain == name else f"{plain}_{crc32(name.encode('utf-8', 'replace')):08x}"
