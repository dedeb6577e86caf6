"""An explanation as a PNG file: bars for the answer or one output token, and a heat map of the parts of the answer."""

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
from reagent.views.display import displayed, main_row, row_of, with_cut_marked
from reagent.views.groups import SufficiencyText, describe_sufficiency, group_captions, group_marks
from reagent.views.summary import (
    OPEN_RANKS_NOTE,
    TOP_COUNT,
    collect_warnings,
    context_noun,
    describe_probability,
    effect_heading,
    facts,
    open_ranks,
    plain_text,
    question_caption,
    row_warning,
    top_units_by_level,
    what_if_captions,
)
from reagent.views.text import all_labels, label, shorten, template_positions

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

DPI = 150
WIDTHS, HEIGHTS = (6.0, 24.0), (3.2, 16.0)  # inches; the figure grows with its tokens between these
LABEL_WIDTH, LETTER_WIDTH, NOTE_HEIGHT = 0.22, 0.065, 0.15  # inches for a label, a letter, a line of notes
TITLE_HEIGHT, MAX_WARNING_LINES = 0.17, 4  # inches for a line of the title; lines of a warning in it
LABEL_LENGTH = 16
LONG_LABEL_LENGTH = 40  # for sentences and other units that are longer than a word
COLOUR, COLOURS, QUIET, CAUTION = "#e07b00", "Oranges", "0.35", "#8a3200"
MISSING = "▯"

# The first is part of matplotlib. The others are used where they are installed.
FONT = "DejaVu Sans"
FALLBACK_FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "Noto Sans Arabic", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji", "Hiragino Sans", "PingFang SC", "Yu Gothic",
    "Microsoft YaHei", "Malgun Gothic", "Segoe UI Emoji", "Segoe UI Symbol", "Arial Unicode MS",
)  # fmt: skip


