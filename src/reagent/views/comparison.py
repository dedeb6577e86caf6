"""Explanations of one output by several methods, side by side: in the terminal, as HTML, as LaTeX."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from string import Template
from typing import Any

from rich import box, get_console
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reagent.comparison import Comparison
from reagent.errors import InputError
from reagent.explanation import Explanation, Row, Token
from reagent.views import html
from reagent.views.display import annotated_row, displayed, main_row, row_of, with_cut_marked
from reagent.views.fitted_label import FittedLabel
from reagent.views.groups import describe_groups, describe_sufficiency, group_captions, group_letters, group_marks
from reagent.views.html import page_title, render_component, render_document, summarize
from reagent.views.latex import escape_latex, render_caption, render_shaded
from reagent.views.shading import Shading, render_template
from reagent.views.summary import (
    NAME_LENGTH,
    Caption,
    collect_warnings,
    context_noun,
    describe_cost,
    describe_probability,
    facts,
    join_values,
    question_caption,
)
from reagent.views.terminal import (
    format_caption,
    format_warning,
    print_parts,
    render_failed_test,
    render_groups,
    supports_shading,
)
from reagent.views.text import all_labels, shorten, split_into_pieces, template_text

TOP_PER_METHOD = 3  # the number of units listed for each method
UNIT_WIDTH, NUMBER_WIDTH, GAP = 26, 7, 3  # cells for a unit and its position, for a number, between two columns
CORRELATION = "rank correlation"

_LATEX = r"""% Needs \usepackage{xcolor}. Scripts other than Latin need XeLaTeX or LuaLaTeX and a font that has them.
% The shade of a token is its score divided by the largest score of the method.
\begingroup\setlength{\fboxsep}{1pt}%
\begin{tabular}{@{}p{0.17\linewidth}p{0.78\linewidth}@{}}
\multicolumn{2}{@{}p{0.95\linewidth}@{}}{$heading}\tabularnewline[4pt]
$rows
\end{tabular}%
\endgroup
"""


def method_names(explanations: Sequence[Explanation]) -> list[str]:
    """Name each explanation by its method and preset; equal names get the replacer, then a number."""
    names = [shorten(join_values(why.method, "id", "preset"), NAME_LENGTH) for why in explanations]
    names = [
        f"{name} {shorten(join_values(why.replacer, 'id'), NAME_LENGTH)}"
        if why.replacer and names.count(name) > 1
        else name
        for name, why in zip(names, explanations, strict=True)
    ]
    return [f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name for i, name in enumerate(names)]


def show(comparison: Comparison, target: int | None = None, console: Console | None = None) -> None:
    """Print the context once per method: of output token `target`, or the requested one, or the whole answer."""
    console = console or get_console()
    aligned = _align(comparison, target)
    print_parts(console, _render(aligned, supports_shading(console), console.width))


def render_page(comparison: Comparison) -> str:
    """Render a whole HTML document that works without a network."""
    return render_document(page_title(comparison[0]), render_fragment(comparison))


def render_fragment(comparison: Comparison) -> str:
    """Render a part of a document, which may contain several of them."""
    names = _align(comparison).names
    texts = (f"{name}: {summarize(why)}" for name, why in zip(names, comparison, strict=True))
    data = to_view_data(comparison)
    extra = html.trace_script(one["view"] for one in data)
    return render_component(data, f"<p>{escape('. '.join(texts))}</p>", view="reagentCompare", extra=extra)


def to_view_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Collect the data that `reagentCompare` in view.js draws, as plain JSON."""
    return [
        {"name": name, "cost": describe_cost(why.cost), "view": html.to_view_data(why, _unit(comparison))}
        for name, why in zip(comparison.names, comparison, strict=True)
    ]


