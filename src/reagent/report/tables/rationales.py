"""Tables about rationales: agreement with human annotations, and length."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from reagent.methods.greedy import rationale_ratio
from reagent.metrics.rationale import SIZE
from reagent.metrics.statistics import bootstrap
from reagent.report.analysis import METRIC_NAMES, RATIONALES, RESAMPLES, EntryResult, ResultIndex, index_results
from reagent.report.contents import Column, Missing, Table, TableCell
from reagent.report.load import AT_GREEDY_LENGTH, CellSummary, Run, is_exhaustive
from reagent.report.paper_results import SOURCE, load_rationales, paper_model
from reagent.report.tables.base import (
    columns_to_rows,
    embolden,
    find_best_by_group,
    format_count,
    format_interval,
    format_number,
)

_TITLE = "Rationales and human annotations"
_LENGTH_TITLE = "Rationale length relative to the exhaustive minimum"
_Place = tuple[str, str, str]  # model, dataset, label


def rationale_tables(run: Run, results: Sequence[EntryResult]) -> Iterator[Table | Missing]:
    yield _annotation_table(run, results)
    yield _length_table(run)


def _annotation_table(run: Run, results: Sequence[EntryResult]) -> Table | Missing:
    """Ante and No.D at the lengths of the greedy search, as in the paper, and at a fixed length."""
    index = index_results(results)
    at_greedy_length, at_fixed_length = (
        [name for name in names if any(key[3] == name for key in index)]
        for names in (AT_GREEDY_LENGTH.values(), RATIONALES.metrics)
    )
    metrics = [*at_greedy_length, *at_fixed_length]
    if not metrics:
        return Missing(_TITLE, "no dataset of this run is annotated, or the metrics ante and no_d are not in the suite")
    places = [
        (model, dataset, label)
        for model in run.models
        for dataset in run.datasets
        for label in run.labels
        if any((model, dataset, label, name) in index for name in metrics)
    ]
    columns = [[TableCell(run.short_name(model)) for model, _, _ in places]]
    columns += [[TableCell(place[i]) for place in places] for i in (1, 2)]
    heads = [Column(name, is_number=False) for name in ("model", "dataset", "method")]
    for name in metrics:
        columns += _share_columns(index, places, name)
        length = f"{SIZE} units" if name in at_fixed_length else "greedy’s length"
        heads += [Column(METRIC_NAMES[_plain_metric(name)], length), Column("random", length)]
    if any(_paper_value(index, place, name) is not None for place in places for name in RATIONALES.metrics):
        for name in RATIONALES.metrics:
            values = [_paper_value(index, place, name) for place in places]
            columns.append([TableCell("" if value is None else format_number(value), muted=True) for value in values])
            heads.append(Column(METRIC_NAMES[name], "paper"))
    return Table(
        id="rationales",
        title=_TITLE,
        caption="Share of examples whose rationale contains the antecedent (Ante) and avoids the distractor (No.D), "
        "and the same for a random choice of as many units. The best of a column and model is bold.",
        columns=tuple(heads),
        rows=columns_to_rows(columns),
        records=tuple(index[key].to_record() for key in index if key[3] in metrics),
        notes=tuple(_notes([index[key] for key in index if key[3] in metrics], bool(at_greedy_length))),
    )


def _share_columns(index: ResultIndex, places: Sequence[_Place], name: str) -> list[list[TableCell]]:
    """The shares of the methods and of random; the best method of a model on a dataset is bold."""
    results = [index.get((*place, name)) for place in places]
    means = [None if r is None else r.comparison.mean.value for r in results]
    random = [None if r is None else r.comparison.random.value for r in results]
    partial = [r is not None and r.is_partial for r in results]
    complete = [None if is_partial else value for value, is_partial in zip(means, partial, strict=True)]
    cells = [
        TableCell(format_number(value, mark="†" if is_partial else ""))
        for value, is_partial in zip(means, partial, strict=True)
    ]
    return [
        embolden(cells, find_best_by_group([place[:2] for place in places], complete)),
        [TableCell(format_number(value), muted=True) for value in random],
    ]


def _plain_metric(name: str) -> str:
    return next((plain for plain, greedy in AT_GREEDY_LENGTH.items() if greedy == name), name)


def _paper_value(index: ResultIndex, place: _Place, name: str) -> float | None:
    result = index.get((*place, AT_GREEDY_LENGTH[name])) or index.get((*place, name))
    model = paper_model(place[0])
    if result is None or model is None or place[1] != "longra":
        return None
    return load_rationales().get((model, result.method), {}).get(name)


def _notes(results: Sequence[EntryResult], has_greedy_lengths: bool) -> Iterator[str]:
    if not has_greedy_lengths:
        yield "Results at greedy’s lengths are missing: no greedy search is among the entries, or none is done."
    if any(result.is_partial for result in results):
        yield "† on fewer examples than others; never marked as the best."
    cases = sorted({result.comparison.cases for result in results})
    yield f"Examples: {cases[0]}." if len(cases) == 1 else f"Examples: {cases[0]} to {cases[-1]}."
    yield f"At {SIZE} units, a greedy rationale keeps its own length. Paper: {SOURCE}, on a fine-tuned model."


# --- length ---


def _length_table(run: Run) -> Table | Missing:
    """Lengths of greedy rationales relative to the smallest rationales, found by exhaustive search."""
    greedy = [cell for cell in run.cells if cell.method == "greedy"]
    exhaustive = _group_by_label([cell for cell in greedy if is_exhaustive(cell.settings)])
    if not greedy:
        return Missing(_LENGTH_TITLE, "no entry is a greedy search")
    if not exhaustive:
        return Missing(
            _LENGTH_TITLE, "no exhaustive search is done: add greedy with the preset exhaustive to the suite"
        )
    records = [
        record
        for label, cells in _group_by_label([cell for cell in greedy if not is_exhaustive(cell.settings)]).items()
        for record in _length_records(label, cells, exhaustive)
    ]
    if not records:
        return Missing(_LENGTH_TITLE, "no example has a greedy and an exhaustive search with the same settings")
    failed = sum(failure.label in exhaustive for failure in run.failures)
    note = f"{failed} exhaustive searches failed, most often because there are too many sets; they are not counted."
    numbers = ("examples", "mean length", "smallest", "ratio", "95 %")
    return Table(
        id="rationale_length",
        title=_LENGTH_TITLE,
        caption="Length of greedy rationales divided by the size of the smallest set of units that keeps the "
        "prediction, found by exhaustive search; mean of the ratios over examples.",
        columns=(*(Column(name, is_number=False) for name in ("model", "dataset", "method")), *map(Column, numbers)),
        rows=tuple(_length_row(run, record) for record in records),
        records=tuple(records),
        notes=(note,) if failed else (),
    )


def _length_row(run: Run, record: Mapping[str, Any]) -> tuple[TableCell, ...]:
    return (
        TableCell(run.short_name(record["model"])),
        *(TableCell(record[name]) for name in ("dataset", "label")),
        TableCell(str(record["examples"])),
        TableCell(format_count(record["length"])),
        TableCell(format_count(record["smallest"])),
        TableCell(format_number(record["ratio"])),
        TableCell(format_interval(record["ratio_low"], record["ratio_high"]), muted=True),
    )


def _group_by_label(cells: Sequence[CellSummary]) -> dict[str, list[CellSummary]]:
    groups: dict[str, list[CellSummary]] = defaultdict(list)
    for cell in cells:
        groups[cell.label].append(cell)
    return dict(groups)


def _length_records(
    label: str, cells: Sequence[CellSummary], exhaustive: dict[str, list[CellSummary]]
) -> Iterator[dict[str, Any]]:
    """One record for each model and dataset that has both searches with the same settings."""
    smallest = {_key(c): c for others in exhaustive.values() for c in others if _has_same_settings(c, cells[0])}
    for model, dataset in dict.fromkeys((cell.model, cell.dataset) for cell in cells):
        both = [cell for cell in cells if (cell.model, cell.dataset) == (model, dataset) and _key(cell) in smallest]
        ratios_by_example: dict[str, list[float]] = defaultdict(list)
        for cell in both:
            ratios_by_example[cell.example].append(rationale_ratio(cell.steps, smallest[_key(cell)].steps))
        if not both:
            continue
        ratios = np.array([np.mean(values) for values in ratios_by_example.values()])
        estimate = bootstrap(ratios, lambda values: np.asarray(values.mean(1)), resamples=RESAMPLES)
        yield {
            "model": model,
            "dataset": dataset,
            "label": label,
            "examples": len(ratios_by_example),
            "length": float(np.mean([n for cell in both for n in cell.steps])),
            "smallest": float(np.mean([n for cell in both for n in smallest[_key(cell)].steps])),
            "ratio": estimate.value,
            "ratio_low": estimate.low,
            "ratio_high": estimate.high,
        }


def _key(cell: CellSummary) -> tuple[str, str, str, int]:
    return cell.model, cell.dataset, cell.example, cell.seed


def _has_same_settings(one: CellSummary, other: CellSummary) -> bool:
    names = ("removal", "draws", "top_k")
    return one.replacer == other.replacer and all(one.settings.get(k) == other.settings.get(k) for k in names)
