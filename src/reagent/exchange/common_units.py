"""Explanations of one text in common units, so that they can be evaluated and shown together."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from reagent.aggregation import merge_inputs
from reagent.errors import InputError
from reagent.explanation import Explanation, Row, Token


def align(explanations: Sequence[Explanation]) -> list[Explanation]:
    """The same explanations over the smallest units that all of them have.

    If one of them attributes only the prompt, the others lose their shares of earlier output tokens.
    """
    first = explanations[0]
    for other in explanations[1:]:
        if (other.prompt, other.completion) != (first.prompt, first.completion):
            raise InputError(
                f"explanations of one prompt and one output are compared, got {_texts(first)} and {_texts(other)}"
            )
    if len({why.attributes for why in explanations}) > 1:
        explanations = [over_the_prompt(why) for why in explanations]
    if len({_places(why.input) for why in explanations}) == 1:
        return list(explanations)
    edges = sorted(
        set.intersection(*({edge for place in _places(why.input) for edge in place} for why in explanations))
    )
    return [merge_inputs(why, _runs(why.input, edges), "span") for why in explanations]


def over_the_prompt(explanation: Explanation) -> Explanation:
    """Without the shares of earlier output tokens; the scores of the prompt sum to 1."""
    if explanation.attributes == "prompt":
        return explanation
    inputs = explanation.input
    effects, errors = explanation.effects, explanation.stderr
    return replace(
        explanation,
        attributes="prompt",
        scores=tuple(_normalized(row, inputs) for row in explanation.scores),
        effects=effects and tuple(_only(row, len(inputs)) for row in effects),
        stderr=errors and tuple(_only(row, len(inputs)) for row in errors),
        groups=tuple(tuple(g for g in groups if g.units[-1] < len(inputs)) for groups in explanation.groups),
        sufficiency=None,
        shapley_values=None,
        trace=None,
        levels=(),
        what_if=(),
    )


def _normalized(row: Row, inputs: Sequence[Token]) -> Row:
    total = sum(row[: len(inputs)])
    if total > 0:
        return tuple(score / total for score in _only(row, len(inputs)))
    free = [0.0 if unit.protected else 1.0 for unit in inputs]
    return (*(share / sum(free) for share in free), *(0.0 for _ in row[len(inputs) :]))


def _only(row: Row, inputs: int) -> Row:
    return (*row[:inputs], *(0.0 for _ in row[inputs:]))


def _runs(units: Sequence[Token], edges: Sequence[int]) -> list[list[int]]:
    """The units between two edges; special tokens, which are not part of the text, stay alone."""

    def key(i: int) -> tuple[int, int]:
        unit = units[i]
        return (sum(edge <= unit.start for edge in edges), -1) if unit.start < unit.end else (-1, i)

    return [list(run) for _, run in groupby(range(len(units)), key)]


def _places(units: Sequence[Token]) -> tuple[tuple[int, int], ...]:
    return tuple((unit.start, unit.end) for unit in units)


def _texts(why: Explanation) -> str:
    return repr(f"…{why.prompt[-20:]} ▸ {why.completion[:20]}")
