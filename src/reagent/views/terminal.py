"""An explanation in the terminal, in colour or without."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rich import box, get_console
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from reagent.explanation import Contribution, Explanation
from reagent.views.summary import (
    LISTED,
    NOT_SETTLED,
    OPEN,
    effect_digits,
    facts,
    has_open_ranking,
    probability,
    unit_note,
    unsettled,
    warning,
    warnings_in_brief,
)
from reagent.views.text import NEWLINE, TAB, Kind, Piece, labels, running, visible

SOURCES = 3
BAR_WIDTH = 16
BAR_COLOUR = "#d97f12"
MARKED = 5  # without colour, so many tokens get brackets,
MARKED_FROM = 0.2  # if they have this share of the largest score

# One hue, growing in strength. Each shade sets its own text colour, since nobody knows the terminal's background.
SHADES = (
    Style(),
    Style(color="#ffffff", bgcolor="#6b5f53"),
    Style(color="#ffffff", bgcolor="#86653f"),
    Style(color="#ffffff", bgcolor="#a0641e"),
    Style(color="#000000", bgcolor=BAR_COLOUR),
    Style(color="#000000", bgcolor="#ffa51f", bold=True),
)


def show(explanation: Explanation, target: int | None = None, console: Console | None = None) -> None:
    """Print output token `target` in full, or an overview of all where there are several."""
    console = console or get_console()
    view = _View(
        explanation,
        labels(explanation),
        running(explanation),
        shaded=_can_shade(console),
        open_places=[unsettled(explanation, t) for t in range(len(explanation.output))],
    )
    if console.encoding.lower().startswith("utf"):
        _print(console, view, target)
        return
    with console.capture() as captured:
        _print(console, view, target)
    writable = captured.get().encode(console.encoding, "replace").decode(console.encoding)
    console.out(writable, end="", highlight=False)


def _print(console: Console, view: "_View", target: int | None) -> None:
    for part in view.parts(target):
        console.print(part, highlight=False)


def _can_shade(console: Console) -> bool:
    # Sixteen colours cannot hold a scale.
    return console.color_system in ("256", "truecolor") and not console.no_color


@dataclass(frozen=True)
class _View:
    explanation: Explanation
    labels: Sequence[str]
    pieces: Sequence[Piece]
    shaded: bool
    open_places: Sequence[Sequence[bool]]

    def parts(self, target: int | None) -> Iterator[RenderableType]:
        count = len(self.explanation.output)
        if count == 0:
            yield Text("There is no output token to explain.")
        elif target is None and count > 1:
            yield from self._overview()
        else:
            context = self.explanation.context(target or 0)  # refuses a target that is not there
            yield from self._picture(len(context) - len(self.explanation.input))
        yield from self._warnings(target)
        yield Text(" · ".join(f"{name} {value}" for name, value in facts(self.explanation)), style="dim")

    # --- one output token ---

    def _picture(self, target: int) -> Iterator[RenderableType]:
        scores = self.explanation.scores[target]
        yield Text.assemble("Why ", (self._output_label(target), "bold"), "?  ", self._probability(target))
        said = next(piece.text for piece in self.pieces if piece.position == len(scores))
        text = self._text(scores, stop=len(scores)).append(" ▸ ", style="dim")
        yield Padding(text.append(_broken(said).strip(" "), style="bold underline"), (1, 2))
        yield self._legend(scores)
        rows = [row for row in self.explanation.top(LISTED, target) if row.score > 0]
        if not rows:
            yield Text("No context token has any importance.")
            return
        yield self._table(target, rows)
        if unit_note(self.explanation):
            yield Text(unit_note(self.explanation), style="dim")
        yield from self._open_legend(any(self._is_open(target, row) for row in rows))

    def _table(self, target: int, rows: Sequence[Contribution]) -> Table:
        why = self.explanation
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("#", justify="right")
        table.add_column("token", no_wrap=True, overflow="ellipsis", min_width=8)
        table.add_column("at", justify="right")
        table.add_column("score", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True, width=BAR_WIDTH)
        if why.effects:
            unit = f" ({visible(why.effect_unit)})" if why.effect_unit else ""
            table.add_column(Text(("effect ± stderr" if why.stderr else "effect") + unit), justify="right")
        for rank, row in enumerate(rows, start=1):
            name, bar = Text(self.labels[row.position]), Text(_bar(row.score / rows[0].score), style=BAR_COLOUR)
            number = f"{OPEN} {rank:>2}" if self._is_open(target, row) else str(rank)
            table.add_row(number, name, str(row.position), f"{row.score:.3f}", bar, *self._effect(row))
        others = len(why.context(target)) - len(rows)
        if others:
            rest = max(0.0, sum(why.scores[target]) - sum(row.score for row in rows))
            table.add_row("", Text(f"{others} more", style="dim"), "", Text(f"{rest:.3f}", style="dim"))
        return table

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
        means = [sum(row[i] for row in why.scores) / count for i in range(len(why.input))]
        yield Text(f"The prompt, by its mean score over the {count} output tokens:")
        yield Padding(self._text(means, stop=len(means)), (1, 2))
        yield self._legend(means)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
        table.add_column("#", justify="right")
        table.add_column("output", no_wrap=True, overflow="ellipsis", min_width=8, max_width=24)
        table.add_column("prob.", justify="right", no_wrap=True)
        for heading in ("most important", "second", "third")[:SOURCES]:
            table.add_column(heading, no_wrap=True, overflow="ellipsis", min_width=12, max_width=30)
        rows = [[row for row in why.top(SOURCES, target) if row.score > 0] for target in range(count)]
        for target, sources in enumerate(rows):
            name = Text(self._output_label(target), style="bold")
            cells = (self._source(target, row) for row in sources)
            table.add_row(self._flagged(target), name, probability(why.output[target]), *cells)
        yield table
        yield from self._open_legend(any(self._is_open(target, row) for target in range(count) for row in rows[target]))

    def _source(self, target: int, row: Contribution) -> Text:
        # The number first: what a narrow column cuts off is then the end of the token.
        sign = OPEN if self._is_open(target, row) else " "
        return Text.assemble((f"{row.score:.2f}{sign}", "dim"), self.labels[row.position])

    def _flagged(self, target: int) -> str:
        if not warning(self.explanation, target):
            return str(target)
        return f"{OPEN if has_open_ranking(self.explanation, target) else '!'} {target}"

    # --- shared ---

    def _text(self, weights: Sequence[float], stop: int) -> Text:
        """Running text up to position `stop`, shaded, or with brackets around the strongest tokens."""
        largest = max(weights, default=0.0) or 1.0
        order = sorted(range(len(weights)), key=lambda i: -weights[i])
        marked = {i for i in order[:MARKED] if weights[i] >= MARKED_FROM * largest and weights[i] > 0}
        text = Text()
        for piece in takewhile(lambda piece: piece.position != stop, self.pieces):
            before, body, after = _margins(_broken(piece.text))
            style: Style | str = "dim" if piece.kind is Kind.SPECIAL else ""
            if piece.position is not None and self.shaded:
                style = SHADES[_level(weights[piece.position] / largest)] or style
            elif piece.position in marked:
                body = f"⟦{body}⟧"
            text.append(before).append(body, style=style).append(after)
        return text

    def _legend(self, weights: Sequence[float]) -> Text:
        largest = max(weights, default=0.0)
        if not self.shaded:
            return Text(f"⟦ ⟧ strongest tokens (largest score {largest:.3f})", style="dim")
        swatches = [("   ", shade) for shade in SHADES[1:]]
        return Text.assemble(("score 0 ", "dim"), *swatches, (f" {largest:.3f}", "dim"))

    def _is_open(self, target: int, row: Contribution) -> bool:
        places = self.open_places[target]
        return bool(places) and places[row.position]

    def _open_legend(self, needed: bool) -> Iterator[Text]:
        if needed:
            yield Text(f"{OPEN} {NOT_SETTLED}", style="dim")

    def _warnings(self, target: int | None) -> Iterator[Text]:
        lines = warnings_in_brief(self.explanation)
        if target is not None:
            reason = warning(self.explanation, target)
            lines = [f"{self.explanation.output[target].text!r} {reason}"] if reason else []
        for line in lines:
            yield Text.assemble(("warning: ", "bold yellow"), line)

    def _output_label(self, target: int) -> str:
        return self.labels[len(self.explanation.input) + target]

    def _probability(self, target: int) -> str:
        value = probability(self.explanation.output[target])
        return f"probability {value}" if value else ""


def _broken(text: str) -> str:
    """Newlines and tabs get a mark, so that there is something to shade."""
    return text.replace("\t", TAB + "   ").replace("\n", NEWLINE + "\n")


def _level(weight: float) -> int:
    return round(weight * (len(SHADES) - 1))


def _margins(text: str) -> tuple[str, str, str]:
    """The spaces before a word, the word, the spaces after it: only the word is shaded or marked."""
    body = text.strip() or text
    before, _, after = text.partition(body)
    return before, body, after


def _bar(share: float) -> str:
    eighths = round(share * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
