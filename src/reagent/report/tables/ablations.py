"""Tables of ReAGent against itself: by replacer, and by hyperparameters."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from reagent.report.analysis import NAMES, SOFT, Finding, shown
from reagent.report.load import Row, Run, is_stage
from reagent.report.paper_results import SOURCE, hyperparameters, published_name, replacers
from reagent.report.tables.base import (
    Column,
    Missing,
    Table,
    TableCell,
    best_within,
    count,
    emphasised,
    number,
    transposed,
)

SETTINGS = ("ratio", "max_steps", "runs", "keep", "top_k")
_REPLACERS, _HYPERPARAMETERS = "Replacers", "Hyperparameters"
_Place = tuple[str, str, str]  # model, dataset, label


def variant_tables(run: Run, found: Sequence[Finding]) -> Iterator[Table | Missing]:
    yield _replacers(run, found)
    yield _hyperparameters(run, found)


def published_rows(run: Run) -> list[Row]:
    """The cells of ReAGent as published, which alone has steps and a maximum of them."""
    return [row for row in run.rows if row.method == "reagent" and "max_steps" in row.settings]


def _that_stop(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not is_stage(row)]


def _replacers(run: Run, found: Sequence[Finding]) -> Table | Missing:
    rows, at = _that_stop([row for row in run.rows if row.method == "reagent"]), shown(found)
    if len({row.replacer for row in rows}) < 2:
        return Missing(_REPLACERS, "the entries of ReAGent do not differ in their replacer")
    records = [
        line | {"replacer": some[0].replacer, "paper": _paper_replacer(*place, some[0].replacer)}
        for place, some in _places(run, rows)
        for line in [_record(place, some, at)]
    ]
    given = [("model", "model"), ("dataset", "dataset"), ("label", "entry"), ("replacer", "replacer")]
    columns, heads = _named(run, records, given)
    columns += _steps(records, fewest_in_bold=True)
    heads += [Column("steps"), Column("± SD"), Column("stopped")]
    columns += [_numbers(records, name) for name in SOFT.metrics]
    heads += [Column(NAMES[name]) for name in SOFT.metrics]
    if any(line["paper"] for line in records):
        for name, digits in (("steps", 0), ("spread", 0), *((metric, 3) for metric in SOFT.metrics)):
            printed = [None if line["paper"] is None else getattr(line["paper"], name) for line in records]
            columns.append([TableCell("" if v is None else number(v, digits), quiet=True) for v in printed])
            heads.append(Column({"spread": "± SD", "steps": "steps"}.get(name, NAMES.get(name, name)), "paper"))
    return Table(
        id="replacers",
        title=_REPLACERS,
        caption="Steps until the stopping condition (of each run of each target; probes, for the fast preset), their "
        "standard deviation, the share of targets that met the condition, and log ratios to random.",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(_flat(line) for line in records),
        notes=_notes(records, f"Paper: {SOURCE}; its maximum is given as 3,000 and as 5,000 steps."),
    )


def _hyperparameters(run: Run, found: Sequence[Finding]) -> Table | Missing:
    rows = _that_stop(published_rows(run))
    if not rows:
        return Missing(_HYPERPARAMETERS, "ReAGent as published (presets paper…) is not among the entries")
    varied = [name for name in SETTINGS if len({row.settings.get(name) for row in rows}) > 1]
    if not varied:
        return Missing(_HYPERPARAMETERS, "the entries of ReAGent as published all have the same settings")
    records, at = [], shown(found)
    for place, some in _places(run, rows):
        settings = {name: some[0].settings.get(name) for name in SETTINGS}
        printed = _paper_settings(*place, settings) if some[0].replacer == "roberta" else []
        records.append(_record(place, some, at) | settings | {"replacer": some[0].replacer, "paper": printed})
    plain = [("model", "model"), ("dataset", "dataset"), ("label", "entry"), ("replacer", "replacer")]
    columns, heads = _named(run, records, plain)
    for name, title in zip(SETTINGS, ("ratio r", "max steps m", "runs", "kept", "top k"), strict=True):
        columns.append([TableCell("" if line[name] is None else f"{line[name]:g}") for line in records])
        heads.append(Column(title))
    columns += _steps(records, fewest_in_bold=False)
    heads += [Column("steps"), Column("± SD"), Column("stopped")]
    columns += [_numbers(records, name) for name in SOFT.metrics]
    heads += [Column(NAMES[name]) for name in SOFT.metrics]
    if any(line["paper"] for line in records):
        for name in SOFT.metrics:
            texts = [" or ".join(number(printed[name]) for printed in line["paper"]) for line in records]
            columns.append([TableCell(text, quiet=True) for text in texts])
            heads.append(Column(NAMES[name], "paper"))
    return Table(
        id="hyperparameters",
        title=_HYPERPARAMETERS,
        caption="ReAGent as published in several settings: steps of each run with their standard deviation, the share "
        "of targets that met the stopping condition, and log ratios to random. The best of a column and model is bold.",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(_flat(line) for line in records),
        notes=_notes(records, f"Paper: {SOURCE}; it prints two lines for one of its settings."),
    )


# --- what they share ---


def _places(run: Run, rows: Sequence[Row]) -> Iterator[tuple[_Place, list[Row]]]:
    for model in run.models:
        for dataset in run.datasets:
            for label in run.labels:
                some = [row for row in rows if (row.model, row.dataset, row.label) == (model, dataset, label)]
                if some:
                    yield (model, dataset, label), some


def _record(place: _Place, rows: Sequence[Row], at: Mapping[tuple[str, str, str, str], Finding]) -> dict[str, Any]:
    steps = [n for row in rows for n in row.steps]
    stopped = [reason not in ("maximum", "unsettled") for row in rows for reason in row.stopped]
    line: dict[str, Any] = {
        **dict(zip(("model", "dataset", "label"), place, strict=True)),
        "examples": len({row.example for row in rows}),
        "steps": mean(steps) if steps else None,
        "steps_sd": stdev(steps) if len(steps) > 1 else None,
        "stopped": mean(stopped) if stopped else None,
    }
    for name in SOFT.metrics:
        finding = at.get((*place, name))
        estimate = None if finding is None else finding.comparison.log_ratio
        line |= {
            name: estimate and estimate.value,
            f"{name}_low": estimate and estimate.low,
            f"{name}_high": estimate and estimate.high,
            f"{name}_p": finding and finding.comparison.wilcoxon.p,
            f"{name}_star": "" if finding is None or finding.significant else "*",
        }
    return line


def _named(
    run: Run, records: Sequence[dict[str, Any]], names: Sequence[tuple[str, str]]
) -> tuple[list[list[TableCell]], list[Column]]:
    columns = [
        [TableCell(run.short(line[key]) if key == "model" else str(line[key])) for line in records] for key, _ in names
    ]
    return columns, [Column(title, is_number=False) for _, title in names]


def _steps(records: Sequence[dict[str, Any]], fewest_in_bold: bool) -> list[list[TableCell]]:
    entries = [TableCell("–" if line["steps"] is None else count(line["steps"])) for line in records]
    spread = [TableCell("–" if line["steps_sd"] is None else count(line["steps_sd"]), quiet=True) for line in records]
    if fewest_in_bold:
        fewest = best_within(_groups(records), [line["steps"] for line in records], higher=False, digits=0)
        entries = emphasised(entries, fewest)
    return [entries, spread, [TableCell(number(line["stopped"], 2)) for line in records]]


def _numbers(records: Sequence[dict[str, Any]], name: str) -> list[TableCell]:
    entries = [TableCell(number(line[name], mark=line[f"{name}_star"])) for line in records]
    return emphasised(entries, best_within(_groups(records), [line[name] for line in records]))


def _groups(records: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(line["model"], line["dataset"]) for line in records]


def _notes(records: Sequence[dict[str, Any]], paper: str) -> tuple[str, ...]:
    star = any(line[f"{name}_star"] for line in records for name in SOFT.metrics)
    missing = any(line[name] is None for line in records for name in SOFT.metrics)
    notes = ["* p > .05 in the Wilcoxon signed-rank test: not significantly different from random."] if star else []
    notes += ["–: not measured, or no logarithm, since one of the means is 0 or below."] if missing else []
    return (*notes, *([paper] if any(line["paper"] for line in records) else []))


def _flat(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != "paper" and not name.endswith("_star")}


def _paper_replacer(model: str, dataset: str, label: str, replacer: str) -> Any:
    del dataset, label
    known = published_name(model)
    return None if known is None else replacers().get((known, replacer))


def _paper_settings(model: str, dataset: str, label: str, settings: dict[str, Any]) -> list[dict[str, float]]:
    del label
    known = published_name(model)
    if known is None or dataset != "longra":
        return []
    return hyperparameters().get((known, settings["ratio"], settings["max_steps"], settings["runs"]), [])
