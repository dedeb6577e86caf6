"""Citations in the terminal and as Markdown: the answer with numbered footnotes, and the sources of each sentence."""

import re
from collections.abc import Iterator, Sequence

from rich import box, get_console
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reagent.citations import AnswerPart, Citations, Source
from reagent.explanation import control_token_warnings, noise_warnings
from reagent.views.terminal import print_parts
from reagent.views.text import mark_cut, sanitize, shorten

SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
NOT_CITED = "not from the documents"
FROM_MANY = "from many sentences"
SHOWN_SOURCES = 3  # of a part without citations
LONG_NAME, LONG_QUOTE = 60, 200
LEGEND = (
    "needed: without it the sentence loses a quarter or more of what the documents are worth",
    "sufficient: it alone gives most of it",
    "redundant: others say the same",
)


# --- words that all views share ---


def describe_marks(source: Source, citations: Citations, footnotes: dict[int, int]) -> str:
    """The marks of a sentence, with the numbers of the sentences that say the same."""
    words = []
    for mark in source.marks:
        if mark == "redundant":
            others = [_name(i, citations, footnotes) for i in source.redundant_with]
            words.append(f"redundant with {', '.join(others)}")
        else:
            words.append(mark)
    return ", ".join(words)


def _name(sentence: int, citations: Citations, footnotes: dict[int, int]) -> str:
    if sentence in footnotes:
        return f"[{footnotes[sentence]}]"
    return f"a sentence of {sanitize(citations.documents[citations.sentences[sentence].document].id)}"


def describe_uncited(part: AnswerPart) -> str:
    """What stands in place of the footnotes of a part without any."""
    return FROM_MANY if part.from_documents else NOT_CITED


def describe_part(part: AnswerPart) -> str:
    """Where a part of the answer comes from, in one line."""
    lost = format_nats(-part.total, part.total_stderr)
    if part.total <= 0:
        return f"{NOT_CITED}: without all of them it is no less likely; the model knows it or invents it"
    if part.from_documents:
        return f"from the documents: without all of them {lost} nats"
    return f"{NOT_CITED}: without all of them only {lost} nats; the model knows it or invents it"


def describe_pruned(citations: Citations) -> str:
    """The smallest context and its check, in one line."""
    pruned, count = citations.pruned, len(citations.sentences)
    loses = f"it loses {pruned.effect:.1f} nats" if pruned.effect >= 0.05 else "it loses nothing"
    if not pruned.sentences:
        return f"The answer needs no sentence of the documents: without them {loses}."
    names = ", ".join(sanitize(document.id) for document in pruned.documents)
    verdict = "keep the answer" if pruned.keeps_answer else "do not keep the answer"
    again = pruned.answer
    same = "" if again is None else "; the model then gives the same answer" if again == citations.answer else (
        f"; the model then says “{shorten(sanitize(again), LONG_QUOTE)}”"
    )  # fmt: skip
    return f"{len(pruned.sentences)} of {count} sentences ({names}) {verdict}: {loses}{same}."


def describe_screening(citations: Citations) -> str:
    """What was set aside, in one line; empty if nothing was."""
    screening = citations.screening
    if screening is None:
        return ""
    lost = f"without all of them the answer loses {max(screening.effect, 0.0):.1f} nats"
    return f"{len(screening.discarded)} of {len(citations.sentences)} sentences were set aside: {lost}."


def format_nats(value: float | None, stderr: float | None) -> str:
    """
    >>> format_nats(-5.25, 0.0), format_nats(1.0, 0.25), format_nats(-0.01, 0.0), format_nats(None, None)
    ('−5.2', '+1.0 ± 0.2', '0.0', '–')
    """
    if value is None:
        return "–"
    number = f"{value:+.1f}".replace("-", "−") if round(value, 1) else "0.0"
    return f"{number} ± {stderr:.1f}" if stderr else number


def format_share(source: Source, part: AnswerPart) -> str:
    """What a source carries alone, as a share of what all documents are worth."""
    if source.alone is None:
        return "–"
    return f"{100 * min(1.0, max(0.0, source.alone / max(part.total, 1e-9))):.0f} %"


# --- terminal ---


def show(citations: Citations, console: Console | None = None) -> None:
    """Print the answer with footnotes, the sources of each sentence, and the smallest context."""
    print_parts(console or get_console(), _render(citations))


