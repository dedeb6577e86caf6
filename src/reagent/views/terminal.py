"""An explanation in the terminal, in colour or without."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich import box, get_console
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reagent.explanation import Contribution, Explanation
from reagent.views.shading import BAR_COLOUR, Shading
from reagent.views.summary import (
    LISTED,
    NAME_LENGTH,
    NOT_SETTLED,
    OPEN,
    PLACES,
    Line,
    chances,
    context_noun,
    effect_digits,
    facts,
    has_open_ranking,
    mean_scores,
    open_places,
    outline,
    probability,
    question,
    shown_row,
    unit_note,
    warning,
    warning_lines,
    what_if,
)
from reagent.views.text import all_labels, label, running, shortened, visible

SOURCES = 3
BAR_WIDTH, SHORT_BAR_WIDTH = 16, 6  # the short one beside long names
NAME_WIDTH = 12  # cells that a label needs at least


def show(explanation: Explanation, target: int | None = None, console: Console | None = None) -> None:
    """Print output token `target` in full, or the one that was asked about, or an overview of all."""
    console = console or get_console()
    view = _View(
        explanation,
        all_labels(explanation),
        context_noun(explanation),
        Shading(running(explanation), context_noun(explanation), colour=can_shade(console)),
        open=[open_places(explanation, t) for t in range(len(explanation.output))],
    )
    print_parts(console, view.parts(shown_row(explanation, target) if explanation.output else None))


def print_parts(console: Console, parts: Iterable[RenderableType]) -> None:
    """Print one after the other; what the console cannot write becomes question marks."""
    whole = Group(*parts)
    if console.encoding.lower().startswith("utf"):
        console.print(whole, highlight=False)
        return
    with console.capture() as captured:
        console.print(whole, highlight=False)
    writable = captured.get().encode(console.encoding, "replace").decode(console.encoding)
    console.out(writable, end="", highlight=False)


def can_shade(console: Console) -> bool:
    # Sixteen colours cannot hold a scale.
    return console.color_system in ("256", "truecolor") and not console.no_color


@dataclass(frozen=True)
class _View:
    explanation: Explanation
    labels: Sequence[str]
    noun: str
    shading: Shading
    open: Sequence[Sequence[str]]  # per output token, the places that each context token may have, if several

    def parts(self, target: int | None) -> Iterator[RenderableType]:
        if not self.explanation.output:
            yield Text("There is no output token to explain.")
        elif target is None:
            yield from self._overview()
        else:
            yield from self._picture(target)
        yield from (warned(text) for text in warning_lines(self.explanation, target))
        yield Text(" · ".join(f"{name} {value}" for name, value in facts(self.explanation)), style="dim")

    # --- one output token ---

    def _picture(self, target: int) -> Iterator[RenderableType]:
        scores = self.explanation.scores[target]
        yield styled(question(self.explanation, target)).append(f"  {chances(self.explanation, target)}".rstrip())
        yield Padding(self.shading.context(scores, with_answer=True), (1, 2))
        yield self.shading.legend(scores)
        yield from self._outline(target)
        rows = [row for row in self.explanation.top(LISTED, target) if row.score > 0]
        if not rows:
            yield Text(f"No context {self.noun} has any importance.")
            return
        yield self._table(target, rows)
        for _, line in what_if(self.explanation, target):
            yield styled(line)
        if note := unit_note(self.explanation, target):
            yield Text("".join(text for text, _ in note), style="dim")
        if any(self.open[target][row.position] for row in rows):
            yield Text(PLACES, style="dim")

    def _outline(self, target: int) -> Iterator[Table]:
        """The most important units of each coarser level."""
        levels = list(outline(self.explanation, target))
        if not levels:
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("level")
        table.add_column("most important")
        table.add_column("score", justify="right", no_wrap=True)
        self._add_effect_column(table, "\n")
        for noun, rows in levels:
            for number, row in enumerate(rows):
                name = Name(label(row.token))
                table.add_row("" if number else noun, name, f"{row.score:.3f}", *self._effect(row))
        yield table

    def _table(self, target: int, rows: Sequence[Contribution]) -> Table:
        why = self.explanation
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("#", justify="right", no_wrap=True)
        table.add_column(self.noun, min_width=8)
        table.add_column("at", justify="right", no_wrap=True)
        table.add_column("score", justify="right", no_wrap=True)
        brief = self.noun in ("token", "word")
        bar_width = BAR_WIDTH if brief else SHORT_BAR_WIDTH
        table.add_column("", no_wrap=True, width=bar_width)
        self._add_effect_column(table, " " if brief else "\n")
        for rank, row in enumerate(rows, start=1):
            name = Name(self.labels[row.position])
            bar = Text(_bar(row.score / rows[0].score, bar_width), style=BAR_COLOUR)
            number = self.open[target][row.position] or str(rank)
            table.add_row(number, name, str(row.position), f"{row.score:.3f}", bar, *self._effect(row))
        others = len(why.context(target)) - len(rows)
        if others:
            rest = max(0.0, sum(why.scores[target]) - sum(row.score for row in rows))
            table.add_row("", Text(f"{others} more", style="dim"), "", Text(f"{rest:.3f}", style="dim"))
        return table

    def _add_effect_column(self, table: Table, space: str) -> None:
        why = self.explanation
        if why.effects:
            unit = f"{space}({visible(why.effect_unit)})" if why.effect_unit else ""
            table.add_column(Text(("effect ± stderr" if why.stderr else "effect") + unit), justify="right")

    def _effect(self, row: Contribution) -> list[str]:
        if row.effect is None:
            return []
        digits = effect_digits(self.explanation)
        error = "" if row.stderr is None else f" ± {row.stderr:.{digits}f}"
        return [f"{row.effect:+.{digits}f}{error}"]

    # --- all output tokens ---

    def _overview(self) -> Iterator[RenderableType]:
        why = self.explanation
        count = len(why.output)
        means = mean_scores(why)
        yield Text(f"The prompt, by its mean score over the {count} output tokens:")
        yield Padding(self.shading.context(means), (1, 2))
        yield self.shading.legend(means)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
        table.add_column("#", justify="right", no_wrap=True)
        table.add_column("output", min_width=8, max_width=24)
        table.add_column("prob.", justify="right", no_wrap=True)
        for heading in ("most important", "second", "third")[:SOURCES]:
            table.add_column(heading, min_width=12, max_width=30)
        rows = [[row for row in why.top(SOURCES, target) if row.score > 0] for target in range(count)]
        for target, sources in enumerate(rows):
            name = Name(self.labels[len(why.input) + target], style="bold")
            cells = (self._source(target, row) for row in sources)
            table.add_row(self._flagged(target), name, probability(why.output[target]), *cells)
        yield table
        for target in range(count):
            for _, line in what_if(why, target):
                yield styled([(self.labels[len(why.input) + target], True), ("  ", False), *line])
        if any(self.open[target][row.position] for target in range(count) for row in rows[target]):
            yield Text(f"{OPEN} {NOT_SETTLED}", style="dim")

    def _source(self, target: int, row: Contribution) -> "Name":
        sign = OPEN if self.open[target][row.position] else " "
        return Name(self.labels[row.position], number=f"{row.score:.2f}{sign}")

    def _flagged(self, target: int) -> str:
        if not warning(self.explanation, target):
            return str(target)
        return f"{OPEN if has_open_ranking(self.explanation, target) else '!'} {target}"


@dataclass(frozen=True)
class Name:
    """A label that shows its beginning and its end in whatever room it gets, behind a number."""

    text: str
    number: str = ""
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        room = max(1, options.max_width - len(self.number))
        names = (shortened(self.text, length) for length in range(min(NAME_LENGTH, room), 0, -1))
        name = next((name for name in names if cell_len(name) <= room), "")
        yield Text.assemble((self.number, "dim"), (name, self.style), no_wrap=True, overflow="crop")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        width = len(self.number) + cell_len(shortened(self.text, NAME_LENGTH))
        return Measurement(min(NAME_WIDTH, width), width)


def warned(text: str) -> Text:
    return Text.assemble(("warning: ", "bold yellow"), text)


def styled(parts: Line) -> Text:
    """The line with what is quoted in bold."""
    return Text.assemble(*((text, "bold" if quoted else "") for text, quoted in parts))


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
