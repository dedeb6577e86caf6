"""Tables about rationales: whether they hold what people have marked, and how long they are."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from reagent.methods.greedy import rationale_ratio
from reagent.metrics.rationale import SIZE
from reagent.metrics.statistics import bootstrap
from reagent.report.analysis import NAMES, RESAMPLES, Finding, shown
from reagent.report.load import GREEDY, Row, Run, is_exhaustive
from reagent.report.paper_results import SOURCE, published_name
from reagent.report.paper_results import rationales as published
from reagent.report.tables.base import (
    Column,
    Missing,
    Table,
    TableCell,
    best_within,
    count,
    emphasised,
    interval,
    number,
    transposed,
)

_MARKS = tuple(GREEDY)
_SIZES = dict.fromkeys(GREEDY, f"{SIZE} units") | dict.fromkeys(GREEDY.values(), "greedy’s length")
_TITLE = "Rationales and what people have marked"
_RATIO_TITLE = "Rationale length over the exhaustive minimum"


def rationale_tables(run: Run, found: Sequence[Finding]) -> Iterator[Table | Missing]:
    yield _marked(run, found)
    yield _lengths(run)


def _marked(run: Run, found: Sequence[Finding]) -> Table | Missing:
    """Ante and No.D at the lengths of the greedy search, as in the paper, and at a fixed length."""
    at = shown(found)
    have = [name for name in (*GREEDY.values(), *_MARKS) if any(key[3] == name for key in at)]
    if not have:
        return Missing(_TITLE, "no dataset of this run has marks, or their metrics (ante, no_d) are not in the suite")
    places = [
        (model, dataset, label)
        for model in run.models
        for dataset in run.datasets
        for label in run.labels
        if any((model, dataset, label, name) in at for name in have)
    ]
    names = ("model", "dataset", "method")
    columns = [[TableCell(run.short(model)) for model, _, _ in places]]
    columns += [[TableCell(place[i]) for place in places] for i in (1, 2)]
    heads = [Column(name, is_number=False) for name in names]
    for name in have:
        columns += _shares(at, places, name)
        over = _SIZES[name]
        heads += [Column(NAMES[_plain(name)], over), Column("random", over)]
    if any(_paper(at, place, name) is not None for place in places for name in _MARKS):
        for name in _MARKS:
            printed = [_paper(at, place, name) for place in places]
            columns.append([TableCell("" if value is None else number(value), quiet=True) for value in printed])
            heads.append(Column(NAMES[name], "paper"))
    return Table(
        id="rationales",
        title=_TITLE,
        caption="Share of examples whose rationale contains the antecedent (Ante) and avoids the distractor (No.D), "
        "and what a random choice of as many units gets. The best of a column and model is bold.",
        columns=tuple(heads),
        rows=transposed(columns),
        records=tuple(at[key].record() for key in at if key[3] in have),
        notes=tuple(_notes(at, have)),
    )


_Places = Sequence[tuple[str, str, str]]
_At = dict[tuple[str, str, str, str], Finding]


def _shares(at: _At, places: _Places, name: str) -> list[list[TableCell]]:
    """What the methods got and what random got; the best of a model on a dataset is bold."""
    means = [at[*p, name].comparison.mean.value if (*p, name) in at else None for p in places]
    random = [at[*p, name].comparison.random.value if (*p, name) in at else None for p in places]
    part = [(*p, name) in at and at[*p, name].is_partial for p in places]
    whole = [None if is_part else value for value, is_part in zip(means, part, strict=True)]
    entries = [
        TableCell(number(value, mark="†" if is_part else "")) for value, is_part in zip(means, part, strict=True)
    ]
    return [
        emphasised(entries, best_within([place[:2] for place in places], whole)),
        [TableCell(number(value), quiet=True) for value in random],
    ]


def _plain(name: str) -> str:
    return next((plain for plain, greedy in GREEDY.items() if greedy == name), name)


def _paper(at: _At, place: tuple[str, str, str], name: str) -> float | None:
    finding = at.get((*place, GREEDY[name])) or at.get((*place, name))
    model = published_name(place[0])
    if finding is None or model is None or place[1] != "longra":
        return None
    return published().get((model, finding.method), {}).get(name)


def _notes(at: _At, have: Sequence[str]) -> Iterator[str]:
    if not any(name in have for name in GREEDY.values()):
        yield "Greedy’s lengths are left out: no greedy search is among the entries, or none was done."
    if any(at[key].is_partial for key in at if key[3] in have):
        yield "† on fewer examples than others, since the rest is missing: never marked as best."
    cases = sorted({finding.comparison.cases for key, finding in at.items() if key[3] in have})
    yield f"Examples: {cases[0]}." if len(cases) == 1 else f"Examples: {cases[0]} to {cases[-1]}."
    yield f"At {SIZE} units, a greedy rationale keeps its own length. Paper: {SOURCE}, on a fine-tuned model."


# --- how long ---

_Key = tuple[str, str, str, int]  # model, dataset, example, seed


def _lengths(run: Run) -> Table | Missing:
    """Greedy searches against the same search gone through exhaustively."""
    greedy = [row for row in run.rows if row.method == "greedy"]
    smallest = _by_label([row for row in greedy if is_exhaustive(row.settings)])
    if not greedy:
        return Missing(_RATIO_TITLE, "there is no greedy search among the entries")
    if not smallest:
        return Missing(_RATIO_TITLE, "no exhaustive search is done: add greedy with the preset exhaustive to the suite")
    records = [
        line
        for label, rows in _by_label([row for row in greedy if not is_exhaustive(row.settings)]).items()
        for line in _ratios(label, rows, smallest)
    ]
    if not records:
        return Missing(_RATIO_TITLE, "no example has both a greedy and an exhaustive search in the same way")
    tried = sum(failure.label in smallest for failure in run.failures)
    failed = f"{tried} exhaustive searches failed, most often for too many sets, and are not counted."
    numbers = ("examples", "mean length", "smallest", "ratio", "95 %")
    return Table(
        id="rationale_length",
        title=_RATIO_TITLE,
        caption="How many times longer greedy rationales are than the smallest set of units that keeps the prediction, "
        "found by going through all of them; mean of the ratios over examples.",
        columns=(*(Column(name, is_number=False) for name in ("model", "dataset", "method")), *map(Column, numbers)),
        rows=tuple(_length_row(run, line) for line in records),
        records=tuple(records),
        notes=(failed,) if tried else (),
    )


def _length_row(run: Run, line: Mapping[str, Any]) -> tuple[TableCell, ...]:
    return (
        TableCell(run.short(line["model"])),
        *(TableCell(line[name]) for name in ("dataset", "label")),
        TableCell(str(line["examples"])),
        TableCell(count(line["length"])),
        TableCell(count(line["smallest"])),
        TableCell(number(line["ratio"])),
        TableCell(interval(line["ratio_low"], line["ratio_high"]), quiet=True),
    )


def _by_label(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.label].append(row)
    return dict(found)


def _ratios(label: str, rows: Sequence[Row], smallest: dict[str, list[Row]]) -> Iterator[dict[str, Any]]:
    """One line for each model and dataset on which both searches were done in the same way."""
    lengths = {_key(row): row for others in smallest.values() for row in others if _alike(row, rows[0])}
    for model, dataset in dict.fromkeys((row.model, row.dataset) for row in rows):
        both = [row for row in rows if (row.model, row.dataset) == (model, dataset) and _key(row) in lengths]
        of_example: dict[str, list[float]] = defaultdict(list)
        for row in both:
            of_example[row.example].append(rationale_ratio(row.steps, lengths[_key(row)].steps))
        if not both:
            continue
        ratios = np.array([np.mean(some) for some in of_example.values()])
        estimate = bootstrap(ratios, lambda values: np.asarray(values.mean(1)), resamples=RESAMPLES)
        yield {
            "model": model,
            "dataset": dataset,
            "label": label,
            "examples": len(of_example),
            "length": float(np.mean([n for row in both for n in row.steps])),
            "smallest": float(np.mean([n for row in both for n in lengths[_key(row)].steps])),
            "ratio": estimate.value,
            "ratio_low": estimate.low,
            "ratio_high": estimate.high,
        }


def _key(row: Row) -> _Key:
    return row.model, row.dataset, row.example, row.seed


def _alike(one: Row, other: Row) -> bool:
    same = ("by", "draws", "top_k")
    return one.replacer == other.replacer and all(one.settings.get(k) == other.settings.get(k) for k in same)
