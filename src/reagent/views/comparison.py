"""Explanations of one answer by several methods, side by side: in the terminal, as an HTML page, as LaTeX."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
from rich import box, get_console
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reagent.errors import InputError
from reagent.explanation import Explanation, Token
from reagent.views.html import component, document, summary, title, view_data
from reagent.views.latex import escaped, shaded
from reagent.views.shading import Shading
from reagent.views.summary import (
    NAME_LENGTH,
    Line,
    chances,
    context_noun,
    facts,
    in_words,
    mean_scores,
    question,
    shown_row,
    warning_lines,
    words,
)
from reagent.views.terminal import Name, can_shade, print_parts, styled, warned
from reagent.views.text import all_labels, running, shortened

BEST = 3  # so many of each method's units are listed
UNIT_WIDTH, NUMBER_WIDTH, GAP = 26, 7, 3  # cells that a table needs for a unit and its position, a number, between two
CORRELATED = "rank correlation"

_LATEX = r"""% Needs \usepackage{xcolor}. Scripts other than Latin need XeLaTeX or LuaLaTeX and a font that has them.
% Each token is shaded by its score as a share of the largest of the method.
\begingroup\setlength{\fboxsep}{1pt}%
\begin{tabular}{@{}p{0.17\linewidth}p{0.78\linewidth}@{}}
\multicolumn{2}{@{}p{0.95\linewidth}@{}}{$heading}\tabularnewline[4pt]
$rows
\end{tabular}%
\endgroup
"""


def names(explanations: Sequence[Explanation]) -> list[str]:
    """Short names: the method and its preset, and where two would share that, the replacer, then a number."""
    found = [shortened(words(why.method, "id", "preset"), NAME_LENGTH) for why in explanations]
    found = [
        f"{name} {shortened(words(why.replacer, 'id'), NAME_LENGTH)}"
        if why.replacer and found.count(name) > 1
        else name
        for name, why in zip(found, explanations, strict=True)
    ]
    return [f"{name} ({found[: i + 1].count(name)})" if found.count(name) > 1 else name for i, name in enumerate(found)]


def show_comparison(
    explanations: Sequence[Explanation], target: int | None = None, console: Console | None = None
) -> None:
    """Print the context of output token `target` (or what was asked about, or the prompt for all), once per method."""
    console = console or get_console()
    print_parts(console, _parts(_compared(explanations, target), can_shade(console), console.width))


def comparison_page(explanations: Sequence[Explanation]) -> str:
    """A whole HTML document that works without a network."""
    compared = _compared(explanations)
    said = (f"{name}: {summary(why)}" for name, why in zip(compared.names, explanations, strict=True))
    return document(title(explanations[0]), component(comparison_data(explanations), ". ".join(said)))


def comparison_data(explanations: Sequence[Explanation]) -> list[dict[str, Any]]:
    """What `reagentCompare` in view.js draws; plain JSON."""
    return [
        {"name": name, "cost": in_words(why.cost), "view": view_data(why)}
        for name, why in zip(names(explanations), explanations, strict=True)
    ]


def latex(explanations: Sequence[Explanation], target: int | None = None) -> str:
    """A table for a paper: a row for each method, each token in a box of its shade."""
    compared = _compared(explanations, target)
    pieces = running(compared.first)
    heading = "".join(rf"\textbf{{{escaped(text)}}}" if quoted else escaped(text) for text, quoted in compared.heading)
    rows = (
        rf"{escaped(name)} & \raggedright\leavevmode {shaded(pieces, scores)}\tabularnewline[4pt]"
        for name, scores in zip(compared.names, compared.scores, strict=True)
    )
    return Template(_LATEX).substitute(heading=heading, rows="\n".join(rows))


# --- what is compared ---


@dataclass(frozen=True)
class _Compared:
    """Explanations that can be compared, and what of them: row `target`, or the mean of all."""

    explanations: Sequence[Explanation]
    names: list[str]
    target: int | None
    scores: Sequence[Sequence[float]]  # for each method, one for each unit of the context

    @property
    def first(self) -> Explanation:
        return self.explanations[0]

    @property
    def heading(self) -> Line:
        if self.target is not None:
            return question(self.first, self.target)
        return [(f"The prompt, by its mean score over the {len(self.first.output)} output tokens", False)]


# What must be the same in all, or their scores do not belong side by side.
_SAME: dict[str, Callable[[Explanation], Hashable]] = {
    "prompt": lambda why: why.prompt,
    "output": lambda why: why.completion,
    "units of the prompt": lambda why: _spans(why.input),
    "units of the output": lambda why: _spans(why.output),
    "question": lambda why: words(why.target, "kind", "index", "text"),
}


def _compared(explanations: Sequence[Explanation], target: int | None = None) -> _Compared:
    if not explanations:
        raise InputError("there is nothing to compare: give at least one explanation")
    first, called = explanations[0], names(explanations)
    for what, part in _SAME.items():
        for why, name in zip(explanations, called, strict=True):
            if part(why) != part(first):
                raise InputError(
                    f"{name!r} and {called[0]!r} do not have the same {what}: "
                    "explain one prompt and output with all methods, with one unit and without levels"
                )
    if not first.output:
        raise InputError("there is nothing to compare: these explanations have no output token")
    row = shown_row(first, target)
    scores = [mean_scores(why) if row is None else why.scores[row] for why in explanations]
    return _Compared(explanations, called, row, scores)


def _spans(units: Sequence[Token]) -> tuple[tuple[int, int], ...]:
    return tuple((unit.start, unit.end) for unit in units)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's: the correlation of the ranks; None where one side has no order at all.

    >>> rank_correlation([0.1, 0.2, 0.7], [0.0, 0.4, 0.6])
    1.0
    """
    ranks = np.array([_ranks(a), _ranks(b)])
    if len(a) < 2 or not ranks.std(axis=1).all():
        return None
    return round(float(np.corrcoef(ranks)[0, 1]), 12)


