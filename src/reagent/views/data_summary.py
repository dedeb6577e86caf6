"""The words of many prompts: in the terminal, and as an HTML page without scripts."""

from collections.abc import Iterator
from html import escape

from rich import box, get_console
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from reagent.data_summary import Summary, SummaryWord, WordExample
from reagent.views.html import read_asset, render_document
from reagent.views.studies import count, format_interval, format_number, format_share
from reagent.views.terminal import print_parts
from reagent.views.text import sanitize, shorten

SHOWN = 100  # words on a page
NAME_LENGTH, ANSWER_LENGTH = 60, 60
BAR_WIDTH = 8


def headline(summary: Summary) -> str:
    """The most important words in one sentence."""
    best = ", ".join(f"“{_line(word.text)}”" for word in summary.words[:5])
    over = f"{count(summary.prompts, 'prompt')}"
    if not best:
        return f"No {summary.unit} is in {summary.least} or more of {over}."
    return f"Most important over {over}: {best}."


def describe(summary: Summary) -> str:
    """What the numbers are, in one line."""
    left_out = f"; {summary.unit}s in fewer than {summary.least} prompts are left out" if summary.least > 1 else ""
    origin = f"{', '.join(summary.models)} · {', '.join(summary.methods)}"
    return sanitize(
        f"importance: mean share of the scores over all prompts; effect: mean over the prompts that have the "
        f"{summary.unit}{left_out} · {origin}"
    )


# --- terminal ---


def show(summary: Summary, n: int = 20, console: Console | None = None) -> None:
    """Print the most important words, each with its best example."""
    print_parts(console or get_console(), _render(summary, n))


def _render(summary: Summary, n: int) -> Iterator[RenderableType]:
    yield Text(headline(summary), style="bold")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(summary.unit, overflow="fold")
    for heading in ("prompts", "importance"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column(f"effect ({summary.effect_unit})", justify="right", no_wrap=True)
    table.add_column("interval", justify="right", no_wrap=True)
    largest = max((word.importance for word in summary.words), default=0.0) or 1.0
    for word in summary.words[:n]:
        bar = "█" * max(1, round(BAR_WIDTH * word.importance / largest))
        table.add_row(_line(word.text), str(word.prompts), f"{word.importance:.3f}", bar, *_effect(word))
    yield table
    for word in summary.words[:3]:
        for example in word.examples[:1]:
            yield Text.assemble(
                _flat(example.before),
                (_flat(example.word), "bold underline"),
                _flat(example.after),
                (f" ▸ {_line(example.answer)}", "dim"),
            )
    yield Text(describe(summary), style="dim")


def _effect(word: SummaryWord) -> tuple[str, str]:
    return ("–", "–") if word.effect is None else (format_number(word.effect.mean), format_interval(word.effect))


def _line(text: str) -> str:
    return shorten(_flat(text).strip(), NAME_LENGTH)


def _flat(text: str) -> str:
    return sanitize(text).replace("\n", " ")


# --- page ---


def render_page(summary: Summary) -> str:
    """Render a whole HTML document that works without a network."""
    return render_document(f"The words of {count(summary.prompts, 'prompt')}", render_fragment(summary))


def render_fragment(summary: Summary) -> str:
    """Render a part of a document, which may contain several of them."""
    style = f"<style>\n{read_asset('view.css')}{read_asset('data_summary.css')}</style>"
    return "\n".join([style, '<div class="reagent">', *_html(summary), "</div>"])


def _html(summary: Summary) -> Iterator[str]:
    yield f'<h2 class="reagent-summary-headline">{escape(headline(summary))}</h2>'
    yield '<p class="reagent-hint">Open a line to see the prompts where it matters most.</p>'
    largest = max((word.importance for word in summary.words), default=0.0) or 1.0
    for number, word in enumerate(summary.words[:SHOWN]):
        yield _word(word, largest, summary, is_open=number == 0)
    if len(summary.words) > SHOWN:
        yield f'<p class="reagent-hint">… and {len(summary.words) - SHOWN} more.</p>'
    yield f'<p class="reagent-notes">{escape(describe(summary))}</p>'


def _word(word: SummaryWord, largest: float, summary: Summary, is_open: bool) -> str:
    mean, interval = _effect(word)
    width = f"{100 * word.importance / largest:.1f}%"
    unit = "" if summary.effect_unit is None else f" {sanitize(summary.effect_unit)}"
    numbers = f"{word.importance:.3f} · {count(word.prompts, 'prompt')} · effect {mean}{unit} ({interval})"
    examples = "".join(map(_example, word.examples))
    return (
        f'<details class="reagent-summary-word"{" open" if is_open else ""}><summary>'
        f'<bdi class="reagent-label">{escape(_line(word.text))}</bdi>'
        f'<span class="reagent-summary-bar"><span class="reagent-fill" style="width: {width}"></span></span>'
        f'<span class="reagent-summary-numbers">{escape(numbers)}</span></summary>{examples}</details>'
    )


def _example(example: WordExample) -> str:
    marked = f"{escape(_flat(example.before))}<mark>{escape(_flat(example.word))}</mark>{escape(_flat(example.after))}"
    answer = escape(shorten(_flat(example.answer).strip(), ANSWER_LENGTH))
    numbers = f"{format_share(example.score)} of the scores"
    return f'<p class="reagent-summary-example"><bdi>{marked}</bdi> ▸ <b>{answer}</b> <small>{numbers}</small></p>'
