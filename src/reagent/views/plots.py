"""An explanation as a PNG file: bars for one output token, a heat map for several."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import category

import numpy as np

from reagent.atomic_io import atomic_write
from reagent.errors import InputError
from reagent.explanation import Explanation, Rows
from reagent.views.summary import (
    LISTED,
    PLACES,
    Line,
    chances,
    context_noun,
    facts,
    open_places,
    outline,
    question,
    shown_row,
    warning,
    warnings_in_brief,
    what_if,
)
from reagent.views.text import all_labels, label, shortened, template

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

DPI = 150
WIDTHS, HEIGHTS = (6.0, 24.0), (3.2, 16.0)  # inches; the figure grows with its tokens between these
LABEL_WIDTH, LETTER_WIDTH, NOTE_HEIGHT = 0.22, 0.065, 0.15  # inches that a label, a letter, a line of the notes need
LABEL_LENGTH = 16
LONG_LABEL_LENGTH = 40  # of sentences and what else is longer than a word
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
    """Draw output token `target`, or the one that was asked about, or all, and write the picture to `path`."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not explanation.output:
        raise InputError("there is nothing to plot: this explanation has no output token")
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: pyplot and its backend stay as they are
    plot = _Plot(explanation, *fonts())
    row = shown_row(explanation, target)
    if row is None:
        plot.heat_map(figure)
    else:
        plot.bars(figure, row)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return atomic_write(path, buffer.getvalue())


