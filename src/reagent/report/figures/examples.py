"""Single examples explained by all methods: importance over the tokens, heat maps, shaded text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reagent.case import Mask
from reagent.report.contents import Figure, Missing, ShadedExample, ShadedText, file_stem
from reagent.report.examples import Example
from reagent.report.figures.base import EDGE, INK, LINES, MUTED, Canvas, method_colour, new_canvas
from reagent.views.plots import COLOUR, LABEL_WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def distribution_figure(examples: Sequence[Example]) -> Figure | Missing:
    """The importance of each token of one example, a panel for each method; the distractor is shaded."""
    title = "Importance distributions"
    if not examples:
        return Missing(title, "no explanation is recorded with its text")
    example = max(examples, key=lambda e: (e.distractor.any(), e.level == "token", len(e.scores)))
    count, labels = len(example.units), list(example.scores)
    canvas = new_canvas(_width(example), 1.5 + 0.62 * len(labels))
    panels = canvas.figure.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, label in zip(panels, labels, strict=True):
        for first, last in _stretches(example.distractor):
            axes.axvspan(first - 0.5, last + 0.5, color=EDGE, alpha=0.7, linewidth=0)
        axes.bar(range(count), example.scores[label], width=0.75, color=method_colour(example.methods[label]))
        axes.set_ylabel(canvas.name(label, 22), rotation=0, ha="right", va="center", color=INK, **canvas.font())
        axes.set_ylim(0, max(0.02, float(example.scores[label].max()) * 1.08))
        axes.locator_params(axis="y", nbins=2)
        canvas.style_axes(axes)
        axes.tick_params(axis="y", labelsize=6, colors=MUTED)
    _name_units(canvas, panels[-1], example)
    panels[-1].set_xlim(-0.8, count - 0.2)
    sentences = [f"{example.title}. Importance of each token of the prompt for {example.output}."]
    sentences += ["The distractor is shaded."] if example.distractor.any() else []
    sentences += ["The antecedent is coloured."] if example.antecedent.any() else []
    return canvas.render("distribution", title, " ".join([*sentences, "Each panel has its own scale."]))


def heat_map(example: Example) -> Figure:
    """Methods by tokens; each row has its own scale."""
    labels, count = list(example.scores), len(example.units)
    canvas = new_canvas(_width(example), 1.6 + 0.24 * len(labels))
    axes = canvas.figure.subplots()
    for y, label in enumerate(labels):
        scores = example.scores[label]
        shares = scores / (scores.max() or 1.0)
        visible = np.flatnonzero(shares > 0.004)
        # Opacity instead of colours that end in white, for pages with a dark background.
        colours = [(COLOUR, float(shares[x])) for x in visible]
        axes.broken_barh([(x - 0.5, 1) for x in visible], (y - 0.46, 0.92), facecolors=colours, linewidth=0)
    axes.set_yticks(range(len(labels)), [canvas.name(label) for label in labels], **canvas.font())
    for first, last in _stretches(example.distractor):
        axes.plot([first - 0.5, last + 0.5], [len(labels) - 0.42] * 2, color=MUTED, linewidth=2, clip_on=False)
    _name_units(canvas, axes, example)
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    canvas.style_axes(axes)
    axes.tick_params(length=0)
    _colour_unit_names(axes, example)
    sentences = [f"{example.title}: importance for {example.output}.", "Each row is scaled to its largest score."]
    sentences += ["The antecedent is coloured."] if example.antecedent.any() else []
    sentences += ["The line below marks the distractor."] if example.distractor.any() else []
    return canvas.render(f"heat_{_id(example)}", f"Heat map: {example.title}", " ".join(sentences))


def shade_example(example: Example) -> ShadedExample:
    """The prompt as running text, once for each method."""
    texts = []
    for label, scores in example.scores.items():
        totals = [float(scores[list(units)].sum()) for _, units in example.pieces]
        largest = max(totals, default=0.0) or 1.0
        pieces = tuple((text, total / largest) for (text, _), total in zip(example.pieces, totals, strict=True))
        texts.append(ShadedText(label, pieces))
    return ShadedExample(_id(example), example.title, f"▸ {example.output}", tuple(texts))


def _id(example: Example) -> str:
    model, dataset, name, seed = example.place
    return file_stem(f"{dataset}_{name}_{model}") + (f"_{seed}" if seed else "")


def _width(example: Example) -> float:
    return min(24.0, max(6.0, 2.6 + LABEL_WIDTH * len(example.units)))


def _name_units(canvas: Canvas, axes: "Axes", example: Example) -> None:
    count = len(example.units)
    step = max(1, -(-count // 100))
    named = range(0, count, step)
    axes.set_xticks(named, [canvas.name(example.units[i]) for i in named], rotation=90, **canvas.font())
    _colour_unit_names(axes, example)


def _colour_unit_names(axes: "Axes", example: Example) -> None:
    """The antecedent is coloured and bold, the distractor is muted."""
    for tick in axes.get_xticklabels():
        i = round(tick.get_position()[0])
        is_antecedent = 0 <= i < len(example.units) and bool(example.antecedent[i])
        tick.set_color(LINES[1] if is_antecedent else MUTED if example.distractor[i : i + 1].any() else INK)
        tick.set_fontweight("bold" if is_antecedent else "normal")


def _stretches(mask: Mask) -> list[tuple[int, int]]:
    """First and last index of each contiguous stretch of the mask."""
    indices = np.flatnonzero(mask)
    cuts = np.flatnonzero(np.diff(indices) > 1) + 1
    return [(int(run[0]), int(run[-1])) for run in np.split(indices, cuts) if len(run)]
