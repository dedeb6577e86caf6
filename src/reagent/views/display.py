"""What a view shows of an explanation: words in place of tokens, and the answer as a whole first."""

from dataclasses import replace

from reagent.errors import UnknownNameError
from reagent.explanation import Explanation
from reagent.segmentation import UNITS
from reagent.views.text import CUT, mark_cut


def displayed(explanation: Explanation, unit: str | None = None) -> Explanation:
    """The explanation in the unit that views show: `unit`, or the one that it asks for itself.

    Tokens of the output become larger units too, except where one of them was requested: a phrase, or a token in
    contrast to another. A traced answer is shown as such. An answer that ends inside a character has a mark there.
    """
    explanation = explanation if explanation.trace is None else explanation.traced()
    if unit is not None and unit not in ("token", *UNITS):
        raise UnknownNameError("unit", unit, ["token", *UNITS])
    unit = unit or explanation.display_unit
    if unit not in UNITS or explanation.unit != "token":
        return with_cut_marked(explanation)
    return with_cut_marked(explanation.aggregate(unit, output="index" not in explanation.target))


def with_cut_marked(explanation: Explanation) -> Explanation:
    """Replace the incomplete character at the end of the answer by a mark; its tokens keep their scores."""
    completion = mark_cut(explanation.completion)
    if completion == explanation.completion:
        return explanation
    cut = len(completion) - len(CUT)
    output = []
    for unit in explanation.output:
        start, end = min(unit.start, cut), unit.end if unit.end <= cut else len(completion)
        output.append(replace(unit, text=completion[start:end], start=start, end=end))
    return replace(explanation, completion=completion, output=tuple(output))


def main_row(explanation: Explanation) -> tuple[Explanation, int]:
    """The explanation and its row that answer the question: the requested row, or the answer as a whole."""
    if "index" in explanation.target:
        return explanation, explanation.focus
    return explanation.whole(), 0


def annotated_row(explanation: Explanation) -> tuple[Explanation, int | None]:
    """The explanation and its row with the groups, tests and warnings; None: the answer has only those of its parts."""
    main, row = main_row(explanation)
    return (main, row) if main is explanation or explanation.answer is not None else (explanation, None)


def row_of(explanation: Explanation, target: int) -> int:
    """The row of output token `target`; a negative number counts from the end, an unknown one is an InputError."""
    return len(explanation.context(target)) - len(explanation.input)


def output_noun(shown: Explanation, explanation: Explanation) -> str:
    """Name the units of the output in one word; they are tokens unless `displayed` has summed them up."""
    return "token" if shown.unit == explanation.unit or "index" in explanation.target else shown.unit
