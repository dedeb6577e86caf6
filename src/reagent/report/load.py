"""A run as tables and figures need it: the numbers of every cell. Explanations are too large to hold all at once."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from reagent.bench.codec import explained_rows
from reagent.bench.records import Cell
from reagent.evaluation import Result
from reagent.explanation import Explanation
from reagent.methods import METHODS
from reagent.metrics.rationale import RATIONALE_METRICS, Annotation, units_in_spans
from reagent.report.paper_results import MODELS, published_name

Number = tuple[str, str]  # metric and measure
STAGE = ("max_steps", "preset", "ahead")  # what may differ between the points of one curve
GREEDY = {"ante": "ante_greedy", "no_d": "no_d_greedy"}  # the same rationales, as long as a greedy search found


class Records(Protocol):
    """What the report asks of a store."""

    def cells(self, status: str = "done") -> Iterable[Cell]: ...

    def facts(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Row:
    """The numbers of one cell."""

    model: str
    dataset: str
    level: str
    example: str
    group: str
    label: str
    method: str
    seed: int
    settings: Mapping[str, Any]  # of the method, as it recorded them
    replacer: str
    results: Mapping[Number, Result]
    units: int  # of the prompt
    steps: tuple[int, ...]  # of each run of each target; of a greedy search, the length of each rationale
    stopped: tuple[str, ...]  # what ended the search for each target
    passes: int
    seconds: float
    spread: float  # the share of units that the scores are spread over; 1: all alike
    error: float | None  # the standard error of a row's largest effect, as a share of it; mean over rows


@dataclass(frozen=True)
class Failure:
    """A cell that has no numbers."""

    model: str
    dataset: str
    label: str
    example: str
    seed: int
    error: str


@dataclass(frozen=True)
class Run:
    """All of it, in an order that does not depend on who finished first."""

    facts: Mapping[str, Any]
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]

    @property
    def models(self) -> list[str]:
        return sorted({row.model for row in self.rows}, key=_model_order)

    @property
    def datasets(self) -> list[str]:
        levels = {row.dataset: row.level for row in self.rows}
        return sorted(levels, key=lambda dataset: (levels[dataset] != "token", dataset))

    @property
    def labels(self) -> list[str]:
        methods = {row.label: row.method for row in self.rows}
        return sorted(methods, key=lambda label: (_method_order(methods[label]), natural(label)))

    def short(self, model: str) -> str:
        """The last part of a hub id or path, where no other model has the same."""
        ends = [name.rstrip("/").rpartition("/")[2] for name in self.models]
        end = model.rstrip("/").rpartition("/")[2]
        return end if end and ends.count(end) == 1 else model

    @property
    def examples(self) -> int:
        return len({(row.dataset, row.example) for row in self.rows})


def read(records: Records) -> Run:
    """Every cell that is done, by its numbers, and every cell that failed."""
    lengths = _greedy_lengths(records.cells())
    rows = sorted(
        _rows(records.cells(), lengths),
        key=lambda r: (_model_order(r.model), r.dataset, natural(r.example), r.label, r.seed),
    )
    failures = sorted(
        (
            Failure(c.model, c.dataset, c.label, c.example, c.seed, c.error or "no message")
            for c in records.cells("failed")
        ),
        key=lambda f: (_model_order(f.model), f.dataset, f.label, natural(f.example), f.seed),
    )
    return Run(dict(records.facts()), tuple(rows), tuple(failures))


def without_stages(run: Run) -> Run:
    """The run without the points of a curve that others follow: entries that never stop, cut off early."""

    def series(row: Row) -> tuple[str, ...]:
        rest = (f"{name}={value}" for name, value in sorted(row.settings.items()) if name not in STAGE)
        return row.model, row.dataset, row.replacer, *rest

    ends: dict[tuple[str, ...], int] = {}
    for row in run.rows:
        ends[series(row)] = max(ends.get(series(row), 0), row.settings.get("max_steps", 0))
    kept = (row for row in run.rows if not is_stage(row) or row.settings["max_steps"] == ends[series(row)])
    return replace(run, rows=tuple(kept))


def is_stage(row: Row) -> bool:
    """Whether it is a look at a search on its way, which nothing stops."""
    return row.settings.get("stop") is False and "max_steps" in row.settings


Lengths = Mapping[tuple[str, str, str, int], Mapping[int, int]]  # by model, dataset, example and seed; then by target


def natural(text: str) -> list[tuple[int, str]]:
    """A key by which r=10 comes after r=9.

    >>> sorted(["r 10", "r 9", "a"], key=natural)
    ['a', 'r 9', 'r 10']
    """
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text) if part]


def is_exhaustive(settings: Mapping[str, Any]) -> bool:
    """Whether a greedy search went on to look for the smallest rationale there is."""
    return bool(settings.get("exhaustive"))


def targets_of(cell: Cell) -> tuple[int, ...]:
    """The output tokens that were looked at; without an evaluation, those that were asked about."""
    if cell.evaluation is not None:
        return cell.evaluation.targets
    return () if cell.explanation is None else tuple(explained_rows(cell.explanation))


def annotation(cell: Cell) -> Annotation | None:
    """What people have marked in the prompt, if they have."""
    marked = cell.evaluation.settings.get("annotation") if cell.evaluation else None
    if not marked:
        return None
    spans = {name: tuple((int(a), int(b)) for a, b in marked.get(name) or ()) for name in ("antecedent", "distractor")}
    return Annotation(**spans)


def _greedy_lengths(cells: Iterable[Cell]) -> Lengths:
    """How long the rationales of the first greedy entry are; an exhaustive search is another matter."""
    found: dict[str, dict[tuple[str, str, str, int], Mapping[int, int]]] = {}
    for cell in cells:
        if cell.method == "greedy" and cell.explanation is not None and not is_exhaustive(cell.explanation.method):
            lengths = {t: cell.explanation.cost.steps[t] for t in targets_of(cell)}
            found.setdefault(cell.label, {})[cell.model, cell.dataset, cell.example, cell.seed] = lengths
    return found[min(found, key=natural)] if found else {}


def _rows(cells: Iterable[Cell], lengths: Lengths) -> Iterator[Row]:
    for cell in cells:
        if cell.explanation is not None and targets_of(cell):
            yield _row(cell, cell.explanation, lengths)


def _row(cell: Cell, why: Explanation, lengths: Lengths) -> Row:
    cost, targets, marks = why.cost, targets_of(cell), annotation(cell)
    measured = cell.evaluation.results if cell.evaluation else ()
    results = {(r.metric, r.measure): replace(r, targets=(), curve=()) for r in measured}
    found = lengths.get((cell.model, cell.dataset, cell.example, cell.seed), {})
    if marks is not None and all(t in found for t in targets):
        results |= {(r.metric, r.measure): r for r in _at_greedy_length(why, marks, found, targets)}
    return Row(
        model=cell.model,
        dataset=cell.dataset,
        level=cell.level,
        example=cell.example,
        group=cell.group,
        label=cell.label,
        method=cell.method,
        seed=cell.seed,
        settings=why.method,
        replacer=str((why.replacer or {}).get("id", "")),
        results=results,
        units=len(why.input),
        steps=tuple(n for t in targets for n in (cost.runs[t] if t < len(cost.runs) else (cost.steps[t],))),
        stopped=tuple(cost.stopped[t] for t in targets),
        passes=cost.forward_passes,
        seconds=cost.seconds,
        spread=sum(_spread(why.scores[t]) for t in targets) / len(targets),
        error=_error_of_the_largest(why, targets),
    )


def _spread(scores: Sequence[float]) -> float:
    """The exponential of the entropy of scores, by their number.

    >>> _spread([0.25, 0.25, 0.25, 0.25]), _spread([1.0, 0.0, 0.0, 0.0])
    (1.0, 0.25)
    """
    return math.exp(-sum(score * math.log(score) for score in scores if score > 0)) / len(scores)


def _error_of_the_largest(why: Explanation, targets: Sequence[int]) -> float | None:
    """The standard error of the largest effect on each target, by that effect; None where a method tells no errors."""
    if why.effects is None or why.stderr is None:
        return None
    shares = []
    for t in targets:
        largest = max(range(len(why.effects[t])), key=why.effects[t].__getitem__)
        if why.effects[t][largest] > 0:
            shares.append(why.stderr[t][largest] / why.effects[t][largest])
    return sum(shares) / len(shares) if shares else None


def _at_greedy_length(
    why: Explanation, marks: Annotation, lengths: Mapping[int, int], targets: Iterable[int]
) -> Iterator[Result]:
    for name in marks.metrics:
        metric = RATIONALE_METRICS[name]
        marked = units_in_spans(why.input, metric.spans(marks))
        found = [metric.measure_target(why, t, marked, lengths[t]) for t in targets]
        value, random = (sum(getattr(one, of) for one in found) / len(found) for of in ("value", "random"))
        yield Result(GREEDY[name], "found", True, value, 0.0, random, 0.0, draws=0, random_draws=0)


def _model_order(model: str) -> tuple[int, str]:
    """The paper's models in its order, after all others."""
    known = published_name(model)
    return (-1 if known is None else list(MODELS.values()).index(known), model)


def _method_order(method: str) -> int:
    return list(METHODS).index(method) if method in METHODS else len(METHODS)
