"""Faithfulness against the budget: steps of the published search, or probes of the fast preset. Each is one pass."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reagent.methods.reagent_fast import ReagentFast
from reagent.metrics import METRICS
from reagent.metrics.statistics import Estimate
from reagent.report.analysis import EQUAL, NAMES, PREDICTED, REPLACED, SOFT, Finding, measures, shown
from reagent.report.contents import Drawing
from reagent.report.figures.base import EDGE, INK, LINES, QUIET, Sheet, sheet
from reagent.report.load import STAGE, Row, Run
from reagent.report.tables.base import NOTHING, Column, Missing, Table, TableCell, interval, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 4  # points of a curve
PUBLISHED, FAST = "as published", "fast"
_TITLE = "Convergence"


def convergence(run: Run, found: Sequence[Finding]) -> tuple[Drawing | Table, ...] | Missing:
    """Curves over the budget: a panel for each metric, a line for each series; and who reaches what with how much."""
    lines = _lines(run, found)
    if not lines:
        return Missing(
            _TITLE, f"no entry of ReAGent is there with {FEWEST} or more maximums of steps or probes, all else equal"
        )
    both = {PUBLISHED, FAST} == {line["preset"] for line in lines}
    return (_draw(lines), *([_equal(lines)] if both else []), _table(lines))


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
    for axes in panels[: len(metrics)][-columns:]:  # the last of each column
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("steps or probes", color=QUIET, **page.style())
    if len(names) > 1:
        handles, texts = panels[0].get_legend_handles_labels()
        columns = min(6, len(names))
        legend = page.figure.legend(
            handles, texts, loc="outside lower center", ncols=columns, frameon=False, fontsize=8
        )
        for text in legend.get_texts():
            text.set(color=INK, parse_math=False)
    caption = (
        "Log ratio to random (LDS: the mean correlation) against the number of steps (as published, at most so many) "
        "or probes (fast, exactly so many), with 95 % bootstrap intervals over examples. Each takes one forward pass, "
        "stopping tests one more. "
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
        x, y = ([line[key] for line in some] for key in ("budget", "value"))
        low, high = ([_or(line[key], line["value"]) for line in some] for key in ("low", "high"))
        colour = LINES[i % len(LINES)]
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(x, y, "o-", color=colour, markersize=3.5, linewidth=1.4, label=page.words(name, 48))
    better = "" if METRICS[metric].higher_is_better else " (lower is better)"
    axes.set_title(page.words(NAMES[metric] + better), color=INK, **page.style(9))
    axes.set_ylabel(_said(metric), color=QUIET, **page.style())
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


def _follows(row: Row) -> tuple[str, ...]:
    """The budget, and what follows from it unless somebody set it."""
    probes = row.settings.get("probes")
    by_itself = probes is not None and row.settings.get("ratio") == ReagentFast(probes=probes).share_replaced
    return ("probes", "ratio") if by_itself else ("probes",)


def _lines(run: Run, found: Sequence[Finding]) -> list[dict[str, Any]]:
    """One line for each point: series, metric, budget, value and its interval."""
    have = measures(found)
    metrics = [name for family in (SOFT, EQUAL, REPLACED, PREDICTED) for name in family.metrics if name in have]
    at = shown(found)
    series: dict[tuple[Any, ...], dict[int, str]] = defaultdict(dict)
    for row in run.rows:
        if (budget := _budget(row)) is not None:
            kind = PUBLISHED if "max_steps" in row.settings else FAST
            rest = tuple(sorted((k, str(v)) for k, v in row.settings.items() if k not in (*STAGE, *_follows(row))))
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
            "of": _said(metric),
            **_value(finding)._asdict(),
        }
        for metric in metrics
        for key, points in series.items()
        for budget, label in sorted(points.items())
        for finding in [at.get((key[0], key[1], label, metric))]
        if finding is not None and _value(finding).value is not None
    ]


def _value(finding: Finding) -> Estimate:
    """The log ratio to random; of correlations, which have none, the mean."""
    found = finding.comparison
    return found.mean if found.metric in PREDICTED.metrics else found.log_ratio


def _said(metric: str) -> str:
    return "mean correlation" if metric in PREDICTED.metrics else "log ratio to random"


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
    names = ("series", "metric", "budget", "value")
    return Table(
        id="convergence",
        title=_TITLE,
        caption="The points of the curves: log ratio to random, of LDS the mean, at each number of steps or probes.",
        columns=(*(Column(name, is_number=name not in names[:2]) for name in names), Column("95 %")),
        rows=tuple(
            (
                TableCell(line["series"]),
                TableCell(NAMES[line["metric"]]),
                TableCell(f"{line['budget']:,}"),
                TableCell(number(line["value"])),
                TableCell(interval(line["low"], line["high"]), quiet=True),
            )
            for line in lines
        ),
        records=tuple(lines),
    )


def _equal(lines: Sequence[dict[str, Any]]) -> Table:
    """Which budget the published search needs to be as faithful as the fast preset is with each of its budgets."""
    places: dict[tuple[str, ...], dict[tuple[str, int], float]] = defaultdict(dict)
    for line in lines:
        place = tuple(line[name] for name in ("model", "dataset", "replacer", "metric"))
        places[place][line["preset"], line["budget"]] = line["value"]
    budgets = sorted({line["budget"] for line in lines if line["preset"] == FAST})
    most = max(line["budget"] for line in lines if line["preset"] == PUBLISHED)
    rows: list[tuple[TableCell, ...]] = []
    records: list[dict[str, Any]] = []
    for (model, dataset, replacer, metric), values in places.items():
        published = {budget: value for (preset, budget), value in values.items() if preset == PUBLISHED}
        entries = [TableCell(dataset), TableCell(NAMES[metric])]
        for budget in budgets:
            wanted = values.get((FAST, budget))
            needed = _needed(published, wanted, METRICS[metric].higher_is_better)
            entries.append(TableCell(NOTHING if wanted is None else f"{needed:,}" if needed else f"> {most:,}"))
            where = {"model": model, "dataset": dataset, "replacer": replacer, "metric": metric}
            records.append({**where, "fast": budget, "value": wanted, "published": needed})
        rows.append(tuple(entries))
    return Table(
        id="equal_faithfulness",
        title="Passes at equal faithfulness",
        caption="Below each number of probes of the fast preset: the fewest steps with which the published search is "
        f"on average at least as faithful. > {most:,}: with none of those tried.",
        columns=(
            *(Column(name, is_number=False) for name in ("dataset", "metric")),
            *(Column(f"{budget:,}", "as good as fast with") for budget in budgets),
        ),
        rows=tuple(rows),
        records=tuple(records),
    )


def _needed(values: Mapping[int, float], wanted: float | None, higher: bool) -> int | None:
    """The smallest budget with a value that is at least as good.

    >>> _needed({32: 0.1, 64: 0.4, 128: 0.3}, 0.3, higher=True), _needed({32: 0.1}, 0.3, higher=True)
    (64, None)
    """
    if wanted is None:
        return None
    return min((b for b, value in values.items() if (value >= wanted if higher else value <= wanted)), default=None)


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
