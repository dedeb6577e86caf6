"""Load a run from its records, cell by cell: explanations are too large to hold all of them in memory."""

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
from reagent.metrics.rationale import RATIONALE_METRICS, Annotation, find_mentions
from reagent.report.paper_results import MODELS, paper_model

MetricKey = tuple[str, str]  # metric and measure
CURVE_SETTINGS = ("max_steps", "preset", "ahead")  # settings that may differ between the points of one curve
# Rationale metrics, and the same metrics for rationales of the length that the greedy search finds.
AT_GREEDY_LENGTH = {"ante": "ante_greedy", "no_d": "no_d_greedy"}


class Records(Protocol):
    """The part of a store that the report reads."""

    def cells(self, status: str = "done") -> Iterable[Cell]: ...

    def facts(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class CellSummary:
    """The numbers of one cell."""

    model: str
    dataset: str
    level: str
    example: str
    group: str
    label: str
    method: str
    seed: int
    settings: Mapping[str, Any]  # of the method, as recorded
    replacer: str
    results: Mapping[MetricKey, Result]
    units: int  # of the prompt
    steps: tuple[int, ...]  # of each run of each target; for a greedy search, the length of each rationale
    stopped: tuple[str, ...]  # why the search ended, for each target
    passes: int
    seconds: float
    spread: float  # effective share of units that carry the scores; 1 if all scores are equal
    error: float | None  # standard error of the largest effect, relative to that effect; mean over targets


@dataclass(frozen=True)
class Failure:
    """A cell that failed and has no numbers."""

    model: str
    dataset: str
    label: str
    example: str
    seed: int
    error: str


@dataclass(frozen=True)
class Run:
    """All cells of a run, in an order that does not depend on when each was finished."""

    facts: Mapping[str, Any]
    cells: tuple[CellSummary, ...]
    failures: tuple[Failure, ...]

    @property
    def unfinished(self) -> str:
        """A sentence about the cells that are not computed yet, or an empty text."""
        return describe_unfinished(len(self.cells) + len(self.failures), self.facts)

    @property
    def models(self) -> list[str]:
        return sorted({cell.model for cell in self.cells}, key=_model_order)

    @property
    def datasets(self) -> list[str]:
        levels = {cell.dataset: cell.level for cell in self.cells}
        return sorted(levels, key=lambda dataset: (levels[dataset] != "token", dataset))

    @property
    def labels(self) -> list[str]:
        methods = {cell.label: cell.method for cell in self.cells}
        return sorted(methods, key=lambda label: (_method_order(methods[label]), natural_key(label)))

    @property
    def example_count(self) -> int:
        return len({(cell.dataset, cell.example) for cell in self.cells})

    def short_name(self, model: str) -> str:
        """The last part of a hub id or path, if it is unique among the models."""
        ends = [name.rstrip("/").rpartition("/")[2] for name in self.models]
        end = model.rstrip("/").rpartition("/")[2]
        return end if end and ends.count(end) == 1 else model


def describe_unfinished(cells: int, facts: Mapping[str, Any]) -> str:
    """Say that a run with this number of computed cells is not finished; an empty text if it is.

    >>> describe_unfinished(12, {"planned": 32}), describe_unfinished(32, {"planned": 32})
    ('This run is not finished: it has 12 of 32 cells.', '')
    """
    planned = int(facts.get("planned", 0))
    return f"This run is not finished: it has {cells:,} of {planned:,} cells." if cells < planned else ""


def load_run(records: Records) -> Run:
    """Summarise every finished cell, and list every failed cell."""
    lengths = _greedy_lengths(records.cells())
    cells = sorted(
        _summarise_cells(records.cells(), lengths),
        key=lambda c: (_model_order(c.model), c.dataset, natural_key(c.example), c.label, c.seed),
    )
    failures = sorted(
        (
            Failure(c.model, c.dataset, c.label, c.example, c.seed, c.error or "no message")
            for c in records.cells("failed")
        ),
        key=lambda f: (_model_order(f.model), f.dataset, f.label, natural_key(f.example), f.seed),
    )
    return Run(dict(records.facts()), tuple(cells), tuple(failures))


def without_curve_points(run: Run) -> Run:
    """Drop the cells that only serve as points of a convergence curve; the last point of each curve is kept."""

    def curve(cell: CellSummary) -> tuple[str, ...]:
        rest = (f"{name}={value}" for name, value in sorted(cell.settings.items()) if name not in CURVE_SETTINGS)
        return cell.model, cell.dataset, cell.replacer, *rest

    last: dict[tuple[str, ...], int] = {}
    for cell in run.cells:
        last[curve(cell)] = max(last.get(curve(cell), 0), cell.settings.get("max_steps", 0))
    kept = (c for c in run.cells if not is_curve_point(c) or c.settings["max_steps"] == last[curve(c)])
    return replace(run, cells=tuple(kept))


def is_curve_point(cell: CellSummary) -> bool:
    """Whether the search ran without its stopping test, up to a fixed number of steps."""
    return cell.settings.get("stop") is False and "max_steps" in cell.settings


def natural_key(text: str) -> list[tuple[int, str]]:
    """Sort key that orders numbers inside names by value.

    >>> sorted(["r 10", "r 9", "a"], key=natural_key)
    ['a', 'r 9', 'r 10']
    """
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text) if part]


