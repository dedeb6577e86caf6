"""Bars of log ratios to random, and what faithfulness costs."""

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from reagent.metrics import METRICS
from reagent.report.analysis import NAMES, Family, Finding, MeanRatio, mean_log_ratios, measures, shown
from reagent.report.contents import Drawing, safe
from reagent.report.figures.base import EDGE, INK, QUIET, Sheet, colour_of, sheet
from reagent.report.load import Run
from reagent.report.tables.base import Missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_WIDTH, BAR_HEIGHT, HEAD = 3.4, 0.24, 0.75  # inches
NAME_SIZE = 7.5
PALE = 0.35  # how strong what is not significant is drawn


def bar_figures(run: Run, found: Sequence[Finding], family: Family) -> Iterator[Drawing | Missing]:
    """One figure for each dataset: a row of panels for each model, a panel for each metric."""
    have, at = measures(found), shown(found)
    metrics = [name for name in family.metrics if name in have]
    for dataset in run.datasets if metrics else ():
        chosen = {k: f for k, f in at.items() if k[1] == dataset and k[3] in metrics and f.log_ratio is not None}
        if chosen:
            yield _bars(run, dataset, metrics, family.id, chosen)
        else:
            names = " and ".join(NAMES[name] for name in metrics)
            yield Missing(f"Bars of {names} on {dataset}", "no entry has a log ratio there")


def _bars(
    run: Run, dataset: str, metrics: Sequence[str], id: str, at: dict[tuple[str, str, str, str], Finding]
) -> Drawing:
    models = [model for model in run.models if any(key[0] == model for key in at)]
    labels = [label for label in run.labels if any(key[2] == label for key in at)]
    level = next(iter(at.values())).level
    fewer = {finding.label for finding in at.values() if finding.is_partial}
    height = HEAD + len(models) * (0.45 + BAR_HEIGHT * len(labels))
    page = sheet(1.2 + PANEL_WIDTH * len(metrics), max(2.2, height))
    panels = page.figure.subplots(len(models), len(metrics), sharex="col", sharey=True, squeeze=False)
    for i, model in enumerate(models):
        for j, metric in enumerate(metrics):
            some = {
                label: at[model, dataset, label, metric] for label in labels if (model, dataset, label, metric) in at
            }
            _panel(page, panels[i, j], labels, some)
            if i == 0:
                panels[i, j].set_title(page.words(_title(metric)), color=INK, **page.style(9))
        names = [page.words(f"{label} †" if label in fewer else label) for label in labels]
        panels[i, 0].set_yticks(range(len(labels)), names, **page.style())
        if len(models) > 1:
            panels[i, -1].set_ylabel(
                page.words(run.short(model)), rotation=270, labelpad=14, color=QUIET, **page.style(9)
            )
            panels[i, -1].yaxis.set_label_position("right")
    panels[0, 0].set_ylim(len(labels) - 0.4, -0.6)
    for panel in panels[-1]:
        panel.set_xlabel("log ratio to random", color=QUIET, **page.style())
    shown_metrics = " and ".join(NAMES[name] for name in metrics)
    return page.drawing(
        f"{level}_{safe(dataset)}_{id}",
        f"{level.capitalize()} level: {shown_metrics} on {dataset}",
        f"{level.capitalize()}-level faithfulness on {dataset} ({', '.join(map(run.short, models))}): log ratio to "
        "random with 95 % bootstrap intervals over examples; pale where p > .05 in the Wilcoxon test"
        + ("; †: on fewer examples" if fewer else "")
        + ("; a diamond is the paper’s number." if any(f.published for f in at.values()) else "."),
    )


def _panel(page: Sheet, axes: "Axes", labels: Sequence[str], found: dict[str, Finding]) -> None:
    axes.axvline(0, color=QUIET, linewidth=0.8)
    axes.xaxis.grid(True, color=EDGE, linewidth=0.6)
    axes.set_axisbelow(True)
    for y, label in enumerate(labels):
        finding = found.get(label)
        if finding is None or finding.log_ratio is None:
            axes.text(0, y, " –", va="center", color=QUIET, **page.style())
            continue
        value, (_, low, high) = finding.log_ratio, finding.comparison.log_ratio
        alpha = 1.0 if finding.significant else PALE
        axes.barh(y, value, height=0.7, color=colour_of(finding.method), alpha=alpha)
        ends = [value if low is None else low, value if high is None else high]
        axes.plot(ends, [y, y], color=INK, linewidth=1, solid_capstyle="butt")
        if finding.published:
            axes.plot(finding.published.value, y, "D", markersize=4, markerfacecolor="none", markeredgecolor=INK)
    page.tidy(axes)
    axes.tick_params(axis="y", length=0)


