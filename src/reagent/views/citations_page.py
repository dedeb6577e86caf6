"""Citations as HTML: a page, or a fragment for notebooks.

`assets/citations.js` draws the result of `to_view_data` with the functions and the style of the view of explanations.
Without scripts, the answer with its footnotes remains.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

from reagent.citations import AnswerPart, Citations, Source
from reagent.views.citations import (
    LEGEND,
    LONG_QUOTE,
    NOT_CITED,
    SHOWN_SOURCES,
    describe_marks,
    describe_part,
    describe_pruned,
    describe_screening,
    describe_uncited,
    first_use,
    format_nats,
    format_share,
)
from reagent.views.html import render_component, render_document
from reagent.views.summary import NAME_LENGTH, describe_cost, join_values
from reagent.views.text import mark_cut, sanitize, shorten

LONG_DOCUMENT = 1200  # characters; the unimportant sentences of longer documents are folded
TITLE_LENGTH = 80
DIGITS = 3


def render_page(citations: Citations) -> str:
    """Render a whole HTML document that works without a network."""
    return render_document(_line(citations.question, TITLE_LENGTH), render_fragment(citations))


def render_fragment(citations: Citations) -> str:
    """Render a part of a document, which may contain several of them."""
    return render_component(
        to_view_data(citations),
        "\n".join(_fallback(citations)),
        view="reagentCitations",
        extra=["citations.css", "citations.js"],
    )


def to_view_data(citations: Citations) -> dict[str, Any]:
    """Collect the data that `reagentCitations` in citations.js draws, as plain JSON.

    The first row is that of the answer as a whole, if it has several sentences; the others belong to its sentences.
    """
    parts = [*([citations.whole] if len(citations.parts) > 1 else []), *citations.parts]
    footnotes = citations.footnotes()
    return {
        "kind": "citations",
        "question": sanitize(citations.question),
        "answer": _answer_pieces(citations, first=len(parts) - len(citations.parts)),
        "rows": [_row(citations, part, part is citations.whole and len(parts) > 1, footnotes) for part in parts],
        "documents": [_document(citations, index) for index in range(len(citations.documents))],
        "sentences": [
            [sentence.document, _line(sentence.text, LONG_QUOTE), footnotes.get(index, 0)]
            for index, sentence in enumerate(citations.sentences)
        ],
        "partners": _partners(citations),
        "pruned": {
            "caption": describe_pruned(citations),
            "documents": [[_line(d.id, NAME_LENGTH), sanitize(d.text)] for d in citations.pruned.documents],
        },
        "screening": describe_screening(citations),
        "notCited": NOT_CITED,
        "legend": LEGEND,
        "facts": _facts(citations),
    }


# --- the parts of the answer ---


def _answer_pieces(citations: Citations, first: int) -> list[tuple[str, int | None]]:
    """The answer in pieces: a sentence with the number of its row, or the text between two sentences."""
    spans = [(part.start, part.end) for part in citations.parts]
    return [
        (mark_cut(text), None if index is None else first + index)
        for text, index in _split_at(citations.answer, enumerate(spans))
    ]


def _row(citations: Citations, part: AnswerPart, is_whole: bool, footnotes: dict[int, int]) -> dict[str, Any]:
    """Collect the sources of one part of the answer."""
    by_sentence = {source.index: source for source in part.sentences}
    sources = [by_sentence.get(index) for index in range(len(citations.sentences))]
    by_document = {source.index: source for source in part.documents}
    shown = (part.cited or part.sentences[:SHOWN_SOURCES]) if part.from_documents else ()
    return {
        "isWhole": is_whole,
        "label": _line(part.text, NAME_LENGTH),
        "caption": describe_part(part),
        "fromDocuments": part.from_documents,
        "cited": [source.index for source in part.cited],
        "shown": [source.index for source in shown],
        # a part that is not from the documents has no sources: shares of almost nothing mean nothing
        "weights": [round(source.importance, DIGITS) if source and part.from_documents else 0 for source in sources],
        "marks": [
            describe_marks(source, citations, footnotes) if source and part.from_documents else "" for source in sources
        ],
        "numbers": [_numbers(source, part) for source in sources],
        "documents": [
            _document_label(by_document.get(index), part, citations) for index in range(len(citations.documents))
        ],
    }


def _partners(citations: Citations) -> list[list[int]]:
    """For each sentence, those that say the same for some part of the answer."""
    partners: list[set[int]] = [set() for _ in citations.sentences]
    for part in citations.parts:
        for source in part.sentences:
            partners[source.index].update(source.redundant_with)
    return [sorted(others) for others in partners]


def _numbers(source: Source | None, part: AnswerPart) -> str:
    if source is None or (source.effect is None and source.alone is None):
        return "not measured one by one"
    removed = format_nats(None if source.effect is None else -source.effect, source.stderr)
    return f"removed {removed} nats, alone {format_share(source, part)}".replace(" %", "\u00a0%")


def _document_label(source: Source | None, part: AnswerPart, citations: Citations) -> str:
    """The marks and numbers of a document; empty if the part does not rest on it."""
    if source is None or not part.from_documents or not source.marks:
        return ""
    others = ", ".join(_line(citations.documents[i].id, NAME_LENGTH) for i in source.redundant_with)
    marks = [f"redundant with {others}" if mark == "redundant" else mark for mark in source.marks]
    return f"{', '.join(marks)}: {_numbers(source, part)}"


# --- documents and provenance ---


def _document(citations: Citations, number: int) -> dict[str, Any]:
    document = citations.documents[number]
    own = ((i, (s.start, s.end)) for i, s in enumerate(citations.sentences) if s.document == number)
    return {
        "name": _line(document.id, NAME_LENGTH),
        "isLong": len(document.text) > LONG_DOCUMENT,
        "pieces": _split_at(document.text, own),
    }


def _facts(citations: Citations) -> list[tuple[str, str]]:
    pairs = [
        ("model", join_values(citations.model, "id", "revision", "dtype")),
        ("removal", sanitize(citations.removal)),
        ("replacer", "" if citations.replacer is None else join_values(citations.replacer, "id", "model")),
        ("control tokens", sanitize(" ".join(citations.control_tokens))),
        ("noise of the server", f"± {citations.noise:.2g} nats" if citations.noise else ""),
        ("seed", str(citations.seed)),
        ("cost", describe_cost(citations.cost)),
        ("reagent", sanitize(f"{citations.version}, {citations.created}")),
    ]
    return [(name, value) for name, value in pairs if value]


def _split_at(text: str, spans: Iterator[tuple[int, tuple[int, int]]]) -> list[tuple[str, int | None]]:
    """Cut a text at numbered spans; the text between them has no number.

    >>> _split_at("One. Two!", iter([(0, (0, 4)), (1, (5, 9))]))
    [('One.', 0), (' ', None), ('Two!', 1)]
    """
    pieces: list[tuple[str, int | None]] = []
    end = 0
    for index, (start, stop) in spans:
        pieces += [(sanitize(text[end:start]), None), (sanitize(text[max(start, end) : stop]), index)]
        end = max(stop, end)
    pieces.append((sanitize(text[end:]), None))
    return [(piece, index) for piece, index in pieces if piece]


def _line(text: str, length: int) -> str:
    return shorten(" ".join(sanitize(text).split()), length)


# --- without scripts ---


def _fallback(citations: Citations) -> Iterator[str]:
    """The answer with numbered footnotes, as plain HTML."""
    footnotes, end = citations.footnotes(), 0
    pieces = []
    for part in citations.parts:
        notes = " ".join(f"[{footnotes[source.index]}]" for source in part.cited)
        pieces.append(_text(mark_cut(citations.answer[end : part.end])))
        pieces.append(f"<sup>{notes}</sup>" if notes else f" <em>({describe_uncited(part)})</em>")
        end = part.end
    yield f"<p><b>{_text(citations.question)}</b></p>"
    yield f"<p>{''.join(pieces)}</p>"
    yield "<ol>"
    for sentence in footnotes:
        yield f"<li>{_footnote(citations, sentence, footnotes)}</li>"
    yield "</ol>"
    yield f"<p>{escape(describe_pruned(citations))}</p>"


def _footnote(citations: Citations, sentence: int, footnotes: dict[int, int]) -> str:
    part, source = first_use(citations.parts, sentence)
    quote = citations.sentences[sentence]
    marks = describe_marks(source, citations, footnotes) or "contributes"
    name = _text(citations.documents[quote.document].id)
    return f"{name}: “{_text(' '.join(quote.text.split()))}” ({escape(marks)}; {_numbers(source, part)})"


def _text(text: str) -> str:
    return escape(sanitize(text))