def is_exhaustive(settings: Mapping[str, Any]) -> bool:
    """Whether a greedy search continued to the smallest possible rationale."""
    return bool(settings.get("exhaustive"))


def evaluated_targets(cell: Cell) -> tuple[int, ...]:
    """The output tokens that were evaluated; without an evaluation, those that were explained."""
    if cell.evaluation is not None:
        return cell.evaluation.targets
    return () if cell.explanation is None else tuple(explained_rows(cell.explanation))


def read_annotation(cell: Cell) -> Annotation | None:
    """The human annotation of the prompt, if it has one."""
    recorded = cell.evaluation.settings.get("annotation") if cell.evaluation else None
    if not recorded:
        return None
    spans = {
        name: tuple((int(a), int(b)) for a, b in recorded.get(name) or ()) for name in ("antecedent", "distractor")
    }
    return Annotation(**spans)


_Lengths = Mapping[tuple[str, str, str, int], Mapping[int, int]]  # by model, dataset, example and seed; then by target


def _greedy_lengths(cells: Iterable[Cell]) -> _Lengths:
    """Lengths of the rationales of the first greedy entry that is not exhaustive."""
    lengths: dict[str, dict[tuple[str, str, str, int], Mapping[int, int]]] = {}
    for cell in cells:
        if cell.method == "greedy" and cell.explanation is not None and not is_exhaustive(cell.explanation.method):
            by_target = {t: cell.explanation.cost.steps[t] for t in evaluated_targets(cell)}
            lengths.setdefault(cell.label, {})[cell.model, cell.dataset, cell.example, cell.seed] = by_target
    return lengths[min(lengths, key=natural_key)] if lengths else {}


def _summarise_cells(cells: Iterable[Cell], lengths: _Lengths) -> Iterator[CellSummary]:
    for cell in cells:
        if cell.explanation is not None and evaluated_targets(cell):
            yield _summarise(cell, cell.explanation, lengths)


def _summarise(cell: Cell, why: Explanation, lengths: _Lengths) -> CellSummary:
    cost, targets, annotation = why.cost, evaluated_targets(cell), read_annotation(cell)
    measured = cell.evaluation.results if cell.evaluation else ()
    results = {(r.metric, r.measure): replace(r, targets=(), curve=()) for r in measured}
    greedy = lengths.get((cell.model, cell.dataset, cell.example, cell.seed), {})
    if annotation is not None and all(t in greedy for t in targets):
        results |= {(r.metric, r.measure): r for r in _at_greedy_length(why, annotation, greedy, targets)}
    return CellSummary(
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
        error=_error_of_largest_effect(why, targets),
    )


def _spread(scores: Sequence[float]) -> float:
    """The exponential of the entropy of the scores, divided by their number.

    >>> _spread([0.25, 0.25, 0.25, 0.25]), _spread([1.0, 0.0, 0.0, 0.0])
    (1.0, 0.25)
    """
    return math.exp(-sum(score * math.log(score) for score in scores if score > 0)) / len(scores)


def _error_of_largest_effect(why: Explanation, targets: Sequence[int]) -> float | None:
    """Standard error of each target's largest effect, relative to it; None if the method reports no errors."""
    if why.effects is None or why.stderr is None:
        return None
    shares = []
    for t in targets:
        largest = max(range(len(why.effects[t])), key=why.effects[t].__getitem__)
        if why.effects[t][largest] > 0:
            shares.append(why.stderr[t][largest] / why.effects[t][largest])
    return sum(shares) / len(shares) if shares else None


def _at_greedy_length(
    why: Explanation, annotation: Annotation, lengths: Mapping[int, int], targets: Iterable[int]
) -> Iterator[Result]:
    for name in annotation.metrics:
        metric = RATIONALE_METRICS[name]
        mentions = find_mentions(why.input, metric.spans(annotation))
        for measure in metric.measures if mentions else ():
            by_target = [metric.measure_target(why, t, mentions, lengths[t], measure) for t in targets]
            value, random = (sum(getattr(one, of) for one in by_target) / len(by_target) for of in ("value", "random"))
            yield Result(AT_GREEDY_LENGTH[name], measure, True, value, 0.0, random, 0.0, draws=0, random_draws=0)


def _model_order(model: str) -> tuple[int, str]:
    """Models of the paper come last, in its order."""
    name = paper_model(model)
    return (-1 if name is None else list(MODELS.values()).index(name), model)


def _method_order(method: str) -> int:
    return list(METHODS).index(method) if method in METHODS else len(METHODS)
