"""Running text in the terminal: shaded by importance, or with brackets where colours are missing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from types import MappingProxyType

import regex
from rich.console import RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from reagent.views.text import NEWLINE, TAB, Kind, Piece, pieces_before, shorten, sum_weights

BAR_COLOUR = "#d97f12"
NO_MARKS: Mapping[int, str] = MappingProxyType({})
MAX_BRACKETED = 5  # the number of units in brackets, without colour
MIN_BRACKETED_SHARE = 0.2  # their minimum share of the largest score

LONG_TEXT = 1500  # characters; longer running text is abridged
MINOR_SHARE = 0.1  # units below this share of the largest score have no shade
MINOR_LENGTH, MAJOR_LENGTH = 120, 400  # characters kept of a run of minor units, and of one major unit

_LEADING_SPACES = regex.compile(r"(?:\s*(?!\p{M}))?")
_Totals = Mapping[tuple[int, ...], float]  # the sum of the weights of each piece, by its positions

# One hue of growing strength. Each shade sets its own text colour, because the terminal's background is unknown.
SHADES = (
    Style(),
    Style(color="#ffffff", bgcolor="#6b5f53"),
    Style(color="#ffffff", bgcolor="#86653f"),
    Style(color="#ffffff", bgcolor="#a0641e"),
    Style(color="#000000", bgcolor=BAR_COLOUR),
    Style(color="#000000", bgcolor="#ffa51f", bold=True),
)


@dataclass(frozen=True)
class Shading:
    """Renders the running text of an explanation, whose units are called `noun`."""

    pieces: Sequence[Piece]
    noun: str
    colour: bool

    def render_context(
        self, weights: Sequence[float], with_answer: bool = False, marks: Mapping[int, str] = NO_MARKS
    ) -> RenderableType:
        """Render the text that has weights, and the next token if `with_answer`; roles are beside their messages.

        `marks` are written after the units at their positions.
        """
        pieces, totals = pieces_before(len(weights), self.pieces), self._total_weights(weights)
        answer = self.pieces[len(pieces)].text if with_answer else ""
        starts = [i for i, piece in enumerate(pieces) if piece.kind is Kind.ROLE]
        if not starts:
            return _append_answer(self._render_text(pieces, totals, marks), answer)
        grid = Table.grid("", "", padding=(0, 2))
        for start, stop in pairwise((*starts, len(pieces))):
            text = self._render_text(pieces[start + 1 : stop], totals, marks)
            if stop == len(pieces):
                text = _append_answer(text, answer)
            if text:
                grid.add_row(Text(pieces[start].text, style="dim"), text)
        return grid

    def legend(self, weights: Sequence[float]) -> Text:
        """Describe the scale of one text."""
        totals = self._total_weights(weights)
        positions = max(totals, key=totals.__getitem__, default=())
        largest = f"{totals.get(positions, 0.0):.3f}"
        largest += f" of {len(positions)} {self.noun}s" if len(positions) > 1 else ""
        return self._legend(f"(largest score {largest})", largest)

    def shared_legend(self, owner: str) -> Text:
        """Describe the scales of several texts, where each `owner` has its own."""
        return self._legend(f"of each {owner}", f"largest of each {owner}")

    def _legend(self, brackets: str, largest: str) -> Text:
        if not self.colour:
            return Text(f"⟦ ⟧ strongest {self.noun}s {brackets}", style="dim")
        swatches = [("   ", shade) for shade in SHADES[1:]]
        return Text.assemble(("score 0 ", "dim"), *swatches, (f" {largest}", "dim"))

    def _total_weights(self, weights: Sequence[float]) -> _Totals:
        return sum_weights(pieces_before(len(weights), self.pieces), weights)

    def _render_text(self, pieces: Sequence[Piece], totals: _Totals, marks: Mapping[int, str]) -> Text:
        largest = max(totals.values(), default=0.0) or 1.0
        order = sorted(totals, key=lambda positions: -totals[positions])
        least = MIN_BRACKETED_SHARE * largest
        bracketed = {positions for positions in order[:MAX_BRACKETED] if totals[positions] >= least}
        text = Text()
        for piece in self._abridge(pieces, totals, marks):
            head, body, tail = split_margins(piece.text)
            mark = join_marks(piece, marks)
            if mark and body.endswith("\n"):
                body, tail = body[:-1], "\n" + tail  # the mark is on the line of its unit
            style: Style | str = "dim" if piece.kind is Kind.SPECIAL else ""
            if piece.positions and self.colour:
                style = SHADES[_shade_index(totals[piece.positions] / largest)] or style
            elif piece.positions in bracketed:
                body = f"⟦{body}⟧"
            text.append(head).append(body, style=style).append(mark, style="bold").append(tail)
        return text

    def _abridge(self, pieces: Sequence[Piece], totals: _Totals, marks: Mapping[int, str]) -> Iterable[Piece]:
        """Shorten the passages between the important units if the text is long."""
        if sum(len(piece.text) for piece in self.pieces) < LONG_TEXT:
            return pieces
        least = MINOR_SHARE * (max(totals.values(), default=0.0) or 1.0)

        def is_major(piece: Piece) -> bool:
            return totals.get(piece.positions, 0.0) >= least or bool(join_marks(piece, marks))

        abridged: list[Piece] = []
        for major, group in groupby(pieces, key=is_major):
            if major:
                abridged += (replace(piece, text=shorten(piece.text, MAJOR_LENGTH)) for piece in group)
            else:
                abridged.append(Piece(shorten("".join(piece.text for piece in group), MINOR_LENGTH), Kind.GAP, ()))
        return abridged


def render_template(text: str) -> Iterator[RenderableType]:
    """Render the text that a chat template adds in one line, so that a reader knows of it."""
    if text:
        line = "template: " + text.replace("\n", NEWLINE)
        yield Padding(Text(line, style="dim", no_wrap=True, overflow="ellipsis"), (1, 2, 0, 2))


def join_marks(piece: Piece, marks: Mapping[int, str]) -> str:
    """Join the different marks of the tokens of a piece."""
    return "".join(dict.fromkeys(marks[i] for i in piece.positions if i in marks))


def _append_answer(text: Text, answer: str) -> Text:
    if not answer:
        return text
    shown = _mark_line_breaks(answer).strip(" ")
    return text.append(" ▸ " if text else "▸ ", style="dim").append(shown, style="bold underline")


def split_margins(text: str) -> tuple[str, str, str]:
    """Split into the spaces before a word, the word, and the spaces after it; only the word is shaded.

    A space with a combining mark is part of the word.
    """
    if not text.strip():
        return "", _mark_line_breaks(text), ""
    head = _LEADING_SPACES.match(text)[0]
    body = text[len(head) :].rstrip()
    return head, _mark_line_breaks(body), text[len(head) + len(body) :]


def _mark_line_breaks(text: str) -> str:
    """Add marks to tabs, and to newlines in a text of whitespace, so that the shade is visible."""
    shown = text if text.strip() else text.replace("\n", NEWLINE + "\n")
    return shown.replace("\t", TAB + "   ")


def _shade_index(weight: float) -> int:
    return round(weight * (len(SHADES) - 1))
