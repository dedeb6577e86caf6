"""Faithfulness against cost: log ratios to random over the number of forward passes."""

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from reagent.report.analysis import EntryResult, MeanLogRatio, mean_log_ratios, metric_title, preferred_measures
from reagent.report.contents import Figure, Missing
from reagent.report.figures.base import EDGE, INK, MUTED, Canvas, method_colour, new_canvas
from reagent.report.load import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS_SHOWN = ("soft_ns", "soft_nc", "comprehensiveness")
NAME_SIZE = 7.5
_TITLE = "Cost against faithfulness"


class _Point(NamedTuple):
    passes: float
    ratio: MeanLogRatio
    label: str


def cost_figure(run: Run, results: Sequence[EntryResult]) -> Figure | Missing:
    """Forward passes on a logarithmic axis against the log ratio, mean over models and datasets."""
    measures = preferred_measures(results)
    metrics = [name for name in METRICS_SHOWN if name in measures]
    passes = {label: mean(cell.passes for cell in run.cells if cell.label == label) for label in run.labels}
    points = [
        [_Point(passes[label], ratio, label) for label, ratio in ratios.items() if passes[label] > 0]
        for ratios in (mean_log_ratios(run, results, metric) for metric in metrics)
    ]
    if not any(points):
        return Missing(_TITLE, "no entry has forward passes and a log ratio to random")
    canvas = new_canvas(1.0 + 3.8 * len(metrics), 4.2)
    panels = canvas.figure.subplots(1, len(metrics), squeeze=False)[0]
    for axes, metric, of_metric in zip(panels, metrics, points, strict=True):
        _draw_panel(canvas, axes, metric, of_metric)
    panels[0].set_ylabel("log ratio to random", color=MUTED, **canvas.font())
    canvas.freeze_layout()  # names are placed in pixels, so the layout must not change any more
    for axes, of_metric in zip(panels, points, strict=True):
        if of_metric:
            _name_points(canvas, axes, of_metric)
    free = [label for label, count in passes.items() if count == 0]
    return canvas.render(
        "cost",
        _TITLE,
        "Log ratio to random, mean over models and datasets, against the forward passes of the explained model for one "
        "example. Backward passes of gradient methods are not counted."
        + (" Hollow: on fewer examples than the others." if any(p.ratio.is_partial for p in chain(*points)) else "")
        + (f" Methods without forward passes are not shown: {', '.join(free)}." if free else ""),
    )


def _draw_panel(canvas: Canvas, axes: "Axes", metric: str, points: Sequence[_Point]) -> None:
    from matplotlib.ticker import NullLocator

    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.grid(True, color=EDGE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xscale("log")
    for passes, ratio, _ in points:
        colour = method_colour(ratio.method)
        fill = "none" if ratio.is_partial else colour
        axes.plot(passes, ratio.value, "o", color=colour, markerfacecolor=fill, markersize=6)
    axes.margins(x=0.3, y=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else "")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(canvas.name(metric_title(metric)), color=INK, **canvas.font(9))
    axes.set_xlabel("forward passes for one example", color=MUTED, **canvas.font())
    canvas.style_axes(axes)


class _Box(NamedTuple):
    """A rectangle of the figure, in pixels."""

    left: float
    bottom: float
    width: float
    height: float

    def overlap(self, other: "_Box") -> float:
        """The area that both share."""
        width = min(self.left + self.width, other.left + other.width) - max(self.left, other.left)
        height = min(self.bottom + self.height, other.bottom + other.height) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)


def _name_points(canvas: Canvas, axes: "Axes", points: Sequence[_Point]) -> None:
    """Write the name of each point next to it, with as little overlap with points and other names as possible."""
    positions = axes.transData.transform([(p.passes, p.ratio.value) for p in points])  # pixels
    unit = canvas.figure.dpi / 72  # pixels per typographic point
    frame = axes.get_window_extent()
    taken = [_Box(x - 4 * unit, y - 4 * unit, 8 * unit, 8 * unit) for x, y in positions]
    for (x, y), point in zip(positions, points, strict=True):
        name = canvas.name(point.label)
        width, height = 0.58 * NAME_SIZE * unit * len(name), 1.15 * NAME_SIZE * unit
        boxes = [_Box(*corner, width, height) for corner in _name_corners(x, y, width, height, 6 * unit)]
        inside = [b for b in boxes if frame.x0 <= b.left and b.left + width <= frame.x1 and frame.y0 <= b.bottom]
        box = min(inside or boxes, key=lambda b: (sum(b.overlap(other) for other in taken), boxes.index(b)))
        taken.append(box)
        left, middle = axes.transData.inverted().transform((box.left, box.bottom + height / 2))
        colour = INK if point.ratio.method == "reagent" else MUTED
        axes.text(left, middle, name, va="center", color=colour, **canvas.font(NAME_SIZE))


def _name_corners(x: float, y: float, width: float, height: float, gap: float) -> Iterator[tuple[float, float]]:
    """Possible lower left corners of the name of a point, the preferred ones first."""
    for lines in (0, 1, -1, 2, -2, 3, -3):
        bottom = y - height / 2 + lines * height
        yield x + gap, bottom
        yield x - gap - width, bottom
        if lines:
            yield x - width / 2, bottom
