"""An explanation as a PNG file: bars for one output token, a heat map for several."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category

import numpy as np

from reagent.errors import InputError
from reagent.explanation import Explanation
from reagent.files import write_whole
from reagent.views.summary import LISTED, NOT_SETTLED, OPEN, facts, probability, unsettled, warning, warnings_in_brief
from reagent.views.text import cropped, labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 150
WIDTHS, HEIGHTS = (6.0, 24.0), (3.2, 16.0)  # inches; the figure grows with its tokens between these
LABEL_WIDTH = 0.22  # inches that one label needs
LABEL_LENGTH = 16
COLOUR, COLOURS, QUIET = "#e07b00", "Oranges", "0.35"
MISSING = "▯"

# The first comes with matplotlib; the others help it where they are installed.
FONT = "DejaVu Sans"
FALLBACK_FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "Noto Sans Arabic", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji", "Hiragino Sans", "PingFang SC", "Yu Gothic",
    "Microsoft YaHei", "Malgun Gothic", "Segoe UI Emoji", "Segoe UI Symbol", "Arial Unicode MS",
)  # fmt: skip


def save_png(explanation: Explanation, path: str | Path, target: int | None = None) -> Path:
    """Draw output token `target`, or all of them, and write the picture to `path`."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not explanation.output:
        raise InputError("there is nothing to plot: this explanation has no output token")
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: pyplot and its backend stay as they are
    plot = _Plot(explanation, *_fonts())
    if target is None and len(explanation.output) > 1:
        plot.heat_map(figure)
    else:
        context = explanation.context(target or 0)  # refuses a target that is not there
        plot.bars(figure, len(context) - len(explanation.input))
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return write_whole(path, buffer.getvalue())


