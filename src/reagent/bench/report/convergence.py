"""Faithfulness against the budget: steps of the published search, or probes of the fast preset. Each is one pass."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reagent.bench.report.contents import Drawing
from reagent.bench.report.drawing import EDGE, INK, LINES, QUIET, Sheet, sheet
from reagent.bench.report.reading import STAGE, Row, Run
from reagent.bench.report.results import EQUAL, NAMES, REPLACED, SOFT, Finding, measures, shown
from reagent.bench.report.tables import Column, Entry, Missing, Table, interval, number
from reagent.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 4  # points of a curve
_TITLE = "Convergence"


def convergence(run: Run, found: Sequence[Finding]) -> tuple[Drawing, Table] | Missing:
    """Curves of the log ratio to random over the budget: a panel for each metric, a line for each series."""
    lines = _lines(run, found)
    if not lines:
        return Missing(
            _TITLE, f"no entry of ReAGent is there with {FEWEST} or more maximums of steps or probes, all else equal"
        )
    return _draw(lines), _table(lines)


def _draw(lines: Sequence[dict[str, Any]]) -> Drawing:
    metrics = list(dict.fromkeys(line["metric"] for line in lines))
    names = list(dict.fromkeys(line["series"] for line in lines))
    columns = min(2, len(metrics))
    rows = -(-len(metrics) // columns)
    page = sheet(1.0 + 3.6 * columns, 0.6 + 2.6 * rows)
    panels = list(page.figure.subplots(rows, columns, squeeze=False, sharex=True).flat)
    for axes, metric in zip(panels, metrics, strict=False):
        _panel(page, axes, metric, [line for line in lines if line["metric"] == metric], names)
    for axes in panels[len(metrics) :]:
        axes.set_axis_off()
    for axes in panels[-columns:]:
        axes.set_xlabel("steps or probes", color=QUIET, **page.style())
    for axes in panels[::columns]:
        axes.set_ylabel("log ratio to random", color=QUIET, **page.style())
    if len(names) > 1:
        handles, texts = panels[0].get_legend_handles_labels()
        columns = min(6, len(names))
        legend = page.figure.legend(
            handles, texts, loc="outside lower center", ncols=columns, frameon=False, fontsize=8
        )
        for text in legend.get_texts():
            text.set(color=INK, parse_math=False)
    caption = (
        "Log ratio to random against the number of steps (as published, at most so many) or probes (fast, exactly so "
        "many), with 95 % bootstrap intervals over examples. Each takes one forward pass, stopping tests one more. "
        f"{names[0] if len(names) == 1 else f'{len(names)} series'}."
    )
    return page.drawing("convergence", _TITLE, caption)


def _panel(page: Sheet, axes: "Axes", metric: str, lines: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.grid(True, color=EDGE, linewidth=0.6)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(_marks([line["budget"] for line in lines])))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    for i, name in enumerate(names):
        some = [line for line in lines if line["series"] == name]
        x, y = ([line[key] for line in some] for key in ("budget", "log_ratio"))
        low, high = ([_or(line[key], line["log_ratio"]) for line in some] for key in ("low", "high"))
        colour = LINES[i % len(LINES)]
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(x, y, "o-", color=colour, markersize=3.5, linewidth=1.4, label=page.words(name, 48))
    better = "" if METRICS[metric].higher_is_better else " (lower is better)"
    axes.set_title(page.words(NAMES[metric] + better), color=INK, **page.style(9))
    page.tidy(axes)


def _marks(budgets: Sequence[int]) -> list[int]:
    """Doubling from the smallest on: readable on a logarithmic axis.

    >>> _marks([50, 100, 350])
    [50, 100, 200]
    """
    low, high = min(budgets), max(budgets)
    return [low * 2**i for i in range((high // low).bit_length())]


def _budget(row: Row) -> int | None:
    """How many steps or probes an entry of ReAGent may take, where it is told."""
    found = row.settings.get("max_steps", row.settings.get("probes")) if row.method == "reagent" else None
    return None if found is None else int(found)


def _lines(run: Run, found: Sequence[Finding]) -> list[dict[str, Any]]:
    """One line for each point: series, metric, budget, log ratio and its interval."""
    have = measures(found)
    metrics = [name for family in (SOFT, REPLACED, EQUAL) for name in family.metrics if name in have]
    at = shown(found)
    series: dict[tuple[Any, ...], dict[int, str]] = defaultdict(dict)
    for row in run.rows:
        if (budget := _budget(row)) is not None:
            kind = "as published" if "max_steps" in row.settings else "fast"
            rest = tuple(sorted((k, str(v)) for k, v in row.settings.items() if k not in (*STAGE, "probes")))
            series[row.model, row.dataset, row.replacer, kind, rest][budget] = row.label
    series = {key: points for key, points in series.items() if len(points) >= FEWEST}
    names = _names(series)
    return [
        {
            "series": names[key],
            "model": key[0],
            "dataset": key[1],
            "replacer": key[2],
            "preset": key[3],
            "metric": metric,
            "budget": budget,
            "log_ratio": finding.log_ratio,
            "low": finding.comparison.log_ratio.low,
            "high": finding.comparison.log_ratio.high,
        }
        for metric in metrics
        for key, points in series.items()
        for budget, label in sorted(points.items())
        for finding in [at.get((key[0], key[1], label, metric))]
        if finding is not None and finding.log_ratio is not None
    ]


def _names(series: Mapping[tuple[Any, ...], object]) -> dict[tuple[Any, ...], str]:
    """What tells the series apart, and no more."""
    varied = [i for i in range(4) if len({key[i] for key in series}) > 1] or [2]
    names = {key: ", ".join(str(key[i]) for i in varied) for key in series}
    found: dict[tuple[Any, ...], str] = {}
    for key, name in names.items():
        same = [other for other in names if names[other] == name]
        found[key] = name if len(same) == 1 else f"{name} ({same.index(key) + 1})"
    return found


def _table(lines: Sequence[dict[str, Any]]) -> Table:
    names = ("series", "metric", "budget", "log_ratio")
    return Table(
        id="convergence",
        title=_TITLE,
        caption="The points of the curves: log ratio to random at each number of steps or probes.",
        columns=(*(Column(name.replace("_", " "), is_number=name not in names[:2]) for name in names), Column("95 %")),
        rows=tuple(
            (
                Entry(line["series"]),
                Entry(NAMES[line["metric"]]),
                Entry(f"{line['budget']:,}"),
                Entry(number(line["log_ratio"])),
                Entry(interval(line["low"], line["high"]), quiet=True),
            )
            for line in lines
        ),
        records=tuple(lines),
    )


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
