"""Tables that compare ReAGent with itself: by replacer, and by hyperparameters."""

from collections.abc import Iterator, Sequence
from statistics import mean, stdev
from typing import Any

from reagent.report.analysis import METRIC_NAMES, SOFT, EntryResult, ResultIndex, index_results
from reagent.report.contents import Column, Missing, Table, TableCell
from reagent.report.load import CellSummary, Run, is_curve_point
from reagent.report.paper_results import SOURCE, PaperReplacer, load_hyperparameters, load_replacers, paper_model
from reagent.report.tables.base import (
    NOT_AVAILABLE,
    columns_to_rows,
    embolden,
    find_best_by_group,
    format_count,
    format_number,
)

# The settings of the published algorithm, with their column headings.
SETTINGS = {"ratio": "ratio r", "max_steps": "max steps m", "runs": "runs", "keep": "keep", "top_k": "top k"}
_REPLACERS, _HYPERPARAMETERS = "Replacers", "Hyperparameters"
_Place = tuple[str, str, str]  # model, dataset, label
_Record = dict[str, Any]


def ablation_tables(run: Run, results: Sequence[EntryResult]) -> Iterator[Table | Missing]:
    yield _replacer_table(run, results)
    yield _hyperparameter_table(run, results)


def _replacer_table(run: Run, results: Sequence[EntryResult]) -> Table | Missing:
    cells = [cell for cell in run.cells if cell.method == "reagent" and not is_curve_point(cell)]
    if len({cell.replacer for cell in cells}) < 2:
        return Missing(_REPLACERS, "all entries of ReAGent have the same replacer")
    index = index_results(results)
    records = [
        _record(place, members, index) | {"replacer": replacer, "paper": _paper_replacer(place[0], replacer)}
        for place, members in _group_by_place(run, cells)
        for replacer in [members[0].replacer]
    ]
    columns, heads = _name_columns(run, records)
    columns += _step_columns(records, fewest_in_bold=True)
    columns += [_log_ratio_column(records, name) for name in SOFT.metrics]
    heads += _result_heads()
    if any(record["paper"] for record in records):
        for name, digits in (("steps", 0), ("steps_sd", 0), *((metric, 3) for metric in SOFT.metrics)):
            values = [None if record["paper"] is None else getattr(record["paper"], name) for record in records]
            columns.append([TableCell("" if v is None else format_number(v, digits), muted=True) for v in values])
            heads.append(Column({"steps_sd": "± SD"}.get(name, METRIC_NAMES.get(name, name)), "paper"))
    return Table(
        id="replacers",
        title=_REPLACERS,
        caption="Steps until the stopping condition (for each run of each target; probes for the fast preset), their "
        "standard deviation, the share of targets that met the condition, and log ratios to random.",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(map(_data_record, records)),
        notes=_notes(records, f"Paper: {SOURCE}; it gives the maximum as 3,000 and as 5,000 steps."),
    )


def _hyperparameter_table(run: Run, results: Sequence[EntryResult]) -> Table | Missing:
    # Only the published algorithm has a maximum number of steps.
    cells = [c for c in run.cells if c.method == "reagent" and "max_steps" in c.settings and not is_curve_point(c)]
    if not cells:
        return Missing(_HYPERPARAMETERS, "no entry is ReAGent as published (presets paper…)")
    if all(len({cell.settings.get(name) for cell in cells}) == 1 for name in SETTINGS):
        return Missing(_HYPERPARAMETERS, "all entries of ReAGent as published have the same settings")
    records, index = [], index_results(results)
    for place, members in _group_by_place(run, cells):
        replacer, settings = members[0].replacer, {name: members[0].settings.get(name) for name in SETTINGS}
        paper = _paper_settings(*place[:2], settings) if replacer == "roberta" else []
        records.append(_record(place, members, index) | settings | {"replacer": replacer, "paper": paper})
    columns, heads = _name_columns(run, records)
    for name, title in SETTINGS.items():
        columns.append([TableCell("" if record[name] is None else f"{record[name]:g}") for record in records])
        heads.append(Column(title))
    columns += _step_columns(records, fewest_in_bold=False)
    columns += [_log_ratio_column(records, name) for name in SOFT.metrics]
    heads += _result_heads()
    if any(record["paper"] for record in records):
        for name in SOFT.metrics:
            texts = [" or ".join(format_number(row[name]) for row in record["paper"]) for record in records]
            columns.append([TableCell(text, muted=True) for text in texts])
            heads.append(Column(METRIC_NAMES[name], "paper"))
    return Table(
        id="hyperparameters",
        title=_HYPERPARAMETERS,
        caption="ReAGent as published with several settings: steps of each run with their standard deviation, the "
        "share of targets that met the stopping condition, and log ratios to random. The best of a column and model "
        "is bold.",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(map(_data_record, records)),
        notes=_notes(records, f"Paper: {SOURCE}; it has two rows for one of its settings."),
    )