def _render(citations: Citations) -> Iterator[RenderableType]:
    footnotes = citations.footnotes()
    yield Text(sanitize(citations.question), style="bold")
    yield Padding(_answer(citations, footnotes), (0, 0, 0, 2))
    for number, part in enumerate(citations.parts, 1):
        heading = f"{number}  “{shorten(sanitize(part.text), LONG_NAME)}” " if len(citations.parts) > 1 else ""
        yield Text.assemble((heading, "bold"), (describe_part(part), "" if part.from_documents else "yellow"))
        yield _table(citations, part, footnotes)
    yield Text(describe_pruned(citations))
    if note := describe_screening(citations):
        yield Text(note)
    for warning in (*control_token_warnings(citations.control_tokens), *noise_warnings(citations.noise)):
        yield Text(f"⚠ {sanitize(warning)}", style="yellow")
    yield Text(" · ".join(LEGEND), style="dim")
    cost = citations.cost
    yield Text(
        f"{cost.forward_passes} forward passes, {cost.seconds:.1f} s · {sanitize(str(citations.model.get('id')))} · "
        f"removal {citations.removal}",
        style="dim",
    )


def _answer(citations: Citations, footnotes: dict[int, int]) -> Text:
    text, end = Text(), 0
    for part in citations.parts:
        text.append(sanitize(mark_cut(citations.answer[end : part.end])))
        numbers = [str(footnotes[source.index]).translate(SUPERSCRIPTS) for source in part.cited]
        text.append(
            " ".join(numbers) if numbers else f" [{describe_uncited(part)}]", style="cyan" if numbers else "yellow"
        )
        end = part.end
    return text


def _table(citations: Citations, part: AnswerPart, footnotes: dict[int, int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("document", max_width=16, overflow="ellipsis", no_wrap=True)
    table.add_column("sentence", overflow="fold")
    table.add_column("removed", justify="right", no_wrap=True)
    table.add_column("alone", justify="right", no_wrap=True)
    table.add_column("", overflow="fold", max_width=26)
    for source in part.cited or part.sentences[:SHOWN_SOURCES]:
        sentence = citations.sentences[source.index]
        table.add_row(
            Text(f"[{footnotes[source.index]}]" if source.index in footnotes else ""),
            Text(sanitize(citations.documents[sentence.document].id)),
            Text(shorten(sanitize(" ".join(sentence.text.split())), LONG_QUOTE)),
            format_nats(None if source.effect is None else -source.effect, source.stderr),
            format_share(source, part),
            Text(describe_marks(source, citations, footnotes) if part.from_documents else ""),
        )
    return table


# --- Markdown ---


def render_markdown(citations: Citations) -> str:
    """The answer with footnotes, as in `The ferry leaves at nine.[^1]`."""
    footnotes, pieces, end = citations.footnotes(), [], 0
    for part in citations.parts:
        notes = "".join(f"[^{footnotes[source.index]}]" for source in part.cited)
        pieces.append(_escape(mark_cut(citations.answer[end : part.end])) + (notes or f" *({describe_uncited(part)})*"))
        end = part.end
    lines = [f"**{_escape(citations.question)}**", "", "".join(pieces), ""]
    for sentence, number in footnotes.items():
        part, source = first_use(citations.parts, sentence)
        quote = citations.sentences[sentence]
        name = _escape(citations.documents[quote.document].id)
        effect = format_nats(None if source.effect is None else -source.effect, source.stderr)
        marks = describe_marks(source, citations, footnotes) or "contributes"
        words = _escape(" ".join(quote.text.split()))
        lines.append(
            f"[^{number}]: {name}: “{words}” ({marks}; removed {effect} nats, alone {format_share(source, part)})"
        )
    lines += ["", _escape(describe_pruned(citations))]
    return "\n".join(lines) + "\n"


def first_use(parts: Sequence[AnswerPart], sentence: int) -> tuple[AnswerPart, Source]:
    """The first part that cites a sentence, and its entry there."""
    return next((part, source) for part in parts for source in part.cited if source.index == sentence)


def _escape(text: str) -> str:
    """Text that Markdown shows as it is.

    >>> print(_escape("a_b [c]"))
    a\\_b \\[c\\]
    """
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", text)
