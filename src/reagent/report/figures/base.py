"""The sheet that every figure is drawn on, and what becomes of it: PNG, SVG, and SVG inside a page.

Colours are few and have names, so that inside a page they can follow its light or dark ground.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from reagent.report.contents import Drawing
from reagent.views.plots import COLOUR, DPI, find_fonts, replace_missing_glyphs, require_matplotlib
from reagent.views.text import sanitize, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, EDGE, GROUND = "#1b1d22", "#5a606c", "#d5d8de", "#ffffff"
OTHERS = "#7d8798"  # bars of what is not ReAGent
LINES = (COLOUR, "#2f86c9", "#1f9d78", "#c06fa5", "#a08a1f", "#8f7ae0")
VARIABLES = {INK: "var(--text)", QUIET: "var(--quiet)", EDGE: "var(--edge)", GROUND: "var(--ground)"}
NAME_LENGTH = 34


@dataclass(frozen=True)
class Sheet:
    """A figure in the making, and the letters that it can show."""

    figure: "Figure"
    families: list[str] = field(repr=False)
    drawable: frozenset[int] = field(repr=False)

    def style(self, size: float = 8) -> dict[str, Any]:
        # A dollar sign in a name is a dollar sign, not a formula.
        return {"fontfamily": self.families, "fontsize": size, "parse_math": False, "usetex": False}

    def words(self, text: str, length: int = NAME_LENGTH) -> str:
        return replace_missing_glyphs(shorten(" ".join(sanitize(text).split()), length), self.drawable)

    def tidy(self, axes: "Axes") -> None:
        """No box around the picture, and quiet ticks."""
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(EDGE)
        axes.tick_params(labelsize=8, colors=INK, color=EDGE)
        axes.set_facecolor("none")

    def settle(self) -> None:
        """Lay it out now: what comes later moves nothing, and two files need it once."""
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")

    def drawing(self, id: str, title: str, caption: str) -> Drawing:
        """The finished figure, the same bytes for the same content."""
        picture, text = BytesIO(), StringIO()
        self.settle()
        with _settings(id):
            self.figure.savefig(picture, format="png", dpi=DPI, facecolor=GROUND, metadata={"Software": None})
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            self.figure.savefig(text, format="svg", facecolor=GROUND, metadata=nothing)
        return Drawing(id, title, caption, picture.getvalue(), text.getvalue())


def sheet(width: float, height: float) -> Sheet:
    """An empty figure of so many inches."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: pyplot and its backend stay as they are
    return Sheet(figure, *_fonts())


def inline(drawing: Drawing) -> str:
    """The SVG as a part of a page: without what is for files alone, with the page's colours, and named."""
    body = drawing.svg[drawing.svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'^<svg[^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', body, flags=re.DOTALL)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, variable)
    # Ids are the page's: two figures may have the same.
    body = re.sub(r'\bid="([^"]+)"', rf'id="{drawing.id}-\1"', body)
    return re.sub(r'(xlink:href="#|url\(#)', rf"\1{drawing.id}-", body)


def colour_of(method: str) -> str:
    return COLOUR if method == "reagent" else OTHERS


@cache
def _fonts() -> tuple[list[str], frozenset[int]]:
    return find_fonts()


@contextmanager
def _settings(salt: str) -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "path"}):
        yield
