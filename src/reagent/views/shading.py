"""Running text in the terminal: shaded by importance, or with brackets where there are no colours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from rich.console import RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from reagent.views.text import NEWLINE, TAB, Kind, Piece, before, shortened

BAR_COLOUR = "#d97f12"
MARKED = 5  # without colour, so many tokens get brackets,
MARKED_FROM = 0.2  # if they have this share of the largest score

LONG = 1500  # characters of running text, from which on it is cut short
QUIET_BELOW = 0.1  # of the largest score: no shade
QUIET_LENGTH, LOUD_LENGTH = 120, 400  # characters that then remain of a quiet stretch, and of one loud unit

# One hue, growing in strength. Each shade sets its own text colour, since nobody knows the terminal's background.
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
    """The running text of an explanation; `noun` is what it was cut into."""

    pieces: Sequence[Piece]
    noun: str
    colour: bool

    def context(self, weights: Sequence[float], with_answer: bool = False) -> RenderableType:
        """The text as far as there are weights, then what was said there; messages stand beside their roles."""
        pieces = before(len(weights), self.pieces)
        answer = self.pieces[len(pieces)].text if with_answer else ""
        starts = [i for i, piece in enumerate(pieces) if piece.kind is Kind.ROLE]
        if not starts:
            return _answered(self._text(pieces, weights), answer)
        grid = Table.grid("", "", padding=(0, 2))
        for start, stop in pairwise((*starts, len(pieces))):
            text = self._text(pieces[start + 1 : stop], weights)
            if stop == len(pieces):
                text = _answered(text, answer)
            if text:
                grid.add_row(Text(pieces[start].text, style="dim"), text)
        return grid

    def legend(self, weights: Sequence[float]) -> Text:
        largest = f"{max(weights, default=0.0):.3f}"
        return self._legend(f"(largest score {largest})", largest)

    def shared_legend(self, owner: str) -> Text:
        """For several texts, each of which has its own scale."""
        return self._legend(f"of each {owner}", f"largest of each {owner}")

    def _legend(self, brackets: str, largest: str) -> Text:
        if not self.colour:
            return Text(f"⟦ ⟧ strongest {self.noun}s {brackets}", style="dim")
        swatches = [("   ", shade) for shade in SHADES[1:]]
        return Text.assemble(("score 0 ", "dim"), *swatches, (f" {largest}", "dim"))

    def _text(self, pieces: Sequence[Piece], weights: Sequence[float]) -> Text:
        largest = max(weights, default=0.0) or 1.0
        order = sorted(range(len(weights)), key=lambda i: -weights[i])
        marked = {i for i in order[:MARKED] if weights[i] >= MARKED_FROM * largest and weights[i] > 0}
        text = Text()
        for piece in self._brief(pieces, weights, largest):
            head, body, tail = margins(piece.text)
            style: Style | str = "dim" if piece.kind is Kind.SPECIAL else ""
            if piece.position is not None and self.colour:
                style = SHADES[_level(weights[piece.position] / largest)] or style
            elif piece.position in marked:
                body = f"⟦{body}⟧"
            text.append(head).append(body, style=style).append(tail)
        return text

    def _brief(self, pieces: Sequence[Piece], weights: Sequence[float], largest: float) -> Iterable[Piece]:
        """The pieces; of a long text, what lies between the important ones only with its beginning and end."""
        if sum(len(piece.text) for piece in self.pieces) < LONG:
            return pieces

        def is_loud(piece: Piece) -> bool:
            return piece.position is not None and weights[piece.position] >= QUIET_BELOW * largest

        brief: list[Piece] = []
        for loud, run in groupby(pieces, key=is_loud):
            if loud:
                brief += (replace(piece, text=shortened(piece.text, LOUD_LENGTH)) for piece in run)
            else:
                brief.append(Piece(shortened("".join(piece.text for piece in run), QUIET_LENGTH), Kind.GAP, None))
        return brief


def _answered(text: Text, said: str) -> Text:
    if not said:
        return text
    return text.append(" ▸ " if text else "▸ ", style="dim").append(_broken(said).strip(" "), style="bold underline")


def margins(text: str) -> tuple[str, str, str]:
    """The spaces before a word, the word, the spaces after it: only the word is shaded or marked."""
    body = text.strip() or text
    head, _, tail = text.partition(body)
    return head, _broken(body), tail


def _broken(text: str) -> str:
    """Tabs get a mark, and newlines where there is nothing else, so that there is something to shade."""
    shown = text if text.strip() else text.replace("\n", NEWLINE + "\n")
    return shown.replace("\t", TAB + "   ")


def _level(weight: float) -> int:
    return round(weight * (len(SHADES) - 1))