def cost_figure(run: Run, found: Sequence[Finding]) -> Drawing | Missing:
    """Forward passes on a logarithmic axis against the log ratio, mean over models."""
    title = "Cost against faithfulness"
    have = measures(found)
    metrics = [name for name in ("soft_ns", "soft_nc", "comprehensiveness") if name in have][:3]
    passes = {label: mean(row.passes for row in run.rows if row.label == label) for label in run.labels}
    points = [
        [_Point(passes[label], ratio, label) for label, ratio in ratios.items() if passes[label] > 0]
        for ratios in (mean_log_ratios(run, found, metric) for metric in metrics)
    ]
    if not any(points):
        return Missing(title, "no entry has forward passes and a log ratio to random")
    from matplotlib.ticker import NullLocator

    page = sheet(1.0 + 3.8 * len(metrics), 4.2)
    panels = page.figure.subplots(1, len(metrics), squeeze=False)[0]
    for axes, metric, some in zip(panels, metrics, points, strict=True):
        axes.axhline(0, color=QUIET, linewidth=0.8)
        axes.grid(True, color=EDGE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xscale("log")
        for x, (y, method, is_partial), _ in some:
            colour = colour_of(method)
            axes.plot(x, y, "o", color=colour, markerfacecolor="none" if is_partial else colour, markersize=6)
        axes.margins(x=0.3, y=0.12)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else "")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(page.words(_title(metric)), color=INK, **page.style(9))
        axes.set_xlabel("forward passes for one example", color=QUIET, **page.style())
        page.tidy(axes)
    panels[0].set_ylabel("log ratio to random", color=QUIET, **page.style())
    page.settle()  # names are placed in pixels, which must no longer change
    for axes, some in zip(panels, points, strict=True):
        if some:
            _name_points(page, axes, some)
    free = [label for label, count in passes.items() if count == 0]
    return page.drawing(
        "cost",
        title,
        "Log ratio to random, mean over models and datasets, against the forward passes of the explained model for one "
        "example. Backward passes of gradient methods are not counted."
        + (" Hollow: on fewer examples than the others." if any(p.ratio.is_partial for p in chain(*points)) else "")
        + (f" Without any pass, and so not shown: {', '.join(free)}." if free else ""),
    )


class _Point(NamedTuple):
    passes: float
    ratio: MeanRatio
    label: str


def _name_points(page: Sheet, axes: "Axes", points: Sequence[_Point]) -> None:
    """A name beside each point, where it covers neither a point nor another name."""
    spots = axes.transData.transform([(p.passes, p.ratio.value) for p in points])  # pixels
    unit = page.figure.dpi / 72  # pixels of a point of type
    frame = axes.get_window_extent()
    taken = [_Box(x - 4 * unit, y - 4 * unit, 8 * unit, 8 * unit) for x, y in spots]
    for (x, y), point in zip(spots, points, strict=True):
        name = page.words(point.label)
        width, height = 0.58 * NAME_SIZE * unit * len(name), 1.15 * NAME_SIZE * unit
        places = [_Box(*place, width, height) for place in _around(x, y, width, height, 6 * unit)]
        inside = [b for b in places if frame.x0 <= b.left and b.left + width <= frame.x1 and frame.y0 <= b.bottom]
        box = min(inside or places, key=lambda b: (sum(b.covers(other) for other in taken), places.index(b)))
        taken.append(box)
        left, middle = axes.transData.inverted().transform((box.left, box.bottom + height / 2))
        colour = INK if point.ratio.method == "reagent" else QUIET
        axes.text(left, middle, name, va="center", color=colour, **page.style(NAME_SIZE))


class _Box(NamedTuple):
    """A part of the picture, in pixels."""

    left: float
    bottom: float
    width: float
    height: float

    def covers(self, other: "_Box") -> float:
        """The area that both share."""
        wide = min(self.left + self.width, other.left + other.width) - max(self.left, other.left)
        high = min(self.bottom + self.height, other.bottom + other.height) - max(self.bottom, other.bottom)
        return max(0.0, wide) * max(0.0, high)


def _around(x: float, y: float, width: float, height: float, gap: float) -> Iterator[tuple[float, float]]:
    """Where the name of a point may begin, the best places first."""
    for lines in (0, 1, -1, 2, -2, 3, -3):
        bottom = y - height / 2 + lines * height
        yield x + gap, bottom
        yield x - gap - width, bottom
        if lines:
            yield x - width / 2, bottom


def _title(metric: str) -> str:
    return NAMES[metric] if METRICS[metric].higher_is_better else f"{NAMES[metric]} (lower is better)"