def require_matplotlib() -> None:
    """Say in one line what to install, before any work is done for a picture that cannot be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise InputError(
            "a PNG picture needs matplotlib, which is not installed; run: pip install 'reagent-lm[plots]'"
        ) from error


@dataclass(frozen=True)
class _Plot:
    explanation: Explanation
    families: Sequence[str]
    drawable: frozenset[int]

    def bars(self, figure: "Figure", target: int) -> None:
        """One output token: scores as bars in the order of the text, effects with their errors below."""
        why = self.explanation
        scores, names = why.scores[target], self._names()
        count = len(scores)
        with_errors = why.effects is not None and why.stderr is not None
        figure.set_size_inches(_between(WIDTHS, 1.5 + LABEL_WIDTH * count), 5.5 if with_errors else 4.0)
        panels = figure.subplots(2 if with_errors else 1, sharex=True, squeeze=False)[:, 0]
        panels[0].bar(range(count), scores, color=COLOUR)
        panels[0].set_ylabel("score", **self._style())
        marked = self._mark_open(panels[0], target)
        if why.effects is not None and why.stderr is not None:
            effects, errors = why.effects[target], why.stderr[target]
            panels[1].axhline(0, color="0.6", linewidth=0.8)
            panels[1].errorbar(range(count), effects, errors, fmt=".", color="0.15", linewidth=1)
            unit = f" ({why.effect_unit})" if why.effect_unit else ""
            panels[1].set_ylabel(self._drawn(f"effect ± stderr{unit}"), **self._style())
        for panel in panels:
            panel.spines[["top", "right"]].set_visible(False)
            panel.tick_params(labelsize=8)
        panels[-1].set_xlim(-0.8, count - 0.2)
        self._label_axis(panels[-1], names, scores, figure.get_figwidth())
        said = probability(why.output[target])
        title = f"What led to {names[len(why.input) + target]}" + (f" (probability {said})" if said else "")
        note = f"Warning: this output token {warning(why, target)}" if warning(why, target) else ""
        self._title(figure, title, note, f"{OPEN} {NOT_SETTLED}" if marked else "")

    def _mark_open(self, axes: "Axes", target: int) -> bool:
        """Put a sign over the most important tokens whose place is not settled; whether there were any."""
        places = unsettled(self.explanation, target)
        rows = [
            row for row in self.explanation.top(LISTED, target) if row.score > 0 and places and places[row.position]
        ]
        for row in rows:
            axes.text(row.position, row.score, OPEN, ha="center", va="bottom", color=QUIET, **self._style())
        return bool(rows)

    def heat_map(self, figure: "Figure") -> None:
        """All output tokens: a row for each, a column for each context token."""
        why, names = self.explanation, self._names()
        rows, columns = len(why.output), len(why.scores[-1])
        cells = np.full((rows, columns), np.nan)
        for row, scores in zip(cells, why.scores, strict=True):
            row[: len(scores)] = scores
        width = _between(WIDTHS, 3 + LABEL_WIDTH * columns)
        figure.set_size_inches(width, _between(HEIGHTS, 2 + LABEL_WIDTH * rows))
        axes = figure.subplots()
        # What comes after a token cannot have led to it: those cells are empty and show the hatching.
        axes.patch.set(facecolor="white", hatch="////", edgecolor="0.85")
        image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap=COLOURS, vmin=0)
        bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
        bar.set_label("score", **self._style())
        bar.ax.tick_params(labelsize=8)
        self._label_axis(axes, names, np.nanmax(cells, axis=0).tolist(), width - 2)
        shown = range(0, rows, _step(rows, figure.get_figheight() - 2))
        axes.set_yticks(shown, [names[len(why.input) + row] for row in shown], **self._style())
        warnings = [f"Warning: {line}" for line in warnings_in_brief(why)]
        self._title(figure, "Rows: output tokens. Columns: what led to them.", *warnings)

    def _label_axis(self, axes: "Axes", names: Sequence[str], weights: Sequence[float], width: float) -> None:
        shown = _worth_a_label(weights, _step(len(weights), width - 1))
        axes.set_xticks(shown, [names[i] for i in shown], rotation=90, **self._style())

    def _title(self, figure: "Figure", title: str, *notes: str) -> None:
        """What is shown, above; what to know about it and where it comes from, below."""
        source = " · ".join(f"{name} {value}" for name, value in facts(self.explanation))
        figure.suptitle(self._line(figure, title, 10), **self._style(10))
        below = [self._line(figure, line, 7) for line in (*notes, source) if line]
        figure.supxlabel("\n".join(below), color=QUIET, linespacing=1.5, **self._style(7))

    def _line(self, figure: "Figure", text: str, size: float) -> str:
        # Each line is cropped: a long model name must not push the picture out of the figure.
        return self._drawn(cropped(text, int(figure.get_figwidth() * 120 / size)))

    def _names(self) -> list[str]:
        return [self._drawn(cropped(name, LABEL_LENGTH)) for name in labels(self.explanation)]

    def _drawn(self, text: str) -> str:
        """The text without characters that no font has, which would warn and leave empty boxes."""
        known = (c if ord(c) in self.drawable else MISSING for c in text)
        return "".join(new for new, c in zip(known, text, strict=True) if new == c or category(c) not in ("Mn", "Cf"))

    def _style(self, size: float = 8) -> dict[str, Any]:
        # A dollar sign in a token is a dollar sign, not a formula.
        return {"fontfamily": list(self.families), "fontsize": size, "parse_math": False, "usetex": False}


def _fonts() -> tuple[list[str], frozenset[int]]:
    """The fonts to draw with, and every character that they have."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    families = [FONT, *(name for name in FALLBACK_FONTS if name in installed)]
    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in families]
    return families, frozenset(code for font in fonts for code in font.get_charmap())


def _between(limits: tuple[float, float], size: float) -> float:
    return min(limits[1], max(limits[0], size))


def _step(count: int, inches: float) -> int:
    """How far apart labels must be, in tokens, so that they do not overlap."""
    return max(1, -(-count // max(1, int(inches / LABEL_WIDTH * 1.15))))


def _worth_a_label(weights: Sequence[float], step: int) -> list[int]:
    """Positions at least `step` apart, the largest weights first.

    >>> _worth_a_label([0.1, 0.5, 0.2, 0.0, 0.3], step=2)
    [1, 4]
    """
    shown: list[int] = []
    taken: set[int] = set()
    for position in sorted(range(len(weights)), key=lambda i: -weights[i]):
        if position not in taken:
            shown.append(position)
            taken.update(range(position - step + 1, position + step))
    return sorted(shown)
