"""Bar charts of log ratios to random."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from reagent.report.analysis import (
    METRIC_NAMES,
    EntryResult,
    MetricFamily,
    ResultIndex,
    index_results,
    metric_title,
    preferred_measures,
)
from reagent.report.contents import Figure, Missing, file_stem
from reagent.report.figures.base import EDGE, INK, MUTED, Canvas, method_colour, new_canvas
from reagent.report.load import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_WIDTH, BAR_HEIGHT, HEAD = 3.4, 0.24, 0.75  # inches
PALE = 0.35  # opacity of bars that are not significant


def bar_figures(run: Run, results: Sequence[EntryResult], family: MetricFamily) -> Iterator[Figure | Missing]:
    """One figure for each dataset: a row of panels for each model, a panel for each metric."""
    measures, index = preferred_measures(results), index_results(results)
    metrics = [name for name in family.metrics if name in measures]
    for dataset in run.datasets if metrics else ():
        chosen = {k: r for k, r in index.items() if k[1] == dataset and k[3] in metrics and r.log_ratio is not None}
        if chosen:
            yield _bar_figure(run, dataset, metrics, family.id, chosen)
        else:
            names = " and ".join(METRIC_NAMES[name] for name in metrics)
            yield Missing(f"Bars of {names} on {dataset}", "no entry has a log ratio")


def _bar_figure(run: Run, dataset: str, metrics: Sequence[str], id: str, index: ResultIndex) -> Figure:
    models = [model for model in run.models if any(key[0] == model for key in index)]
    labels = [label for label in run.labels if any(key[2] == label for key in index)]
    partial = {result.label for result in index.values() if result.is_partial}
    height = HEAD + len(models) * (0.45 + BAR_HEIGHT * len(labels))
    canvas = new_canvas(1.2 + PANEL_WIDTH * len(metrics), max(2.2, height))
    panels = canvas.figure.subplots(len(models), len(metrics), sharex="col", sharey=True, squeeze=False)
    for i, model in enumerate(models):
        for j, metric in enumerate(metrics):
            by_label = {label: index.get((model, dataset, label, metric)) for label in labels}
            _draw_panel(canvas, panels[i, j], by_label)
            if i == 0:
                panels[i, j].set_title(canvas.name(metric_title(metric)), color=INK, **canvas.font(9))
        names = [canvas.name(f"{label} †" if label in partial else label) for label in labels]
        panels[i, 0].set_yticks(range(len(labels)), names, **canvas.font())
        if len(models) > 1:
            name = canvas.name(run.short_name(model))
            panels[i, -1].set_ylabel(name, rotation=270, labelpad=14, color=MUTED, **canvas.font(9))
            panels[i, -1].yaxis.set_label_position("right")
    panels[0, 0].set_ylim(len(labels) - 0.4, -0.6)
    for panel in panels[-1]:
        panel.set_xlabel("log ratio to random", color=MUTED, **canvas.font())
    level = next(iter(index.values())).level
    return canvas.render(
        f"{level}_{file_stem(dataset)}_{id}",
        f"{level.capitalize()} level: {' and '.join(METRIC_NAMES[name] for name in metrics)} on {dataset}",
        f"{level.capitalize()}-level faithfulness on {dataset} ({', '.join(map(run.short_name, models))}): log ratio "
        "to random with 95 % bootstrap intervals over examples. Bars are pale if p > .05 in the Wilcoxon test."
        + (" †: on fewer examples." if partial else "")
        + (" Diamonds: the numbers of the paper." if any(r.paper_log_ratio for r in index.values()) else ""),
    )


def _draw_panel(canvas: Canvas, axes: "Axes", results: Mapping[str, EntryResult | None]) -> None:
    axes.axvline(0, color=MUTED, linewidth=0.8)
    axes.xaxis.grid(True, color=EDGE, linewidth=0.6)
    axes.set_axisbelow(True)
    for y, result in enumerate(results.values()):
        if result is None or result.log_ratio is None:
            axes.text(0, y, " –", va="center", color=MUTED, **canvas.font())
            continue
        value, (_, low, high) = result.log_ratio, result.comparison.log_ratio
        alpha = 1.0 if result.significant else PALE
        axes.barh(y, value, height=0.7, color=method_colour(result.method), alpha=alpha)
        ends = [value if low is None else low, value if high is None else high]
        axes.plot(ends, [y, y], color=INK, linewidth=1, solid_capstyle="butt")
        if result.paper_log_ratio:
            axes.plot(result.paper_log_ratio.value, y, "D", markersize=4, markerfacecolor="none", markeredgecolor=INK)
    canvas.style_axes(axes)
    axes.tick_params(axis="y", length=0)