def render_latex(comparison: Comparison, target: int | None = None) -> str:
    """Render a table with a row for each method and each token in a shaded box."""
    aligned = _align(comparison, target)
    pieces = split_into_pieces(aligned.first)
    rows = []
    for name, scores, annotated in zip(aligned.names, aligned.scores, aligned.annotated, strict=True):
        text = render_shaded(pieces, scores, group_letters(*annotated))
        cells = [rf"{escape_latex(name)} & \raggedright\leavevmode {text}", *_latex_notes(*annotated)]
        rows += [rf"{cell}\tabularnewline[4pt]" for cell in cells]
    return Template(_LATEX).substitute(heading=render_caption(aligned.heading), rows="\n".join(rows))


def _latex_notes(why: Explanation, target: int | None) -> Iterator[str]:
    """Render the rows below the text of a method: the result of the sufficiency test, then each group."""
    test = describe_sufficiency(why, target)
    if test:
        style = r"\footnotesize " if test.passed else r"\textbf{Warning:} "
        yield rf" & \raggedright{style}{render_caption(test.caption)}"
    if target is None:
        groups = [render_caption(caption) for caption in group_captions(why, None)]
    else:
        groups = [render_caption(group.caption, group.letter) for group in describe_groups(why, target)]
    yield from (rf" & \raggedright\footnotesize {group}" for group in groups)


# --- alignment ---


@dataclass(frozen=True)
class _Aligned:
    """A comparison whose explanations have the same units; views show row `target`."""

    comparison: Comparison
    names: tuple[str, ...]
    target: int
    annotated: Sequence[tuple[Explanation, int | None]]  # for each method, see `annotated_row`

    @property
    def scores(self) -> list[Row]:
        """For each method, one for each unit of the context."""
        return [why.scores[self.target] for why in self.comparison]

    @property
    def first(self) -> Explanation:
        return self.comparison[0]

    @property
    def heading(self) -> Caption:
        return question_caption(self.first, self.target)


# Scores can be aligned only if all explanations agree in these.
_SHARED: dict[str, Callable[[Explanation], Hashable]] = {
    "prompt": lambda why: why.prompt,
    "output": lambda why: why.completion,
    "units of the prompt": lambda why: _spans(why.input),
    "units of the output": lambda why: _spans(why.output),
    "target": lambda why: join_values(why.target, "kind", "index", "text"),
}


def _align(comparison: Comparison, target: int | None = None) -> _Aligned:
    """Check that the explanations can be aligned, and select the scores of one row or of all."""
    first, names = comparison[0], comparison.names
    for what, value in _SHARED.items():
        for why, name in zip(comparison, names, strict=True):
            if value(why) != value(first):
                raise InputError(
                    f"{name!r} and {names[0]!r} do not have the same {what}: "
                    "explain one prompt and output with all methods, with one unit and without levels"
                )
    if not first.output:
        raise InputError("there is nothing to compare: these explanations have no output token")
    if target is not None:
        row = row_of(first, target)
        marked = Comparison(tuple(map(with_cut_marked, comparison)))
        return _Aligned(marked, names, row, [(why, row) for why in marked])
    shown = [displayed(why, _unit(comparison)) for why in comparison]
    main, row = Comparison(tuple(main_row(why)[0] for why in shown)), main_row(shown[0])[1]
    return _Aligned(main, names, row, [annotated_row(why) for why in shown])


def _unit(comparison: Comparison) -> str:
    """One unit for all explanations, so that their rows are aligned."""
    return comparison[0].display_unit or "token"