# --- shared by both tables ---


def _group_by_place(run: Run, cells: Sequence[CellSummary]) -> Iterator[tuple[_Place, list[CellSummary]]]:
    for model in run.models:
        for dataset in run.datasets:
            for label in run.labels:
                members = [c for c in cells if (c.model, c.dataset, c.label) == (model, dataset, label)]
                if members:
                    yield (model, dataset, label), members


def _record(place: _Place, cells: Sequence[CellSummary], index: ResultIndex) -> _Record:
    steps = [n for cell in cells for n in cell.steps]
    stopped = [reason not in ("maximum", "unsettled") for cell in cells for reason in cell.stopped]
    record: _Record = {
        **dict(zip(("model", "dataset", "label"), place, strict=True)),
        "examples": len({cell.example for cell in cells}),
        "steps": mean(steps) if steps else None,
        "steps_sd": stdev(steps) if len(steps) > 1 else None,
        "stopped": mean(stopped) if stopped else None,
    }
    for name in SOFT.metrics:
        result = index.get((*place, name))
        estimate = None if result is None else result.comparison.log_ratio
        record |= {
            name: estimate and estimate.value,
            f"{name}_low": estimate and estimate.low,
            f"{name}_high": estimate and estimate.high,
            f"{name}_p": result and result.comparison.wilcoxon.p,
            f"{name}_mark": "" if result is None or result.significant else "*",
        }
    return record


def _name_columns(run: Run, records: Sequence[_Record]) -> tuple[list[list[TableCell]], list[Column]]:
    columns = [[TableCell(run.short_name(record["model"])) for record in records]]
    columns += [[TableCell(record[name]) for record in records] for name in ("dataset", "label", "replacer")]
    return columns, [Column(name, is_number=False) for name in ("model", "dataset", "entry", "replacer")]


def _result_heads() -> list[Column]:
    return [Column(name) for name in ("steps", "± SD", "stopped", *(METRIC_NAMES[name] for name in SOFT.metrics))]


def _step_columns(records: Sequence[_Record], fewest_in_bold: bool) -> list[list[TableCell]]:
    steps, deviations = (
        [NOT_AVAILABLE if record[name] is None else format_count(record[name]) for record in records]
        for name in ("steps", "steps_sd")
    )
    cells = [TableCell(text) for text in steps]
    if fewest_in_bold:
        values = [record["steps"] for record in records]
        cells = embolden(cells, find_best_by_group(_groups(records), values, higher=False, digits=0))
    stopped = [TableCell(format_number(record["stopped"], 2)) for record in records]
    return [cells, [TableCell(text, muted=True) for text in deviations], stopped]


def _log_ratio_column(records: Sequence[_Record], name: str) -> list[TableCell]:
    cells = [TableCell(format_number(record[name], mark=record[f"{name}_mark"])) for record in records]
    return embolden(cells, find_best_by_group(_groups(records), [record[name] for record in records]))


def _groups(records: Sequence[_Record]) -> list[tuple[str, str]]:
    return [(record["model"], record["dataset"]) for record in records]


def _notes(records: Sequence[_Record], paper: str) -> tuple[str, ...]:
    marked = any(record[f"{name}_mark"] for record in records for name in SOFT.metrics)
    missing = any(record[name] is None for record in records for name in SOFT.metrics)
    notes = ["* p > .05 in the Wilcoxon signed-rank test: not significantly different from random."] if marked else []
    notes += [f"{NOT_AVAILABLE}: not measured, or undefined because a mean is 0 or negative."] if missing else []
    return (*notes, *([paper] if any(record["paper"] for record in records) else []))


def _data_record(record: _Record) -> _Record:
    return {name: value for name, value in record.items() if name != "paper" and not name.endswith("_mark")}


def _paper_replacer(model: str, replacer: str) -> PaperReplacer | None:
    name = paper_model(model)
    return None if name is None else load_replacers().get((name, replacer))


def _paper_settings(model: str, dataset: str, settings: dict[str, Any]) -> list[dict[str, float]]:
    name = paper_model(model)
    if name is None or dataset != "longra":
        return []
    return load_hyperparameters().get((name, settings["ratio"], settings["max_steps"], settings["runs"]), [])