def require_matplotlib() -> None:
    """Say in one line what to install, before any work is done for a picture that cannot be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise InputError(
            "a PNG picture needs matplotlib, which is not installed; run: pip install 'reagent-lm[plots]'"
        ) from error


class _Row(NamedTuple):
    """What is drawn of one output token, for each context token; without errors, their lists are empty."""

    names: list[str]
    scores: list[float]
    effects: list[float]
    errors: list[float]
    places: list[str]  # the places that it may have, if several


@dataclass(frozen=True)
class _Plot:
    explanation: Explanation
    families: Sequence[str]
    drawable: frozenset[int]

    def bars(self, figure: "Figure", target: int) -> None:
        """One output token: scores as bars in the order of the text, and effects with their errors."""
        row = self._row(target)
        if self._is_wordy():
            self._draw_lying(figure, row)
        else:
            self._draw_upright(figure, row)
        for panel in figure.axes:
            panel.spines[["top", "right"]].set_visible(False)
            panel.tick_params(labelsize=8)
        title = f"{_plain(question(self.explanation, target))}  {chances(self.explanation, target)}".strip()
        self._title(figure, title, *self._notes(target), PLACES if any(row.places) else "")

    def _draw_upright(self, figure: "Figure", row: "_Row") -> None:
        """The bars over their labels, the effects below: for short labels."""
        at = range(len(row.names))
        figure.set_size_inches(_between(WIDTHS, 1.5 + LABEL_WIDTH * len(at)), 5.5 if row.errors else 4.0)
        panels = figure.subplots(2 if row.errors else 1, 1, sharex=True, squeeze=False)[:, 0]
        panels[0].bar(at, row.scores, color=COLOUR)
        panels[0].margins(y=0.12)  # room for the places over the bars
        panels[0].set_ylabel("score", **self._style())
        for x, (score, text) in enumerate(zip(row.scores, row.places, strict=True)):
            panels[0].text(x, score, f" {text}", rotation=90, ha="center", va="bottom", color=QUIET, **self._style(6))
        if row.errors:
            panels[1].axhline(0, color="0.6", linewidth=0.8)
            panels[1].errorbar(at, row.effects, yerr=row.errors, fmt=".", color="0.15", linewidth=1)
            panels[1].set_ylabel(self._effect_label(), **self._style())
        panels[-1].set_xlim(-0.8, len(at) - 0.2)
        self._label(panels[-1].xaxis, row.names, row.scores, figure.get_figwidth() - 1, rotation=90)

    def _draw_lying(self, figure: "Figure", row: "_Row") -> None:
        """The bars beside their labels, from top to bottom: for sentences and whatever else is long."""
        at = range(len(row.names))
        figure.set_size_inches(10.0 if row.errors else 7.0, _between(HEIGHTS, 1.5 + LABEL_WIDTH * len(at)))
        panels = figure.subplots(1, 2 if row.errors else 1, sharey=True, squeeze=False)[0]
        panels[0].barh(at, row.scores, color=COLOUR)
        panels[0].margins(x=0.12)
        panels[0].set_xlabel("score", **self._style())
        for y, (score, text) in enumerate(zip(row.scores, row.places, strict=True)):
            panels[0].text(score, y, f" {text}", va="center", color=QUIET, **self._style(6))
        if row.errors:
            panels[1].axvline(0, color="0.6", linewidth=0.8)
            panels[1].errorbar(row.effects, at, xerr=row.errors, fmt=".", color="0.15", linewidth=1)
            panels[1].set_xlabel(self._effect_label(), **self._style())
        panels[0].set_ylim(len(at) - 0.2, -0.8)
        self._label(panels[0].yaxis, row.names, row.scores, figure.get_figheight() - 1)

    def _row(self, target: int) -> "_Row":
        why, names, allowed = self.explanation, self._names(), open_places(self.explanation, target)
        listed = {row.position for row in why.top(LISTED, target) if row.score > 0}
        drawn = self._shown_context(target)

        def shown(rows: Rows | None) -> list[float]:
            return [] if rows is None else [rows[target][i] for i in drawn]

        return _Row(
            names=[names[i] for i in drawn],
            scores=shown(why.scores),
            effects=shown(why.effects),
            errors=shown(why.stderr if why.effects else None),
            places=[allowed[i] if i in listed else "" for i in drawn],
        )

    def _notes(self, target: int) -> Iterator[str]:
        why = self.explanation
        if warning(why, target):
            yield f"Warning: this output {warning(why, target)}"
        for noun, rows in outline(why, target):
            named = (f"{shortened(label(row.token), LONG_LABEL_LENGTH)} {row.score:.2f}" for row in rows)
            yield f"By {noun}: {', '.join(named)}"
        for _, line in what_if(why, target):
            yield _plain(line)

    def heat_map(self, figure: "Figure") -> None:
        """All output tokens: a row for each, a column for each context token."""
        why, names = self.explanation, self._names()
        drawn = self._shown_context(len(why.output) - 1)
        cells = np.full((len(why.output), len(why.scores[-1])), np.nan)
        for row, scores in zip(cells, why.scores, strict=True):
            row[: len(scores)] = scores
        cells = cells[:, drawn]
        rows, columns = cells.shape
        width = _between(WIDTHS, 3 + LABEL_WIDTH * columns)
        context = [names[i] for i in drawn]
        figure.set_size_inches(width, _between(HEIGHTS, 2 + LABEL_WIDTH * rows + _room_for(context)))
        axes = figure.subplots()
        # What comes after a token cannot have led to it: those cells are empty and show the hatching.
        axes.patch.set(facecolor="white", hatch="////", edgecolor="0.85")
        image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap=COLOURS, vmin=0)
        bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
        bar.set_label("score", **self._style())
        bar.ax.tick_params(labelsize=8)
        self._label(axes.xaxis, context, np.nanmax(cells, axis=0).tolist(), width - 3, rotation=90)
        shown = range(0, rows, _step(rows, figure.get_figheight() - 2))
        axes.set_yticks(shown, [names[len(why.input) + row] for row in shown], **self._style())
        warnings = [f"Warning: {line}" for line in warnings_in_brief(why)]
        self._title(figure, "Rows: output tokens. Columns: what led to them.", *warnings)

    def _shown_context(self, target: int) -> list[int]:
        """The context of an output token without what a chat's template adds."""
        hidden = template(self.explanation)
        return [i for i in range(len(self.explanation.context(target))) if i not in hidden]

    def _label(
        self, axis: "Axis", names: Sequence[str], weights: Sequence[float], room: float, rotation: int = 0
    ) -> None:
        """As many names as there is room for, in inches."""
        shown = _worth_a_label(weights, _step(len(weights), room))
        axis.set_ticks(shown, labels=[names[i] for i in shown], rotation=rotation, **self._style())

    def _effect_label(self) -> str:
        unit = self.explanation.effect_unit
        return self._drawn(f"effect ± stderr ({unit})" if unit else "effect ± stderr")

    def _title(self, figure: "Figure", title: str, *notes: str) -> None:
        """What is shown, above; what to know about it and where it comes from, below."""
        source = " · ".join(f"{name} {value}" for name, value in facts(self.explanation))
        figure.suptitle(self._lines(figure, title, 10), **self._style(10))
        below = "\n".join(self._lines(figure, line, 7) for line in (*notes, source) if line)
        figure.set_figheight(figure.get_figheight() + NOTE_HEIGHT * below.count("\n"))
        figure.supxlabel(below, color=QUIET, linespacing=1.5, **self._style(7))

    def _lines(self, figure: "Figure", text: str, size: float) -> str:
        # Two lines at most: a long model name must not push the picture out of the figure.
        width = int(figure.get_figwidth() * 120 / size)
        return fill(self._drawn(shortened(text, 2 * width - LABEL_LENGTH)), width)

    def _is_wordy(self) -> bool:
        return context_noun(self.explanation) not in ("token", "word")

    def _names(self) -> list[str]:
        length = LONG_LABEL_LENGTH if self._is_wordy() else LABEL_LENGTH
        return [self._drawn(shortened(name, length)) for name in all_labels(self.explanation)]

    def _drawn(self, text: str) -> str:
        return drawn(text, self.drawable)

    def _style(self, size: float = 8) -> dict[str, Any]:
        # A dollar sign in a token is a dollar sign, not a formula.
        return {"fontfamily": list(self.families), "fontsize": size, "parse_math": False, "usetex": False}


def drawn(text: str, drawable: frozenset[int]) -> str:
    """The text without characters that no font has, which would warn and leave empty boxes."""
    known = (c if ord(c) in drawable else MISSING for c in text)
    return "".join(new for new, c in zip(known, text, strict=True) if new == c or category(c) not in ("Mn", "Cf"))


def fonts() -> tuple[list[str], frozenset[int]]:
    """The fonts to draw with, and every character that they have."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    families = [FONT, *(name for name in FALLBACK_FONTS if name in installed)]
    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in families]
    return families, frozenset(code for font in fonts for code in font.get_charmap())


def _plain(line: Line) -> str:
    return "".join(text for text, _ in line)


def _room_for(names: Iterable[str]) -> float:
    """Inches that the longest of the names needs more than a usual one."""
    return LETTER_WIDTH * max(0, max(map(len, names), default=0) - LABEL_LENGTH)


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
