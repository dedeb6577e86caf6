"""The report as one HTML page: figures and styles are inside it, and nothing is fetched from anywhere."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Template

from reagent.report.contents import Contents, Drawing, Section, Shaded
from reagent.report.figures.base import inline
from reagent.report.tables.base import Column, Missing, Table, TableCell
from reagent.views.text import sanitize

LONG = 48  # characters, from which on an entry may take several lines
LEAST_WIDTH = 38  # rem that a figure keeps on a phone, where it then scrolls


def page(contents: Contents, lead: str) -> str:
    """A whole document that works without a network."""
    sections = [*map(_section, contents.sections), _left_out(contents.missing)]
    links = [(section.id, section.title) for section in contents.sections]
    links += [("left-out", "Left out")] if contents.missing else []
    return Template(_asset("page.html")).substitute(
        title=text(contents.title),
        style=_asset("page.css"),
        lead=text(lead),
        facts=_facts(contents.facts),
        links="\n".join(f'<li><a href="#{text(id)}">{text(title)}</a></li>' for id, title in links),
        sections="\n".join(sections),
    )


def text(words: str) -> str:
    """Words as HTML shows them, with everything visible that could hide."""
    return escape(sanitize(words))


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    rows = "\n".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in facts)
    return f'<dl class="facts">\n{rows}\n</dl>'


def _section(section: Section) -> str:
    parts = [f'<section id="{text(section.id)}">', f"<h2>{text(section.title)}</h2>"]
    parts += [f"<p>{text(section.words)}</p>"] if section.words else []
    parts += map(_part, section.parts)
    return "\n".join([*parts, "</section>"])


def _part(part: Table | Drawing | Shaded) -> str:
    if isinstance(part, Table):
        return _table(part)
    return _figure(part) if isinstance(part, Drawing) else _example(part)


def _left_out(missing: Sequence[Missing]) -> str:
    if not missing:
        return ""
    items = "\n".join(f"<li>{text(one.title)}: {text(one.reason)}</li>" for one in missing)
    return f'<section id="left-out">\n<h2>Left out</h2>\n<ul>\n{items}\n</ul>\n</section>'


def _figure(drawing: Drawing) -> str:
    width = float(drawing.svg.partition('viewBox="0 0 ')[2].split()[0]) / 72  # inches
    bounds = f"--least: {min(LEAST_WIDTH, width * 5):.0f}rem; --most: {width * 6.5:.0f}rem"
    named = inline(drawing).replace('role="img"', f'role="img" aria-label="{text(drawing.title)}"', 1)
    links = ", ".join(f'<a href="figures/{drawing.id}.{kind}">{kind.upper()}</a>' for kind in ("png", "svg"))
    return (
        f'<figure style="{bounds}">\n<h3>{text(drawing.title)}</h3>\n'
        f'<div class="scroll" tabindex="0">{named}</div>\n'
        f'<figcaption class="caption">{text(drawing.caption)} {links}</figcaption>\n</figure>'
    )


def _table(table: Table) -> str:
    kinds = ("csv", "parquet") if table.records else ()
    links = [f'<a href="tables/{table.id}.{kind}">{name}</a>' for kind, name in (("md", "Markdown"), ("tex", "LaTeX"))]
    links += [f'<a href="data/{table.id}.{kind}">{kind.upper() if kind == "csv" else "Parquet"}</a>' for kind in kinds]
    notes = "".join(f"<li>{text(note)}</li>" for note in table.notes)
    return "\n".join(
        [
            f'<h3 id="table-{text(table.id)}">{text(table.title)}</h3>',
            f'<p class="caption">{text(table.caption)}</p>',
            f'<div class="scroll" tabindex="0" role="region" aria-labelledby="table-{text(table.id)}">',
            "<table>",
            f"<thead>\n{_head(table.columns)}\n</thead>",
            f"<tbody>\n{chr(10).join(_body(table))}\n</tbody>",
            "</table>\n</div>",
            f'<ul class="notes">{notes}</ul>' if notes else "",
            f'<p class="files">{", ".join(links)}</p>',
        ]
    )


def _head(columns: Sequence[Column]) -> str:
    names = "".join(f'<th scope="col"{_kind(column)}>{_signs(column.name)}</th>' for column in columns)
    if not any(column.over for column in columns):
        return f"<tr>{names}</tr>"
    groups = ((over, len(list(members))) for over, members in groupby(columns, key=lambda column: column.over))
    over = "".join(f'<th colspan="{width}" scope="colgroup">{_signs(name)}</th>' for name, width in groups)
    return f'<tr class="over">{over}</tr>\n<tr>{names}</tr>'


def _body(table: Table) -> Iterator[str]:
    """A line where the first column begins something new, if it has the same more than once."""
    names = [row[0].text for row in table.rows]
    grouped = len(set(names)) < len(names)
    for i, row in enumerate(table.rows):
        again = grouped and i > 0 and names[i] == names[i - 1]
        begins = ' class="begins"' if grouped and i > 0 and not again else ""
        first = replace(row[0], quiet=row[0].quiet or again)
        yield f"<tr{begins}>{''.join(map(_entry, (first, *row[1:]), table.columns))}</tr>"


def _entry(entry: TableCell, column: Column) -> str:
    words = _signs(entry.text) if column.is_number else text(entry.text)
    kinds = [*(["quiet"] if entry.quiet else []), *(["long"] if len(entry.text) > LONG else [])]
    return f"<td{_kind(column, *kinds)}>{f'<b>{words}</b>' if entry.bold else words}</td>"


def _kind(column: Column, *more: str) -> str:
    return f' class="{" ".join(("number" if column.is_number else "text", *more))}"'


def _signs(words: str) -> str:
    """Numbers with a true minus, their marks outside the column so that digits stand below digits."""
    shown = text(words).replace("-", "−") if words.startswith(("-", "[")) else text(words)
    digits = shown.rstrip("*†")
    marks = shown[len(digits) :]
    return f'{digits}<span class="hang">{marks}</span>' if digits and marks else shown


def _example(example: Shaded) -> str:
    rows = "\n".join(f"<dt>{text(name)}</dt>\n<dd>{_running(pieces)}</dd>" for name, pieces in example.texts)
    return (
        f'<h3 id="example-{text(example.id)}">{text(example.title)}</h3>\n'
        f'<p class="said">{text(example.said)}</p>\n<dl class="example">\n{rows}\n</dl>'
    )


def _running(pieces: Sequence[tuple[str, float]]) -> str:
    return "".join(
        f'<span style="--w: {share:.3g}">{text(words)}</span>' if share >= 0.005 else text(words)
        for words, share in pieces
    )


@cache
def _asset(name: str) -> str:
    return files("reagent.report").joinpath("assets", name).read_text(encoding="utf-8")
