"""Examples to show in a report: which ones, and the scores of every method on them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reagent.bench.records import Cell
from reagent.case import Floats, Mask
from reagent.explanation import Explanation
from reagent.metrics.rationale import Annotation, units_in_spans
from reagent.report.load import Records, Run, evaluated_targets, natural_key, read_annotation
from reagent.views.plots import LABEL_LENGTH
from reagent.views.text import labels, mark_whitespace, pieces_before, shorten, split_into_pieces

EXAMPLES_SHOWN = 6
METHODS_SHOWN = 16
LONG = 70  # tokens; shorter examples are shown first because they are easier to read
OUTPUT_LENGTH = 200
_Place = tuple[str, str, str, int]  # model, dataset, example, seed


@dataclass(frozen=True)
class Example:
    """One example and the scores of each method, mean over the evaluated targets."""

    place: _Place
    title: str
    level: str
    units: list[str]  # of the prompt, as labels
    pieces: list[tuple[str, tuple[int, ...]]]  # of the running text, each with the indices of its units
    scores: dict[str, Floats]  # by label, one score for each unit
    methods: dict[str, str]  # by label
    output: str  # the explained output, quoted
    distractor: Mask
    antecedent: Mask


def load_examples(records: Records, run: Run) -> list[Example]:
    """A few examples of every dataset, preferably those that most methods have explained, short ones first."""
    places = _choose_places(run)
    cells: dict[_Place, list[Cell]] = {place: [] for place in places}
    for cell in records.cells():
        place = (cell.model, cell.dataset, cell.example, cell.seed)
        # Records may have been stored without texts.
        if place in cells and evaluated_targets(cell) and cell.explanation and cell.explanation.prompt:
            cells[place].append(cell)
    order = _choose_labels(run)
    examples = []
    for place in (place for place in places if cells[place]):
        chosen = sorted((c for c in cells[place] if c.label in order), key=lambda c: order.index(c.label))
        examples.append(_example(place, f"{place[1]}, example {place[2]}, {run.short_name(place[0])}", chosen))
    return sorted(examples, key=lambda example: len(example.units) > LONG)


def _choose_places(run: Run) -> list[_Place]:
    explained: dict[_Place, set[str]] = defaultdict(set)
    for cell in run.cells:
        explained[cell.model, cell.dataset, cell.example, cell.seed].add(cell.label)
    chosen: list[_Place] = []
    for dataset in run.datasets:
        places = sorted(
            (place for place in explained if place[1] == dataset),
            key=lambda p: (-len(explained[p]), run.models.index(p[0]), p[3], natural_key(p[2])),
        )
        chosen += places[: max(1, EXAMPLES_SHOWN // len(run.datasets))]
    return chosen[:EXAMPLES_SHOWN]


def _choose_labels(run: Run) -> list[str]:
    """The entries to show: one of each method before a second one of any method."""
    seen: dict[str, int] = defaultdict(int)
    methods = {cell.label: cell.method for cell in run.cells}
    ranked = []
    for i, label in enumerate(run.labels):
        ranked.append((seen[methods[label]], i, label))
        seen[methods[label]] += 1
    chosen = {label for _, _, label in sorted(ranked)[:METHODS_SHOWN]}
    return [label for label in run.labels if label in chosen]


def _example(place: _Place, title: str, cells: Sequence[Cell]) -> Example:
    first = cells[0]
    assert first.explanation is not None
    why, annotation = first.explanation, read_annotation(first) or Annotation()
    drawn = [i for i, unit in enumerate(why.input) if not (unit.protected and unit.end <= unit.start)]
    index = {position: i for i, position in enumerate(drawn)}
    names = labels(why.input, why.prompt)
    return Example(
        place=place,
        title=title,
        level=first.level,
        units=[shorten(names[i], LABEL_LENGTH) for i in drawn],
        pieces=[
            (piece.text, tuple(index[i] for i in piece.positions if i in index))
            for piece in pieces_before(len(why.input), split_into_pieces(why))
            if not piece.positions or index.keys() & piece.positions
        ],
        scores={cell.label: _mean_scores(cell)[drawn] for cell in cells},
        methods={cell.label: cell.method for cell in cells},
        output=_output(why, evaluated_targets(first)),
        distractor=units_in_spans(why.input, annotation.distractor)[drawn],
        antecedent=units_in_spans(why.input, annotation.antecedent)[drawn],
    )


def _mean_scores(cell: Cell) -> Floats:
    """Scores of the units of the prompt, mean over the evaluated targets."""
    assert cell.explanation is not None
    n = len(cell.explanation.input)
    rows = np.array([cell.explanation.scores[t][:n] for t in evaluated_targets(cell)], dtype=np.float64)
    return np.asarray(rows.mean(0))


def _output(why: Explanation, targets: Sequence[int]) -> str:
    if len(targets) == 1:
        return f"“{mark_whitespace(why.output[targets[0]].text)}”"
    return f"“{shorten(mark_whitespace(why.completion), OUTPUT_LENGTH)}” (mean over {len(targets)} of its tokens)"