def _ranks(values: Sequence[float]) -> Any:
    """From the smallest; equal values share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (count.cumsum() - (count - 1) / 2)[place]


# --- the terminal ---


def _parts(compared: _Compared, colour: bool, width: int) -> Iterator[RenderableType]:
    first, target = compared.first, compared.target
    yield styled(compared.heading).append("" if target is None else f"  {chances(first, target)}".rstrip())
    shading = Shading(running(first), context_noun(first), colour)
    texts, room = Table.grid("", "", padding=(1, 2)), max(12, width // 5)
    for name, scores in zip(compared.names, compared.scores, strict=True):
        texts.add_row(Text(name if cell_len(name) <= room else _stacked(name), style="bold"), shading.context(scores))
    yield Padding(texts, (1, 2))
    yield shading.shared_legend("method")
    if not any(map(any, compared.scores)):
        yield Text(f"No context {context_noun(first)} has any importance.")
    yield from _tables(compared, width)
    if len(compared.names) > 1:
        yield Text(f"{CORRELATED}: Spearman’s, with {compared.names[0]}", style="dim")
    for name, why in zip(compared.names, compared.explanations, strict=True):
        yield from (warned(f"{name}: {line}") for line in warning_lines(why, target))
    shared = [fact for fact in facts(first) if all(fact in facts(why) for why in compared.explanations)]
    yield Text(" · ".join(f"{name} {value}" for name, value in shared), style="dim")


def _tables(compared: _Compared, width: int) -> Iterator[Table]:
    """The methods side by side, in as many tables as the width demands."""
    heads = [_stacked(name) for name in compared.names]
    units, sums = list(_unit_rows(compared)), list(_sum_rows(compared))
    widths = [GAP + max(NUMBER_WIDTH, *map(cell_len, head.split())) for head in heads]
    for shown in _fitting(widths, width - UNIT_WIDTH):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(context_noun(compared.first), min_width=len(CORRELATED))
        table.add_column("at", justify="right", no_wrap=True)
        for head in heads[shown]:
            table.add_column(head, justify="right")
        for rows in (units, sums):
            for name, at, cells in rows:
                table.add_row(name, at, *cells[shown])
            table.add_section()
        yield table


def _fitting(widths: Sequence[int], room: int) -> Iterator[slice]:
    """Which of the columns stand in each table."""
    start = used = 0
    for i, width in enumerate(widths):
        if used and used + width > room:
            yield slice(start, i)
            start, used = i, 0
        used += width
    yield slice(start, len(widths))


def _stacked(name: str) -> str:
    """The name over several lines."""
    return "\n".join(name.replace("-", "- ").split())


_Row = tuple[RenderableType, str, list[Text | str]]  # a name, a position, a cell for each method


def _unit_rows(compared: _Compared) -> Iterator[_Row]:
    """What is among the best of any method."""
    labels, best = all_labels(compared.first), [_best(scores) for scores in compared.scores]
    for i in sorted(set().union(*best), key=lambda i: -sum(scores[i] for scores in compared.scores)):
        yield (
            Name(labels[i]),
            str(i),
            [
                Text(f"{scores[i]:.3f}", style="bold" if own[:1] == [i] else "")
                for scores, own in zip(compared.scores, best, strict=True)
            ],
        )


def _sum_rows(compared: _Compared) -> Iterator[_Row]:
    """What there is to say about each method as a whole."""
    context = (compared.first.input + compared.first.output)[: len(compared.scores[0])]
    counted = [i for i, unit in enumerate(context) if not unit.protected]
    ranked = [[scores[i] for i in counted] for scores in compared.scores]
    similar = [rank_correlation(ranked[0], scores) for scores in ranked]
    costs = [why.cost for why in compared.explanations]
    if len(costs) > 1:
        yield CORRELATED, "", ["–" if value is None else f"{round(value, 2) + 0:.2f}" for value in similar]
    yield "forward passes", "", [f"{cost.forward_passes:,}" for cost in costs]
    yield "seconds", "", [f"{cost.seconds:,.2f}" for cost in costs]


def _best(scores: Sequence[float]) -> list[int]:
    """The positions of the largest scores, largest first."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    return [i for i in order[:BEST] if scores[i] > 0]
