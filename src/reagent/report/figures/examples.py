"""Single examples, by all methods: importance over the tokens, heat maps, shaded text."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reagent.bench.records import Cell
from reagent.case import Floats, Mask
from reagent.explanation import Explanation
from reagent.metrics.rationale import Annotation, units_in_spans
from reagent.report.contents import Drawing, Shaded, safe
from reagent.report.figures.base import EDGE, INK, LINES, QUIET, Sheet, colour_of, sheet
from reagent.report.load import Records, Run, annotation, natural, targets_of
from reagent.report.tables.base import Missing
from reagent.views.plots import COLOUR, LABEL_LENGTH, LABEL_WIDTH
from reagent.views.text import labels, mark_whitespace, pieces_before, shorten, split_into_pieces

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 6  # examples
METHODS_SHOWN = 16
LONG = 70  # tokens; shorter examples are chosen first, since they can be read
SAID_LENGTH = 200
_Place = tuple[str, str, str, int]  # model, dataset, example, seed


@dataclass(frozen=True)
class Example:
    """One example with what each method found: the mean over the targets that were looked at."""

    place: _Place
    level: str
    units: list[str]  # of the prompt, as labels
    pieces: list[tuple[str, int | None]]  # of the running text, each with its unit
    scores: dict[str, Floats]  # by label, one for each unit
    methods: dict[str, str]  # by label
    said: str
    distractor: Mask
    antecedent: Mask

    title: str


def chosen_examples(records: Records, run: Run) -> list[Example]:
    """A handful that most methods have explained, of every dataset, short ones first."""
    places = _choose(run)
    cells: dict[_Place, list[Cell]] = {place: [] for place in places}
    for cell in records.cells():
        place = (cell.model, cell.dataset, cell.example, cell.seed)
        if place in cells and targets_of(cell) and cell.explanation and cell.explanation.prompt:
            cells[place].append(cell)
    order = _spread(run)
    found = []
    for place in (place for place in places if cells[place]):  # without texts there is nothing to show
        some = sorted((c for c in cells[place] if c.label in order), key=lambda c: order.index(c.label))
        found.append(_example(place, f"{place[1]}, example {place[2]}, {run.short(place[0])}", some))
    return sorted(found, key=lambda example: len(example.units) > LONG)


def distribution(examples: Sequence[Example]) -> Drawing | Missing:
    """The importance of each token of one example by several methods, the distractor shaded."""
    title = "Importance distributions"
    if not examples:
        return Missing(title, "no explanation is there to show, or only its numbers")
    one = max(examples, key=lambda e: (e.distractor.any(), e.level == "token", len(e.scores)))
    count, names = len(one.units), list(one.scores)
    page = sheet(min(24.0, max(6.0, 2.6 + LABEL_WIDTH * count)), 1.5 + 0.62 * len(names))
    panels = page.figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        for begin, end in _runs(one.distractor):
            axes.axvspan(begin - 0.5, end + 0.5, color=EDGE, alpha=0.7, linewidth=0)
        axes.bar(range(count), one.scores[name], width=0.75, color=colour_of(one.methods[name]))
        axes.set_ylabel(page.words(name, 22), rotation=0, ha="right", va="center", color=INK, **page.style())
        axes.set_ylim(0, max(0.02, float(one.scores[name].max()) * 1.08))
        axes.locator_params(axis="y", nbins=2)
        page.tidy(axes)
        axes.tick_params(axis="y", labelsize=6, colors=QUIET)
    _name_units(page, panels[-1], one)
    panels[-1].set_xlim(-0.8, count - 0.2)
    parts = [f"{one.title}. Importance of each token of the prompt for {one.said}"]
    parts += ["the distractor is shaded"] if one.distractor.any() else []
    parts += ["the antecedent is coloured"] if one.antecedent.any() else []
    return page.drawing("distribution", title, ", ".join(parts) + ". Each panel has its own scale.")


def heat_map(example: Example) -> Drawing:
    """Methods by tokens; each row has its own scale."""
    names, count = list(example.scores), len(example.units)
    page = sheet(min(24.0, max(6.0, 2.6 + LABEL_WIDTH * count)), 1.6 + 0.24 * len(names))
    axes = page.figure.subplots()
    for y, name in enumerate(names):
        scores = example.scores[name]
        shares = scores / (scores.max() or 1.0)
        seen = np.flatnonzero(shares > 0.004)
        # Alpha instead of colours that end in white: a dark page shows through as well.
        colours = [(COLOUR, float(shares[x])) for x in seen]
        axes.broken_barh([(x - 0.5, 1) for x in seen], (y - 0.46, 0.92), facecolors=colours, linewidth=0)
    axes.set_yticks(range(len(names)), [page.words(name) for name in names], **page.style())
    for begin, end in _runs(example.distractor):
        axes.plot([begin - 0.5, end + 0.5], [len(names) - 0.42] * 2, color=QUIET, linewidth=2, clip_on=False)
    _name_units(page, axes, example)
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_ylim(len(names) - 0.4, -0.6)
    page.tidy(axes)
    axes.tick_params(length=0)
    _colour_antecedent(axes, example)
    mark = " The antecedent is coloured." if example.antecedent.any() else ""
    mark += " The line below marks the distractor." if example.distractor.any() else ""
    caption = f"{example.title}: what led to {example.said}. Each row by its share of its largest score.{mark}"
    return page.drawing(f"heat_{_file(example)}", f"Heat map: {example.title}", caption)


def shaded(example: Example) -> Shaded:
    """The prompt as running text, once for each method."""
    texts = []
    for name, scores in example.scores.items():
        shares = scores / (scores.max() or 1.0)
        pieces = tuple((text, 0.0 if i is None else float(shares[i])) for text, i in example.pieces)
        texts.append((name, pieces))
    return Shaded(_file(example), example.title, f"▸ {example.said}", tuple(texts))


# --- choosing ---


def _choose(run: Run) -> list[_Place]:
    have: dict[_Place, set[str]] = defaultdict(set)
    for row in run.rows:
        have[row.model, row.dataset, row.example, row.seed].add(row.label)
    chosen: list[_Place] = []
    for dataset in run.datasets:
        places = sorted(
            (place for place in have if place[1] == dataset),
            key=lambda p: (-len(have[p]), run.models.index(p[0]), p[3], natural(p[2])),
        )
        chosen += places[: max(1, SHOWN // len(run.datasets))]
    return chosen[:SHOWN]


def _spread(run: Run) -> list[str]:
    """Which entries to show: one of each method before a second of any."""
    seen: dict[str, int] = defaultdict(int)
    methods = {row.label: row.method for row in run.rows}
    ranked = []
    for i, label in enumerate(run.labels):
        ranked.append((seen[methods[label]], i, label))
        seen[methods[label]] += 1
    kept = {label for _, _, label in sorted(ranked)[:METHODS_SHOWN]}
    return [label for label in run.labels if label in kept]


def _example(place: _Place, title: str, cells: Sequence[Cell]) -> Example:
    first = cells[0]
    assert first.explanation is not None
    why, marks = first.explanation, annotation(first) or Annotation()
    drawn = [i for i, unit in enumerate(why.input) if not (unit.protected and unit.end <= unit.start)]
    at = {position: i for i, position in enumerate(drawn)}
    names = labels(why.input)
    return Example(
        place=place,
        level=first.level,
        units=[shorten(names[i], LABEL_LENGTH) for i in drawn],
        pieces=[
            (piece.text, None if piece.position is None else at.get(piece.position))
            for piece in pieces_before(len(why.input), split_into_pieces(why))
            if piece.position is None or piece.position in at
        ],
        scores={cell.label: _mean(cell)[drawn] for cell in cells},
        methods={cell.label: cell.method for cell in cells},
        said=_output(why, targets_of(first)),
        distractor=units_in_spans(why.input, marks.distractor)[drawn],
        antecedent=units_in_spans(why.input, marks.antecedent)[drawn],
        title=title,
    )


def _mean(cell: Cell) -> Floats:
    """Over the targets that were looked at, for the units of the prompt."""
    assert cell.explanation is not None
    n = len(cell.explanation.input)
    rows = np.array([cell.explanation.scores[t][:n] for t in targets_of(cell)], dtype=np.float64)
    return np.asarray(rows.mean(0))


def _output(why: Explanation, targets: Sequence[int]) -> str:
    if len(targets) == 1:
        return f"“{mark_whitespace(why.output[targets[0]].text)}”"
    return f"“{shorten(mark_whitespace(why.completion), SAID_LENGTH)}” (mean over {len(targets)} of its tokens)"


def _file(example: Example) -> str:
    model, dataset, name, seed = example.place
    return safe(f"{dataset}_{name}_{model}") + (f"_{seed}" if seed else "")


# --- drawing ---


def _name_units(page: Sheet, axes: "Axes", example: Example) -> None:
    count = len(example.units)
    step = max(1, -(-count // 100))
    shown = range(0, count, step)
    axes.set_xticks(shown, [page.words(example.units[i]) for i in shown], rotation=90, **page.style())
    _colour_antecedent(axes, example)


def _colour_antecedent(axes: "Axes", example: Example) -> None:
    for tick in axes.get_xticklabels():
        i = round(tick.get_position()[0])
        marked = 0 <= i < len(example.units) and bool(example.antecedent[i])
        tick.set_color(LINES[1] if marked else QUIET if example.distractor[i : i + 1].any() else INK)
        tick.set_fontweight("bold" if marked else "normal")


def _runs(marked: Mask) -> list[tuple[int, int]]:
    """First and last of each stretch that is marked."""
    places = np.flatnonzero(marked)
    cuts = np.flatnonzero(np.diff(places) > 1) + 1
    return [(int(run[0]), int(run[-1])) for run in np.split(places, cuts) if len(run)]
