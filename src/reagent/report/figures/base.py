"""The canvas that every figure is drawn on, and its rendering as PNG and SVG."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from reagent.report.contents import Figure
from reagent.views.plots import COLOUR, DPI, find_fonts, replace_missing_glyphs
from reagent.views.text import sanitize, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

# The HTML page replaces these four by its own colours, so that figures follow its light or dark background.
INK, MUTED, EDGE, BACKGROUND = "#1b1d22", "#5a606c", "#d5d8de", "#ffffff"
OTHER_METHODS = "#7d8798"
LINES = (COLOUR, "#2f86c9", "#1f9d78", "#c06fa5", "#a08a1f", "#8f7ae0")
NAME_LENGTH = 34


@dataclass(frozen=True)
class Canvas:
    """A figure that is being drawn, and the characters that its fonts have."""

    figure: "MatplotlibFigure"
    families: list[str] = field(repr=False)
    drawable: frozenset[int] = field(repr=False)

    def font(self, size: float = 8) -> dict[str, Any]:
        # Dollar signs in names must not start a formula.
        return {"fontfamily": self.families, "fontsize": size, "parse_math": False, "usetex": False}

    def name(self, text: str, length: int = NAME_LENGTH) -> str:
        """The text in one line, shortened, with only characters that can be drawn."""
        return replace_missing_glyphs(shorten(" ".join(sanitize(text).split()), length), self.drawable)

    def style_axes(self, axes: "Axes") -> None:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(EDGE)
        axes.tick_params(labelsize=8, colors=INK, color=EDGE)
        axes.set_facecolor("none")

    def freeze_layout(self) -> None:
        """Compute the layout once, for both files. Later drawing does not move anything."""
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")

    def render(self, id: str, title: str, caption: str) -> Figure:
        """The finished figure. The same content gives the same bytes."""
        png, svg = BytesIO(), StringIO()
        self.freeze_layout()
        with _reproducible_svg(id):
            self.figure.savefig(png, format="png", dpi=DPI, facecolor=BACKGROUND, metadata={"Software": None})
            no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            self.figure.savefig(svg, format="svg", facecolor=BACKGROUND, metadata=no_metadata)
        return Figure(id, title, caption, png.getvalue(), svg.getvalue())


def new_canvas(width: float, height: float) -> Canvas:
    """An empty canvas; width and height in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as MatplotlibFigure

    figure = MatplotlibFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # without pyplot, so that its global state does not change
    return Canvas(figure, *_fonts())


def method_colour(method: str) -> str:
    return COLOUR if method == "reagent" else OTHER_METHODS


@cache
def _fonts() -> tuple[list[str], frozenset[int]]:
    return find_fonts()


@contextmanager
def _reproducible_svg(salt: str) -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "path"}):
        yield
