"""Faithfulness against the budget: steps of the published search, or probes of the fast preset.

Each step and each probe takes one forward pass.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reagent.methods.leave_one_out import LeaveOneOut
from reagent.metrics import METRICS
from reagent.metrics.statistics import Estimate
from reagent.report.analysis import (
    LDS,
    METRIC_NAMES,
    RATIO_FAMILIES,
    EntryResult,
    index_results,
    metric_title,
    preferred_measures,
)
from reagent.report.contents import Column, Figure, Missing, Table, TableCell
from reagent.report.figures.base import EDGE, INK, LINES, MUTED, Canvas, new_canvas
from reagent.report.load import CURVE_SETTINGS, CellSummary, Run
from reagent.report.tables.base import NOT_AVAILABLE, format_interval, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIN_POINTS = 4  # of a curve
PUBLISHED, FAST = "as published", "fast"
_TITLE = "Convergence"


def convergence_parts(run: Run, results: Sequence[EntryResult]) -> Iterator[Figure | Table | Missing]:
    """The curves, the budgets at equal faithfulness (with both algorithms), and the points of the curves."""
    points = _points(run, results)
    if not points:
        reason = f"no entry of ReAGent has {MIN_POINTS} or more budgets (steps or probes) with equal other settings"
        yield Missing(_TITLE, reason)
        return
    yield _draw(points)
    if {PUBLISHED, FAST} == {point["preset"] for point in points}:
        yield _equal_faithfulness_table(points)
    yield _point_table(points)


_Point = dict[str, Any]


def _draw(points: Sequence[_Point]) -> Figure:
    """A panel for each metric, a line for each series."""
    metrics = list(dict.fromkeys(point["metric"] for point in points))
    names = list(dict.fromkeys(point["series"] for point in points))
    columns = min(2, len(metrics))
    rows = -(-len(metrics) // columns)
    canvas = new_canvas(1.0 + 3.6 * columns, 0.6 + 2.6 * rows)
    panels = list(canvas.figure.subplots(rows, columns, squeeze=False, sharex=True).flat)
    for axes, metric in zip(panels, metrics, strict=False):
        _draw_panel(canvas, axes, metric, [point for point in points if point["metric"] == metric], names)
    for axes in panels[len(metrics) :]:
        axes.set_axis_off()
    for axes in panels[: len(metrics)][-columns:]:  # the last of each column
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("steps or probes", color=MUTED, **canvas.font())
    if len(names) > 1:
        handles, texts = panels[0].get_legend_handles_labels()
        columns = min(6, len(names))
        legend = canvas.figure.legend(
            handles, texts, loc="outside lower center", ncols=columns, frameon=False, fontsize=8
        )
        for text in legend.get_texts():
            text.set(color=INK, parse_math=False)
    caption = (
        "Log ratio to random (for LDS the mean correlation) against the budget: the maximum number of steps (as "
        "published) or the exact number of probes (fast), with 95 % bootstrap intervals over examples. Each step or "
        "probe takes one forward pass; a stopping test takes one more. "
        f"{names[0] if len(names) == 1 else f'{len(names)} series'}."
    )
    return canvas.render("convergence", _TITLE, caption)


def _draw_panel(canvas: Canvas, axes: "Axes", metric: str, points: Sequence[_Point], names: Sequence[str]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.grid(True, color=EDGE, linewidth=0.6)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(_ticks([point["budget"] for point in points])))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    for i, name in enumerate(names):
        line = [point for point in points if point["series"] == name]
        x, y = ([point[key] for point in line] for key in ("budget", "value"))
        low, high = (
            [point["value"] if point[end] is None else point[end] for point in line] for end in ("low", "high")
        )
        colour = LINES[i % len(LINES)]
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(x, y, "o-", color=colour, markersize=3.5, linewidth=1.4, label=canvas.name(name, 48))
    axes.set_title(canvas.name(metric_title(metric)), color=INK, **canvas.font(9))
    axes.set_ylabel(_quantity(metric), color=MUTED, **canvas.font())
    canvas.style_axes(axes)


def _ticks(budgets: Sequence[int]) -> list[int]:
    """Ticks for a logarithmic axis, doubling from the smallest budget.

    >>> _ticks([50, 100, 350])
    [50, 100, 200]
    """
    low, high = min(budgets), max(budgets)
    return [low * 2**i for i in range((high // low).bit_length())]


# --- the points ---


def _points(run: Run, results: Sequence[EntryResult]) -> list[_Point]:
    """One record for each point: series, metric, budget, value and its interval."""
    measures = preferred_measures(results)
    metrics = [name for family in (*RATIO_FAMILIES, LDS) for name in family.metrics if name in measures]
    index = index_results(results)
    series: dict[tuple[Any, ...], dict[int, str]] = defaultdict(dict)  # labels by budget
    for cell in run.cells:
        if (budget := _budget(cell)) is not None:
            preset = PUBLISHED if "max_steps" in cell.settings else FAST
            ignored = (*CURVE_SETTINGS, *_budget_settings(cell))
            rest = tuple(sorted((k, str(v)) for k, v in cell.settings.items() if k not in ignored))
            series[cell.model, cell.dataset, cell.replacer, preset, rest][budget] = cell.label
    series = {key: labels for key, labels in series.items() if len(labels) >= MIN_POINTS}
    names = _series_names(series)
    return [
        {
            "series": names[key],
            "model": key[0],
            "dataset": key[1],
            "replacer": key[2],
            "preset": key[3],
            "metric": metric,
            "budget": budget,
            "of": _quantity(metric),
            **_estimate(result)._asdict(),
        }
        for metric in metrics
        for key, labels in series.items()
        for budget, label in sorted(labels.items())
        for result in [index.get((key[0], key[1], label, metric))]
        if result is not None and _estimate(result).value is not None
    ]


def _budget(cell: CellSummary) -> int | None:
    """The maximum number of steps, or the number of probes, if it was recorded."""
    budget = cell.settings.get("max_steps", cell.settings.get("probes")) if cell.method == "reagent" else None
    return None if budget is None else int(budget)


def _budget_settings(cell: CellSummary) -> tuple[str, ...]:
    """Settings that vary with the budget: the number of probes, and the share that is derived from it."""
    probes = cell.settings.get("probes")
    is_derived = probes is not None and cell.settings.get("ratio") == LeaveOneOut(probes=probes).share_replaced
    return ("probes", "ratio") if is_derived else ("probes",)


def _estimate(result: EntryResult) -> Estimate:
    """The log ratio to random. A correlation has none; its mean is shown instead."""
    comparison = result.comparison
    return comparison.mean if comparison.metric in LDS.metrics else comparison.log_ratio


def _quantity(metric: str) -> str:
    return "mean correlation" if metric in LDS.metrics else "log ratio to random"


def _series_names(series: Mapping[tuple[Any, ...], object]) -> dict[tuple[Any, ...], str]:
    """Names made of the parts that differ between the series; equal names are numbered."""
    varied = [i for i in range(4) if len({key[i] for key in series}) > 1] or [2]
    names = {key: ", ".join(str(key[i]) for i in varied) for key in series}
    unique: dict[tuple[Any, ...], str] = {}
    for key, name in names.items():
        same = [other for other in names if names[other] == name]
        unique[key] = name if len(same) == 1 else f"{name} ({same.index(key) + 1})"
    return unique


# --- the tables ---


def _point_table(points: Sequence[_Point]) -> Table:
    names = ("series", "metric", "budget", "value")
    return Table(
        id="convergence",
        title=_TITLE,
        caption="The points of the curves: log ratio to random (for LDS the mean) at each number of steps or probes.",
        columns=(*(Column(name, is_number=name not in names[:2]) for name in names), Column("95 %")),
        rows=tuple(
            (
                TableCell(point["series"]),
                TableCell(METRIC_NAMES[point["metric"]]),
                TableCell(f"{point['budget']:,}"),
                TableCell(format_number(point["value"])),
                TableCell(format_interval(point["low"], point["high"]), muted=True),
            )
            for point in points
        ),
        records=tuple(points),
    )


def _equal_faithfulness_table(points: Sequence[_Point]) -> Table:
    """The budget that the published search needs to be as faithful as the fast preset with each of its budgets."""
    values: dict[tuple[str, ...], dict[tuple[str, int], float]] = defaultdict(dict)
    for point in points:
        place = tuple(point[name] for name in ("model", "dataset", "replacer", "metric"))
        values[place][point["preset"], point["budget"]] = point["value"]
    budgets = sorted({point["budget"] for point in points if point["preset"] == FAST})
    most = max(point["budget"] for point in points if point["preset"] == PUBLISHED)
    rows: list[tuple[TableCell, ...]] = []
    records: list[dict[str, Any]] = []
    for (model, dataset, replacer, metric), by_budget in values.items():
        published = {budget: value for (preset, budget), value in by_budget.items() if preset == PUBLISHED}
        row = [TableCell(dataset), TableCell(METRIC_NAMES[metric])]
        for budget in budgets:
            value = by_budget.get((FAST, budget))
            needed = _required_budget(published, value, METRICS[metric].higher_is_better)
            row.append(TableCell(NOT_AVAILABLE if value is None else f"{needed:,}" if needed else f"> {most:,}"))
            names = {"model": model, "dataset": dataset, "replacer": replacer, "metric": metric}
            records.append({**names, "fast": budget, "value": value, "published": needed})
        rows.append(tuple(row))
    return Table(
        id="equal_faithfulness",
        title="Passes at equal faithfulness",
        caption="For each number of probes of the fast preset: the smallest number of steps with which the published "
        f"search has at least the same mean faithfulness. > {most:,}: no tested number of steps is enough.",
        columns=(
            *(Column(name, is_number=False) for name in ("dataset", "metric")),
            *(Column(f"{budget:,}", "probes of the fast preset") for budget in budgets),
        ),
        rows=tuple(rows),
        records=tuple(records),
    )


def _required_budget(values: Mapping[int, float], goal: float | None, higher: bool) -> int | None:
    """The smallest budget whose value is at least as good as the goal.

    >>> _required_budget({32: 0.1, 64: 0.4, 128: 0.3}, 0.3, higher=True), _required_budget({32: 0.1}, 0.3, higher=True)
    (64, None)
    """
    if goal is None:
        return None
    return min((b for b, value in values.items() if (value >= goal if higher else value <= goal)), default=None)
