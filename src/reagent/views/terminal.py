"""An explanation in the terminal, in colour or without."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

from rich import box, get_console
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reagent.explanation import Contribution, Explanation
from reagent.views.display import displayed, main_row, output_noun, row_of, with_cut_marked
from reagent.views.fitted_label import FittedLabel
from reagent.views.groups import describe_sufficiency, group_captions, group_marks
from reagent.views.shading import BAR_COLOUR, Shading, render_template
from reagent.views.summary import (
    OPEN_NOTE,
    OPEN_RANKS_NOTE,
    OPEN_SIGN,
    TOP_COUNT,
    Caption,
    answer_what_if_captions,
    collect_warnings,
    context_noun,
    describe_probability,
    effect_digits,
    effect_heading,
    effect_note,
    facts,
    format_error,
    has_open_ranking,
    is_insufficient,
    open_ranks,
    plain_text,
    probability,
    question_caption,
    row_warning,
    top_units_by_level,
    what_if_captions,
)
from reagent.views.text import all_labels, label, split_into_pieces, template_text
from reagent.views.tracing import render_trace

SOURCES = 3
BAR_WIDTH, SHORT_BAR_WIDTH = 16, 6  # the short one is beside long names


def show(
    explanation: Explanation, target: int | None = None, console: Console | None = None, unit: str | None = None
) -> None:
    """Print output token `target`, or the requested one, or the answer as a whole and then its parts.

    `unit` is "word", "sentence" or "token"; by default as the explanation says.
    """
    console = console or get_console()
    print_parts(console, _render(explanation, target, unit, supports_shading(console)))


def _render(explanation: Explanation, target: int | None, unit: str | None, colour: bool) -> Iterator[RenderableType]:
    if not explanation.output:
        yield Text("There is no output token to explain.")
        yield render_facts(explanation)
    elif target is not None:
        yield from _TerminalView.of(with_cut_marked(explanation), colour).render(row_of(explanation, target))
    else:
        shown = displayed(explanation, unit)
        main, row = main_row(shown)
        if main is shown:
            yield from _TerminalView.of(main, colour).render(row)
            return
        if shown.answer is None:  # the tests belong to the output units
            yield from render_failed_test(shown, None)
        parts = _TerminalView.of(shown, colour)
        yield from _TerminalView.of(main, colour).render_row(row)
        yield from parts.render_parts(output_noun(shown, explanation))
        yield from parts.render_end(None)


def render_facts(explanation: Explanation) -> Text:
    return Text(" · ".join(f"{name} {value}" for name, value in facts(explanation)), style="dim")


def print_parts(console: Console, parts: Iterable[RenderableType]) -> None:
    """Print the parts one after the other; characters that the console cannot write become question marks."""
    whole = Group(*parts)
    if console.encoding.lower().startswith("utf"):
        console.print(whole, highlight=False)
        return
    with console.capture() as captured:
        console.print(whole, highlight=False)
    writable = captured.get().encode(console.encoding, "replace").decode(console.encoding)
    console.out(writable, end="", highlight=False)


def supports_shading(console: Console) -> bool:
    """Whether the console has enough colours for a scale, which sixteen are not."""
    return console.color_system in ("256", "truecolor") and not console.no_color


@dataclass(frozen=True)
class _TerminalView:
    """Renders one explanation."""

    explanation: Explanation
    labels: Sequence[str]
    noun: str
    shading: Shading
    open_ranks: Sequence[Sequence[str]]  # for each output token, one text for each context token

    @classmethod
    def of(cls, explanation: Explanation, colour: bool) -> "_TerminalView":
        noun = context_noun(explanation)
        ranks = [open_ranks(explanation, t) for t in range(len(explanation.output))]
        shading = Shading(split_into_pieces(explanation), noun, colour)
        return cls(explanation, all_labels(explanation), noun, shading, ranks)

    def render(self, target: int) -> Iterator[RenderableType]:
        """Render one row, then warnings and provenance."""
        yield from self.render_row(target)
        yield from render_trace(self.explanation)
        yield from self.render_end(target)

    def render_end(self, target: int | None) -> Iterator[RenderableType]:
        """Render the warnings about one row, or about the answer and its parts, and the provenance."""
        yield from (format_warning(text) for text in collect_warnings(self.explanation, target))
        yield render_facts(self.explanation)

    # --- one row ---

    def render_row(self, target: int) -> Iterator[RenderableType]:
        scores = self.explanation.scores[target]
        question = format_caption(question_caption(self.explanation, target))
        yield question.append(f"  {describe_probability(self.explanation, target)}".rstrip())
        yield from render_failed_test(self.explanation, target)
        marks = group_marks(self.explanation, target)
        yield from render_template(template_text(self.explanation))
        yield Padding(self.shading.render_context(scores, with_answer=True, marks=marks), (1, 2))
        yield self.shading.legend(scores)
        yield from render_groups(self.explanation, target)
        yield from self._render_levels(target)
        rows = [row for row in self.explanation.top(TOP_COUNT, target) if row.score > 0]
        if not rows:
            yield Text(f"No context {self.noun} has any importance.")
            return
        yield self._table(target, rows)
        for _, caption in what_if_captions(self.explanation, target):
            yield format_caption(caption)
        if note := effect_note(self.explanation, target):
            yield Text(plain_text(note), style="dim")
        if any(self.open_ranks[target][row.position] for row in rows):
            yield Text(OPEN_RANKS_NOTE, style="dim")

    def _render_levels(self, target: int) -> Iterator[Table]:
        """Render the most important units of each coarser level."""
        levels = list(top_units_by_level(self.explanation, target))
        if not levels:
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("level")
        table.add_column("most important")
        table.add_column("score", justify="right", no_wrap=True)
        effects = self._add_effects(table, [row for _, rows in levels for row in rows], "\n")
        for noun, rows in levels:
            for number, row in enumerate(rows):
                name = FittedLabel(label(row.token))
                table.add_row("" if number else noun, name, f"{row.score:.3f}", *next(effects))
        yield table

    def _table(self, target: int, rows: Sequence[Contribution]) -> Table:
        why, marks = self.explanation, group_marks(self.explanation, target)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("#", justify="right", no_wrap=True)
        table.add_column(self.noun, min_width=8)
        table.add_column("at", justify="right", no_wrap=True)
        table.add_column("score", justify="right", no_wrap=True)
        has_short_names = self.noun in ("token", "word")
        bar_width = BAR_WIDTH if has_short_names else SHORT_BAR_WIDTH
        table.add_column("", no_wrap=True, width=bar_width)
        effects = self._add_effects(table, rows, " " if has_short_names else "\n")
        for rank, row in enumerate(rows, start=1):
            name = FittedLabel(self.labels[row.position], mark=marks.get(row.position, ""))
            bar = Text(_bar(row.score / rows[0].score, bar_width), style=BAR_COLOUR)
            number = self.open_ranks[target][row.position] or str(rank)
            table.add_row(number, name, self._place(row.position), f"{row.score:.3f}", bar, *next(effects))
        others = len(why.context(target)) - len(rows)
        if others:
            rest = max(0.0, sum(why.scores[target]) - sum(row.score for row in rows))
            table.add_row("", Text(f"{others} more", style="dim"), "", Text(f"{rest:.3f}", style="dim"))
        return table

    def _place(self, position: int) -> str:
        """The position of a unit; that of an earlier output unit is counted from the start of the answer."""
        inputs = len(self.explanation.input)
        return str(position) if position < inputs else f"answer {position - inputs}"

    def _add_effects(self, table: Table, rows: Sequence[Contribution], space: str) -> Iterator[tuple[str, ...]]:
        """Add the column of the effects, and yield the cell of each row; nothing without effects.

        The effects are aligned, with or without an error behind them.
        """
        if not self.explanation.effects:
            return repeat(())
        table.add_column(Text(effect_heading(self.explanation, (row.stderr for row in rows), space)), no_wrap=True)
        digits = effect_digits(self.explanation)
        effects = ["" if row.effect is None else f"{row.effect:+.{digits}f}" for row in rows]
        width = max(map(len, effects), default=0)
        errors = (format_error(row.stderr, digits) for row in rows)
        return ((effect.rjust(width) + error,) for effect, error in zip(effects, errors, strict=True))

    # --- all output units ---

    def render_parts(self, noun: str) -> Iterator[RenderableType]:
        """Render the most important units of each output unit, which is a `noun`."""
        why = self.explanation
        count = len(why.output)
        yield Text(f"The answer by {noun}s:")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
        table.add_column("#", justify="right", no_wrap=True)
        table.add_column("output", min_width=8, max_width=24)
        table.add_column("prob.", justify="right", no_wrap=True)
        for heading in ("most important", "second", "third")[:SOURCES]:
            table.add_column(heading, min_width=12, max_width=30)
        rows = [[row for row in why.top(SOURCES, target) if row.score > 0] for target in range(count)]
        for target, sources in enumerate(rows):
            name = FittedLabel(self.labels[len(why.input) + target], style="bold")
            cells = (self._source(target, row) for row in sources)
            table.add_row(self._format_index(target), name, probability(why.output[target]), *cells)
        yield table
        if why.answer is None:
            yield from render_groups(why, None)
        else:  # the groups and the test of the answer are above, and the signs of the rows need a reason
            yield from render_failed_test(why, None)
        for _, caption in answer_what_if_captions(why):
            yield format_caption(caption)
        if any(self.open_ranks[target][row.position] for target in range(count) for row in rows[target]):
            yield Text(f"{OPEN_SIGN} {OPEN_NOTE}", style="dim")

    def _source(self, target: int, row: Contribution) -> FittedLabel:
        sign = OPEN_SIGN if self.open_ranks[target][row.position] else " "
        return FittedLabel(self.labels[row.position], number=f"{row.score:.2f}{sign}")

    def _format_index(self, target: int) -> str:
        """Format the number of the first token of an output unit, with a sign if the unit has a warning."""
        number = sum(len(unit.ids) for unit in self.explanation.output[:target])
        if is_insufficient(self.explanation, target):
            return f"! {number}"
        if not row_warning(self.explanation, target):
            return str(number)
        return f"{OPEN_SIGN if has_open_ranking(self.explanation, target) else '!'} {number}"


def render_failed_test(explanation: Explanation, target: int | None) -> Iterator[Text]:
    """Render a warning if the important units are not sufficient."""
    test = describe_sufficiency(explanation, target)
    if test and not test.passed:
        yield format_warning(plain_text(test.caption))


def render_groups(explanation: Explanation, target: int | None) -> Iterator[Text]:
    """Render a line for each group, and one for a sufficiency test that passed."""
    for caption in group_captions(explanation, target):
        yield format_caption(caption)
    test = describe_sufficiency(explanation, target)
    if test and test.passed:
        yield format_caption(test.caption)


def format_warning(text: str) -> Text:
    """Put the word "warning" before the text."""
    return Text.assemble(("warning: ", "bold yellow"), text)


def format_caption(caption: Caption) -> Text:
    """Print the quoted parts in bold."""
    return Text.assemble(*((part.text, "bold" if part.quoted else "") for part in caption))


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