def _spans(units: Sequence[Token]) -> tuple[tuple[int, int], ...]:
    return tuple((unit.start, unit.end) for unit in units)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Compute Spearman's rank correlation; None where one side has fewer than two different values.

    >>> rank_correlation([0.1, 0.2, 0.7], [0.0, 0.4, 0.6])
    1.0
    """
    from scipy.stats import spearmanr

    if len(set(a)) < 2 or len(set(b)) < 2:
        return None
    return round(float(spearmanr(a, b).statistic), 12)


# --- the terminal ---


def _render(aligned: _Aligned, colour: bool, width: int) -> Iterator[RenderableType]:
    first, target = aligned.first, aligned.target
    probability = f"  {describe_probability(first, target)}".rstrip()
    yield format_caption(aligned.heading).append(probability)
    yield from render_template(template_text(first))
    shading = Shading(split_into_pieces(first), context_noun(first), colour)
    texts, room = Table.grid("", "", padding=(1, 2)), max(12, width // 5)
    for name, scores, annotated in zip(aligned.names, aligned.scores, aligned.annotated, strict=True):
        text = shading.render_context(scores, marks=group_marks(*annotated))
        notes = (*render_failed_test(*annotated), text, *render_groups(*annotated))
        texts.add_row(Text(name if cell_len(name) <= room else _stack(name), style="bold"), Group(*notes))
    yield Padding(texts, (1, 2))
    yield shading.shared_legend("method")
    if not any(map(any, aligned.scores)):
        yield Text(f"No context {context_noun(first)} has any importance.")
    yield from _tables(aligned, width)
    if len(aligned.names) > 1:
        yield Text(f"{CORRELATION}: Spearman’s, with {aligned.names[0]}", style="dim")
    for name, annotated in zip(aligned.names, aligned.annotated, strict=True):
        yield from (format_warning(f"{name}: {line}") for line in collect_warnings(*annotated))
    shared = [fact for fact in facts(first) if all(fact in facts(why) for why in aligned.comparison)]
    yield Text(" · ".join(f"{name} {value}" for name, value in shared), style="dim")


def _tables(aligned: _Aligned, width: int) -> Iterator[Table]:
    """Render the methods side by side, in as many tables as the width requires."""
    heads = [_stack(name) for name in aligned.names]
    units, totals = list(_unit_rows(aligned)), list(_total_rows(aligned))
    widths = [GAP + max(NUMBER_WIDTH, *map(cell_len, head.split())) for head in heads]
    for columns in _split_columns(widths, width - UNIT_WIDTH):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(context_noun(aligned.first), min_width=len(CORRELATION))
        table.add_column("at", justify="right", no_wrap=True)
        for head in heads[columns]:
            table.add_column(head, justify="right")
        for rows in (units, totals):
            for name, at, cells in rows:
                table.add_row(name, at, *cells[columns])
            table.add_section()
        yield table


def _split_columns(widths: Sequence[int], room: int) -> Iterator[slice]:
    """Assign the columns to tables that fit in the room."""
    start = used = 0
    for i, width in enumerate(widths):
        if used and used + width > room:
            yield slice(start, i)
            start, used = i, 0
        used += width
    yield slice(start, len(widths))


def _stack(name: str) -> str:
    """Split the name into lines."""
    return "\n".join(name.replace("-", "- ").split())


_Row = tuple[RenderableType, str, list[Text | str]]  # a name, a position, a cell for each method


def _unit_rows(aligned: _Aligned) -> Iterator[_Row]:
    """List the units that are among the best of any method."""
    labels, best = all_labels(aligned.first), [_best(scores) for scores in aligned.scores]
    for i in sorted(set().union(*best), key=lambda i: -sum(scores[i] for scores in aligned.scores)):
        yield (
            FittedLabel(labels[i]),
            str(i),
            [
                Text(f"{scores[i]:.3f}", style="bold" if own[:1] == [i] else "")
                for scores, own in zip(aligned.scores, best, strict=True)
            ],
        )


def _total_rows(aligned: _Aligned) -> Iterator[_Row]:
    """List the numbers about each method as a whole."""
    context = (aligned.first.input + aligned.first.output)[: len(aligned.scores[0])]
    free = [i for i, unit in enumerate(context) if not unit.protected]
    ranked = [[scores[i] for i in free] for scores in aligned.scores]
    correlations = [rank_correlation(ranked[0], scores) for scores in ranked]
    costs = [why.cost for why in aligned.comparison]
    if len(costs) > 1:
        yield CORRELATION, "", ["–" if value is None else f"{round(value, 2) + 0:.2f}" for value in correlations]
    yield "forward passes", "", [f"{cost.forward_passes:,}" for cost in costs]
    yield "seconds", "", [f"{cost.seconds:,.2f}" for cost in costs]


def _best(scores: Sequence[float]) -> list[int]:
    """Return the positions of the largest scores, largest first."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    return [i for i in order[:TOP_PER_METHOD] if scores[i] > 0]
