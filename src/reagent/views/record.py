"""A record as one page: Markdown and HTML, from the same sections."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from reagent.statement import Record
from reagent.views.html import read_asset, render_document
from reagent.views.text import sanitize

LONGEST = 2000  # characters of the prompt on the page; the JSON has all of it
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")
_STYLE = """
.record table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1.2rem; }
.record th, .record td { padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid var(--edge); text-align: start;
  vertical-align: top; overflow-wrap: anywhere; white-space: pre-wrap; }
.record th { color: var(--quiet); font-weight: 600; }
.record .pairs th { width: 9rem; }
.record .numbers td:first-child { min-width: 6rem; }
.record .numbers td + td, .record .numbers th + th { text-align: end; white-space: nowrap; padding-left: 0.6rem; }
.record .numbers td:nth-child(3):last-child { font: 0.8em ui-monospace, monospace; }
.record h2 { margin: 1.2rem 0 0.3rem; font-size: 1.1em; }
.record h2:first-of-type { font-size: 1.4em; margin-top: 0; }
.record li { margin: 0.2rem 0; }
.record .scroll { overflow-x: auto; }
@media (max-width: 40rem) { .record .pairs th, .record .pairs td { display: block; width: auto; border: 0; padding: 0; }
  .record .pairs td { padding-bottom: 0.6rem; border-bottom: 1px solid var(--edge); } }
"""


class _Section(NamedTuple):
    """A heading with pairs, a table or a list."""

    heading: str
    pairs: Sequence[tuple[str, str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()


def render_markdown(record: Record) -> str:
    parts = [line for section in _sections(record) for line in _markdown(section)]
    return "\n".join(["# Statement of record", "", *parts]).rstrip() + "\n"


def render_page(record: Record) -> str:
    """Render a whole HTML document that works without a network and without scripts."""
    body = "".join(_html(section) for section in _sections(record))
    style = f"<style>{read_asset('view.css')}{_STYLE}</style>"
    fragment = f'{style}<div class="reagent record"><h2>Statement of record</h2>{body}</div>'
    return render_document("Statement of record", fragment)


def _sections(record: Record) -> Iterator[_Section]:
    contract = record.contract
    yield _Section("Question", [("Prompt", _cut(record.prompt)), ("Output", _cut(record.completion))])
    yield _Section(
        "Claim",
        [
            ("Explained", contract.explained),
            ("Features", contract.features),
            ("Intervention", contract.intervention),
            ("Process", contract.process),
            ("Held fixed", contract.held_fixed),
            ("Score", contract.score),
        ],
    )
    yield _Section(
        "Most important units",
        head=("unit", "at", "score", "effect", "± stderr", "second score"),
        rows=[
            (
                _visible(one.text),
                str(one.start),
                _number(one.score, 3),
                _number(one.effect, 2),
                _number(one.stderr, 2),
                _number(one.second_score, 3),
            )
            for one in record.units
        ],
    )
    yield _Section("Checks", list(_checks(record)))
    yield _Section("Made with", list(_provenance(record)))
    if record.files:
        rows = [(file.name, f"{file.size:,}", file.sha256) for file in record.files]
        yield _Section("Files of the model", head=("file", "bytes", "SHA-256"), rows=rows)
    yield _Section("Limits", lines=[*record.limits])
    yield _Section("Signature", [("Explanation", record.explanation_sha256), ("This record", record.sha256)])


def _checks(record: Record) -> Iterator[tuple[str, str]]:
    stable, other = record.stability, record.counterfactual
    if stable is None:
        yield "Second seed", "Not run: see the limits."
    else:
        agreement = "–" if stable.rank_correlation is None else f"{stable.rank_correlation:.2f}"
        shared = f"{stable.shared} of the {stable.compared} most important units are the same"
        change = f"largest change of a score {stable.largest_change:.3f}"
        yield f"Seed {stable.seed}", f"{shared}; rank correlation {agreement}; {change}."
    if other is None:
        yield "Counterfactual", "None was made."
    else:
        removed = " and ".join(f"“{_visible(text)}”" for text in other.removed)
        yield "Counterfactual", f"Without {removed} the model says “{_visible(other.answer)}”."


def _provenance(record: Record) -> Iterator[tuple[str, str]]:
    for name, info in (("Model", record.model), ("Method", record.method), ("Replacer", record.replacer)):
        if info:
            yield name, ", ".join(f"{key} {value}" for key, value in info.items() if value is not None)
    yield "Seed", str(record.seed)
    yield "reagent", f"{record.version}, {record.created}"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _visible(text: str) -> str:
    return sanitize(text.strip() or repr(text))


def _cut(text: str) -> str:
    text = sanitize(text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters; the JSON has all of them)"


def _markdown(section: _Section) -> Iterator[str]:
    yield f"## {section.heading}"
    yield ""
    if section.pairs:
        yield from (f"- **{name}**: {_escape(text)}" for name, text in section.pairs)
    if section.head:
        yield f"| {' | '.join(section.head)} |"
        yield f"|{'---|' * len(section.head)}"
        yield from (f"| {' | '.join(map(_escape, row))} |" for row in section.rows)
    yield from (f"- {_escape(line)}" for line in section.lines)
    yield ""


def _escape(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _html(section: _Section) -> str:
    heading = f"<h2>{section.heading}</h2>"
    if section.pairs:
        rows = "".join(f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in section.pairs)
        return f'{heading}<table class="pairs">{rows}</table>'
    if section.lines:
        return f"{heading}<ul>{''.join(f'<li>{escape(line)}</li>' for line in section.lines)}</ul>"
    head = "".join(f"<th>{name}</th>" for name in section.head)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in section.rows)
    return f'{heading}<div class="scroll" tabindex="0"><table class="numbers"><tr>{head}</tr>{rows}</table></div>'