def save_png(explanation: Explanation, path: str | Path, target: int | None = None, unit: str | None = None) -> Path:
    """Draw output token `target`, or the requested one, or the answer as a whole, and write the figure to `path`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not explanation.output:
        raise InputError("there is nothing to plot: this explanation has no output token")
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)  # its own canvas leaves pyplot and its backend unchanged
    fonts = find_fonts()
    if target is not None:
        _Plot(with_cut_marked(explanation), *fonts).draw_bars(figure, row_of(explanation, target))
    else:
        shown = displayed(explanation, unit)
        main, row = main_row(shown)
        if main is shown:
            _Plot(main, *fonts).draw_bars(figure, row)
        else:
            _Plot(shown, *fonts).draw_answer(figure, _Plot(main, *fonts))
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return atomic_write(path, buffer.getvalue())


class _BarData(NamedTuple):
    """The values for each context token of one output token; the lists of missing values are empty."""

    names: list[str]
    scores: list[float]
    effects: list[float]
    errors: list[float]
    open_ranks: list[str]  # the ranks that the standard errors allow, if several


@dataclass(frozen=True)
class _Plot:
    """Draws an explanation with the font `families`, which have the code points `drawable`."""

    explanation: Explanation
    families: Sequence[str]
    drawable: frozenset[int]

    def draw_bars(self, figure: "Figure", target: int) -> None:
        """Draw one output token: scores as bars in the order of the text, and effects with their errors."""
        data = self._bar_data(target)
        if self._has_long_labels():
            self._draw_horizontal(figure, data)
        else:
            self._draw_vertical(figure, data)
        for panel in figure.axes:
            panel.spines[["top", "right"]].set_visible(False)
            panel.tick_params(labelsize=8)
        question = plain_text(question_caption(self.explanation, target))
        title = f"{question}  {describe_probability(self.explanation, target)}".strip()
        reason = row_warning(self.explanation, target)
        warning = f"Warning: this output {reason}" if reason else ""
        note = OPEN_RANKS_NOTE if any(data.open_ranks) else ""
        self._add_texts(figure, target, title, warning, *self._notes(target), note)

    def _draw_vertical(self, figure: "Figure", data: "_BarData") -> None:
        """Draw vertical bars above their labels, and the effects below them: for short labels."""
        at = range(len(data.names))
        figure.set_size_inches(_clip(WIDTHS, 1.5 + LABEL_WIDTH * len(at)), 5.5 if data.errors else 4.0)
        panels = figure.subplots(2 if data.errors else 1, 1, sharex=True, squeeze=False)[:, 0]
        panels[0].bar(at, data.scores, color=COLOUR)
        panels[0].margins(y=0.12)  # room for the ranks over the bars
        panels[0].set_ylabel("score", **self._style())
        for x, (score, ranks) in enumerate(zip(data.scores, data.open_ranks, strict=True)):
            panels[0].text(x, score, f" {ranks}", rotation=90, ha="center", va="bottom", color=QUIET, **self._style(6))
        if data.errors:
            panels[1].axhline(0, color="0.6", linewidth=0.8)
            panels[1].errorbar(at, data.effects, yerr=data.errors, fmt=".", color="0.15", linewidth=1)
            panels[1].set_ylabel(self._effect_label(data.errors), **self._style())
        panels[-1].set_xlim(-0.8, len(at) - 0.2)
        self._set_ticks(panels[-1].xaxis, data.names, data.scores, figure.get_figwidth() - 1, rotation=90)

    def _draw_horizontal(self, figure: "Figure", data: "_BarData") -> None:
        """Draw horizontal bars beside their labels, from top to bottom: for long labels."""
        at = range(len(data.names))
        figure.set_size_inches(10.0 if data.errors else 7.0, _clip(HEIGHTS, 1.5 + LABEL_WIDTH * len(at)))
        panels = figure.subplots(1, 2 if data.errors else 1, sharey=True, squeeze=False)[0]
        panels[0].barh(at, data.scores, color=COLOUR)
        panels[0].margins(x=0.12)
        panels[0].set_xlabel("score", **self._style())
        for y, (score, ranks) in enumerate(zip(data.scores, data.open_ranks, strict=True)):
            panels[0].text(score, y, f" {ranks}", va="center", color=QUIET, **self._style(6))
        if data.errors:
            panels[1].axvline(0, color="0.6", linewidth=0.8)
            panels[1].errorbar(data.effects, at, xerr=data.errors, fmt=".", color="0.15", linewidth=1)
            panels[1].set_xlabel(self._effect_label(data.errors), **self._style())
        panels[0].set_ylim(len(at) - 0.2, -0.8)
        self._set_ticks(panels[0].yaxis, data.names, data.scores, figure.get_figheight() - 1)

    def _bar_data(self, target: int) -> "_BarData":
        why, names, ranks = self.explanation, self._names(target), open_ranks(self.explanation, target)
        top = {row.position for row in why.top(TOP_COUNT, target) if row.score > 0}
        positions = self._shown_positions(target)

        def select(rows: Rows | None) -> list[float]:
            return [] if rows is None else [rows[target][i] for i in positions]

        return _BarData(
            names=[names[i] for i in positions],
            scores=select(why.scores),
            effects=select(why.effects),
            errors=select(why.stderr if why.effects else None),
            open_ranks=[ranks[i] if i in top else "" for i in positions],
        )

    def _notes(self, target: int) -> Iterator[str]:
        why = self.explanation
        yield from map(plain_text, group_captions(why, target))
        for noun, rows in top_units_by_level(why, target):
            units = (f"{shorten(label(row.token), LONG_LABEL_LENGTH)} {row.score:.2f}" for row in rows)
            yield f"By {noun}: {', '.join(units)}"
        for _, caption in what_if_captions(why, target):
            yield plain_text(caption)

    def draw_answer(self, figure: "Figure", whole: "_Plot") -> None:
        """Draw the answer as a whole as bars, and below them a row for each of its units."""
        why, names = self.explanation, self._names(None)
        positions = self._shown_positions(len(why.output) - 1)
        cells = np.full((len(why.output), len(why.scores[-1])), np.nan)
        for row, scores in zip(cells, why.scores, strict=True):
            row[: len(scores)] = scores
        cells = cells[:, positions]
        rows, columns = cells.shape
        width = _clip(WIDTHS, 3 + LABEL_WIDTH * columns)
        context = [names[i] for i in positions]
        figure.set_size_inches(width, _clip(HEIGHTS, 4 + LABEL_WIDTH * rows + _extra_label_height(context)))
        bars, axes = figure.subplots(2, 1, sharex=True, height_ratios=(2.0, max(1.0, LABEL_WIDTH * rows)))
        scores = whole.explanation.scores[0]
        bars.bar(range(columns), [scores[i] if i < len(scores) else 0.0 for i in positions], color=COLOUR)
        bars.set_ylabel("score, whole answer", **self._style())
        bars.spines[["top", "right"]].set_visible(False)
        bars.tick_params(labelsize=8)
        # A token depends only on earlier tokens. The other cells are empty and show the hatching.
        axes.patch.set(facecolor="white", hatch="////", edgecolor="0.85")
        image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap=COLOURS, vmin=0)
        bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
        bar.set_label("score", **self._style())
        bar.ax.tick_params(labelsize=8)
        self._set_ticks(axes.xaxis, context, np.nanmax(cells, axis=0).tolist(), width - 3, rotation=90)
        ticks = range(0, rows, _label_step(rows, figure.get_figheight() - 2))
        axes.set_yticks(ticks, [names[len(why.input) + row] for row in ticks], **self._style())
        question = plain_text(question_caption(whole.explanation, 0))
        title = f"{question}  {describe_probability(whole.explanation, 0)}".strip()
        lower = "Lower panel: the scores for each part of the answer."
        groups = map(plain_text, group_captions(why, None)) if why.answer is None else ()
        warnings = [f"Warning: {line}" for line in collect_warnings(why, None)]
        test = describe_sufficiency(why, None)
        whole._add_texts(figure, 0, title, *warnings, *whole._notes(0), *groups, lower, test=test)

    def _shown_positions(self, target: int) -> list[int]:
        """Return the context positions of an output token without those around its text."""
        why, hidden = self.explanation, template_positions(self.explanation)
        stop = len(why.input) if why.attributes == "prompt" else len(why.context(target))
        return [i for i in range(stop) if i not in hidden]

    def _set_ticks(
        self, axis: "Axis", names: Sequence[str], weights: Sequence[float], room: float, rotation: int = 0
    ) -> None:
        """Label as many positions as fit in `room` inches."""
        ticks = _choose_labelled(weights, _label_step(len(weights), room))
        axis.set_ticks(ticks, labels=[names[i] for i in ticks], rotation=rotation, **self._style())

    def _effect_label(self, errors: Sequence[float]) -> str:
        return self._drawable_text(effect_heading(self.explanation, errors))

    def _add_texts(
        self, figure: "Figure", target: int, title: str, *notes: str, test: SufficiencyText | None = None
    ) -> None:
        """Write the title above the figure, and the notes and the provenance below it.

        A failed sufficiency test is part of the title, so that it is read before the bars.
        """
        source = " · ".join(f"{name} {value}" for name, value in facts(self.explanation))
        test = describe_sufficiency(self.explanation, target) or test
        above, colour = [self._wrap(figure, title, 10)], "black"
        if test and test.passed:
            notes = (plain_text(test.caption), *notes)
        elif test:
            warning = self._wrap(figure, f"Warning: {plain_text(test.caption)}", 10, MAX_WARNING_LINES)
            above, colour = [*above, warning], CAUTION
            figure.set_figheight(figure.get_figheight() + TITLE_HEIGHT * (1 + warning.count("\n")))
        figure.suptitle("\n".join(above), color=colour, **self._style(10))
        below = "\n".join(self._wrap(figure, line, 7) for line in (*notes, source) if line)
        figure.set_figheight(figure.get_figheight() + NOTE_HEIGHT * below.count("\n"))
        figure.supxlabel(below, color=QUIET, linespacing=1.5, **self._style(7))

    def _wrap(self, figure: "Figure", text: str, size: float, lines: int = 2) -> str:
        # Few lines at most: a long model name must not push the plot out of the figure.
        width = int(figure.get_figwidth() * 120 / size)
        return fill(self._drawable_text(shorten(text, lines * width - LABEL_LENGTH)), width)

    def _has_long_labels(self) -> bool:
        return context_noun(self.explanation) not in ("token", "word")

    def _names(self, target: int | None) -> list[str]:
        """Return the short name of each token, with the marks of its groups for one output token."""
        length = LONG_LABEL_LENGTH if self._has_long_labels() else LABEL_LENGTH
        marks = group_marks(self.explanation, target)
        names = (shorten(name, length) + marks.get(i, "") for i, name in enumerate(all_labels(self.explanation)))
        return [self._drawable_text(name) for name in names]

    def _drawable_text(self, text: str) -> str:
        return replace_missing_glyphs(text, self.drawable)

    def _style(self, size: float = 8) -> dict[str, Any]:
        # A dollar sign in a token does not start a formula.
        return {"fontfamily": list(self.families), "fontsize": size, "parse_math": False, "usetex": False}


def replace_missing_glyphs(text: str, drawable: frozenset[int]) -> str:
    """Replace characters that no font has, because matplotlib warns about them; missing marks are dropped."""
    shown = (c if ord(c) in drawable else MISSING for c in text)
    return "".join(new for new, c in zip(shown, text, strict=True) if new == c or category(c) not in ("Mn", "Cf"))


def find_fonts() -> tuple[list[str], frozenset[int]]:
    """Return the font families to use, and all code points that they have."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    families = [FONT, *(name for name in FALLBACK_FONTS if name in installed)]
    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in families]
    return families, frozenset(code for font in fonts for code in font.get_charmap())


def _extra_label_height(names: Iterable[str]) -> float:
    """Return the inches that the longest name needs beyond a usual label."""
    return LETTER_WIDTH * max(0, max(map(len, names), default=0) - LABEL_LENGTH)


def _clip(limits: tuple[float, float], size: float) -> float:
    return min(limits[1], max(limits[0], size))


def _label_step(count: int, inches: float) -> int:
    """Return the distance in tokens at which labels do not overlap."""
    return max(1, -(-count // max(1, int(inches / LABEL_WIDTH * 1.15))))


def _choose_labelled(weights: Sequence[float], step: int) -> list[int]:
    """Choose positions at least `step` apart, the largest weights first.

    >>> _choose_labelled([0.1, 0.5, 0.2, 0.0, 0.3], step=2)
    [1, 4]
    """
    chosen: list[int] = []
    blocked: set[int] = set()
    for position in sorted(range(len(weights)), key=lambda i: -weights[i]):
        if position not in blocked:
            chosen.append(position)
            blocked.update(range(position - step + 1, position + step))
    return sorted(chosen)
