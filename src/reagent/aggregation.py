"""The same explanation of larger units: words or sentences in place of tokens, and the answer as a whole.

Log-probabilities of output tokens add up, so the effect of a unit on several output tokens is the sum of its effects on
each. In the prompt, the sum over the tokens of a word is not the effect of removing the word; `explain` measures that
if it is given the unit.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from reagent.errors import InputError
from reagent.explanation import (
    STOP_REASONS,
    Cost,
    Explanation,
    Group,
    Level,
    Row,
    Rows,
    Sufficiency,
    Token,
    WhatIf,
    WholeAnswer,
    join_tokens,
)
from reagent.segmentation import UNITS, Span, assign
from reagent.validation import check_name

LONGEST_WORD = 50  # characters kept on either side of a replaced token: a "word" may be as long as the prompt

Runs = Sequence[Sequence[int]]  # neighbouring units that become one
Mover = Callable[[int], int]  # from the old position of a unit to its new one


def aggregate_units(explanation: Explanation, unit: str, output: bool) -> Explanation:
    """The explanation with the tokens of its prompt, and with `output` those of its answer, in larger units."""
    check_name("unit", unit, UNITS)
    if not isinstance(output, bool):
        raise InputError(f"`output` must be True or False, got {output!r}")
    runs = _runs(explanation.input, UNITS[unit](explanation.prompt), explanation.prompt)
    why = replace(merge_inputs(explanation, runs, unit), display_unit=unit)
    if not output:
        return why
    runs = _runs(why.output, UNITS[unit](why.completion), why.completion)
    if len(runs) == 1 and why.answer is not None:  # the answer is one word, and was measured as a whole
        return replace(whole_answer(why), what_if=tuple(one for one in why.what_if if one.target == 0))
    return _aggregate_output(why, runs)


def whole_answer(explanation: Explanation) -> Explanation:
    """The explanation of the answer as a whole, with one output unit."""
    if len(explanation.output) < 2:
        return explanation
    row = explanation.answer or sum_up_rows(explanation.scores, explanation.effects, explanation.stderr, explanation)
    values = row.shapley_values
    if explanation.answer is None and explanation.shapley_values is not None:  # they are linear in the target
        values = _sum(explanation.shapley_values, len(explanation.input))
    return replace(
        explanation,
        output=(join_tokens(explanation.completion, explanation.output),),
        target={"kind": "tokens"},
        scores=(row.scores,),
        effects=None if row.effects is None else (row.effects,),
        stderr=None if row.stderr is None else (row.stderr,),
        shapley_values=None if values is None else (values,),
        groups=(row.groups,),
        sufficiency=None if row.sufficiency is None else (row.sufficiency,),
        answer=None,
        trace=None,
        levels=tuple(_whole_level(level, explanation) for level in explanation.levels),
        what_if=(),
        cost=merge_cost(explanation.cost, [range(len(explanation.output))], row.stopped),
    )


def sum_up_rows(
    scores: Sequence[Sequence[float]],
    effects: Sequence[Sequence[float]] | None,
    stderr: Sequence[Sequence[float]] | None,
    explanation: Explanation,
) -> WholeAnswer:
    """The answer as a whole from the rows of its tokens; standard errors are added, because rows share their probes."""
    inputs, stopped = len(scores[0]), explanation.cost.stopped
    explained = [t for t, reason in enumerate(stopped) if reason != "unasked"] or range(len(stopped))

    def choose(rows: Sequence[Sequence[float]] | None) -> list[Sequence[float]] | None:
        return None if rows is None else [rows[t] for t in explained]

    chosen, errors = choose(effects), choose(stderr)
    total = None if chosen is None else _sum(chosen, inputs)
    return WholeAnswer(
        scores=_merge_scores([scores[t] for t in explained], chosen, inputs),
        effects=total,
        stderr=None if errors is None else _sum(errors, inputs),
        groups=(),
        sufficiency=None,
        stopped="flat" if total is not None and max(total) <= 0 else _worst([stopped[t] for t in explained]),
    )


def _whole_level(level: Level, explanation: Explanation) -> Level:
    row = level.answer or sum_up_rows(level.scores, level.effects, level.stderr, explanation)
    return replace(
        level,
        scores=(row.scores,),
        effects=None if row.effects is None else (row.effects,),
        stderr=None if row.stderr is None else (row.stderr,),
        answer=None,
    )


# --- units of the prompt ---


def merge_inputs(why: Explanation, runs: Runs, unit: str) -> Explanation:
    """The explanation with each run of units of the prompt as one; `unit` names the larger units."""
    unit_of = [number for number, run in enumerate(runs) for _ in run]
    shift = len(runs) - len(why.input)

    def move(position: int) -> int:
        return unit_of[position] if position < len(unit_of) else position + shift

    answer = why.answer and replace(
        why.answer,
        scores=_sum_runs((why.answer.scores,), runs)[0],
        effects=None if why.answer.effects is None else _sum_runs((why.answer.effects,), runs)[0],
        stderr=None if why.answer.stderr is None else _sum_runs((why.answer.stderr,), runs, _root_of_squares)[0],
        shapley_values=None,
        groups=_move_groups(why.answer.groups, move),
        sufficiency=_move_test(why.answer.sufficiency, move),
    )
    trace = why.trace and replace(
        why.trace, direct=_sum_runs((why.trace.direct,), runs)[0], traced=_sum_runs((why.trace.traced,), runs)[0]
    )
    units = tuple(join_tokens(why.prompt, [why.input[i] for i in run]) for run in runs)
    return replace(
        why,
        input=units,
        unit=unit,
        display_unit=None,
        groups=tuple(_move_groups(groups, move) for groups in why.groups),
        sufficiency=None if why.sufficiency is None else tuple(_move_test(test, move) for test in why.sufficiency),
        answer=answer,
        trace=trace,
        what_if=tuple(_move_what_if(one, why, units, move) for one in why.what_if),
        scores=_sum_runs(why.scores, runs),
        effects=None if why.effects is None else _sum_runs(why.effects, runs),
        stderr=None if why.stderr is None else _sum_runs(why.stderr, runs, _root_of_squares),
        shapley_values=None,
    )


def _runs(tokens: Sequence[Token], units: Sequence[Span], text: str) -> list[list[int]]:
    """The tokens of each unit. Protected tokens and tokens outside all units stay alone."""
    cut = assign([(token.start, token.end) for token in tokens], units, text)
    keys = [(c, i if c is None or t.protected else -1) for i, (c, t) in enumerate(zip(cut, tokens, strict=True))]
    return [[i for i, _ in run] for _, run in groupby(enumerate(keys), key=lambda pair: pair[1])]


def _sum_runs(rows: Rows, runs: Runs, total: Callable[[Iterable[float]], float] = sum) -> Rows:
    """The total over each run of the prompt's units; columns of the output are kept."""
    inputs = sum(map(len, runs))
    return tuple((*(total(row[i] for i in run) for run in runs), *row[inputs:]) for row in rows)


def _root_of_squares(errors: Iterable[float]) -> float:
    """The standard error of a sum of independent numbers."""
    return math.hypot(*errors)


def _move_groups(groups: Iterable[Group], move: Mover) -> tuple[Group, ...]:
    """The same groups of larger units; a group inside one unit is left out."""
    moved = ((group, tuple(sorted({move(position) for position in group.units}))) for group in groups)
    best: dict[tuple[tuple[int, ...], str], Group] = {}
    for group, units in moved:
        known = best.get((units, group.kind))
        if len(units) > 1 and (known is None or group.effect > known.effect):
            best[units, group.kind] = replace(group, units=units)
    return tuple(best.values())


def _move_test(test: Sufficiency | None, move: Mover) -> Sufficiency | None:
    return test and replace(test, units=tuple(dict.fromkeys(map(move, test.units))))


def _move_what_if(what_if: WhatIf, why: Explanation, units: Sequence[Token], move: Mover) -> WhatIf:
    """A replaced token as a replaced word: the other tokens of the word keep their text."""
    position = move(what_if.position)
    if position >= len(units):
        return replace(what_if, position=position)
    token, unit = why.input[what_if.position], units[position]
    start, end = token.start - unit.start, token.end - unit.start
    before, after = unit.text[max(0, start - LONGEST_WORD) : start], unit.text[end : end + LONGEST_WORD]
    return replace(what_if, position=position, replacement=before + what_if.replacement + after)


# --- units of the output ---


@dataclass(frozen=True)
class OutputRuns:
    """Runs of output tokens that become one unit each, over `inputs` units of the prompt."""

    inputs: int
    runs: Runs

    @cached_property
    def columns(self) -> Runs:
        """The columns of each new column."""
        return [[i] for i in range(self.inputs)] + [[self.inputs + t for t in run] for run in self.runs]

    @cached_property
    def unit_of(self) -> list[int]:
        """The new position of each unit."""
        return [number for number, run in enumerate(self.columns) for _ in run]

    def rows_of(self, rows: Rows, number: int) -> list[Row]:
        """The rows of one run, with one column for each unit before it."""
        before = self.columns[: self.inputs + number]
        return [tuple(sum(rows[t][i] for i in run) for run in before) for t in self.runs[number]]

    def sums(self, rows: Rows | None) -> Rows | None:
        if rows is None:
            return None
        return tuple(_sum(self.rows_of(rows, k), self.inputs + k) for k in range(len(self.runs)))

    def scores(self, scores: Rows, effects: Rows | None) -> Rows:
        return tuple(
            _merge_scores(
                self.rows_of(scores, k), None if effects is None else self.rows_of(effects, k), self.inputs + k
            )
            for k in range(len(self.runs))
        )

    def groups(self, groups: Sequence[Sequence[Group]], number: int) -> tuple[Group, ...]:
        """The groups of all tokens of a run, each once, with its largest effect."""
        moved = _move_groups((group for t in self.runs[number] for group in groups[t]), self.unit_of.__getitem__)
        return tuple(group for group in moved if group.units[-1] < self.inputs + number)


def _aggregate_output(why: Explanation, runs: Runs) -> Explanation:
    """The rows of the tokens of each run as one row, over the prompt and the earlier runs."""
    inputs, outputs = len(why.input), OutputRuns(len(why.input), runs)
    row_of = [number for number, run in enumerate(runs) for _ in run]
    move, tests = outputs.unit_of.__getitem__, why.sufficiency
    return replace(
        why,
        output=tuple(join_tokens(why.completion, [why.output[t] for t in run]) for run in runs),
        target={**why.target, "index": row_of[why.focus]} if "index" in why.target else why.target,
        scores=outputs.scores(why.scores, why.effects),
        effects=outputs.sums(why.effects),
        stderr=outputs.sums(why.stderr),
        shapley_values=outputs.sums(why.shapley_values),
        groups=tuple(outputs.groups(why.groups, k) for k in range(len(runs))) if why.groups else (),
        sufficiency=tests and tuple(_move_test(_decisive_test([tests[t] for t in run]), move) for run in runs),
        levels=tuple(_aggregate_level(level, OutputRuns(len(level.units), runs)) for level in why.levels),
        what_if=tuple(
            replace(one, target=row_of[one.target], position=move(one.position))
            for one in why.what_if
            if one.target == runs[row_of[one.target]][0] and one.position < inputs
        ),
        cost=merge_cost(why.cost, runs),
    )


def _aggregate_level(level: Level, outputs: OutputRuns) -> Level:
    return replace(
        level,
        scores=outputs.scores(level.scores, level.effects),
        effects=outputs.sums(level.effects),
        stderr=outputs.sums(level.stderr),
    )


def merge_cost(cost: Cost, runs: Runs, stopped: str | None = None) -> Cost:
    """The cost with the entries of each run as one."""
    return replace(
        cost,
        steps=tuple(max(cost.steps[t] for t in run) for run in runs),
        stopped=tuple(stopped or _worst([cost.stopped[t] for t in run]) for run in runs),
        runs=tuple(cost.runs[run[0]] if len(run) == 1 else () for run in runs) if cost.runs else (),
    )


def _worst(reasons: Sequence[str]) -> str:
    """The first reason that is a warning, otherwise the first.

    A token that depends on nothing, as the end of a word, says nothing about the others.
    """
    telling = [reason for reason in reasons if reason not in ("flat", "empty", "unasked")] or reasons
    return next((reason for reason in telling if STOP_REASONS.get(reason)), telling[0])


def _decisive_test(tests: Sequence[Sufficiency | None]) -> Sufficiency | None:
    """The first failed test of the tokens of a run; a test that passed belongs to a single token."""
    failed = (test for test in tests if test is not None and not test.passed)
    return next(failed, tests[0] if len(tests) == 1 else None)


# --- several rows as one ---


def _sum(rows: Sequence[Sequence[float]], length: int) -> Row:
    return tuple(sum(row[i] for row in rows) for i in range(length))


def _merge_scores(scores: Sequence[Sequence[float]], effects: Sequence[Sequence[float]] | None, length: int) -> Row:
    """The mean scores of several output tokens over the first `length` units.

    A token counts as much as its positive effects are large, because a token that needs nothing of the context has
    scores too. Without effects, all tokens count equally.
    """
    weights = [1.0] * len(scores)
    if effects is not None:
        weights = [sum(max(0.0, value) for value in row[:length]) for row in effects]
    if not sum(weights) > 0:
        weights = [1.0] * len(scores)
    means = [sum(weight * row[i] for weight, row in zip(weights, scores, strict=True)) for i in range(length)]
    total = sum(means)
    return tuple(mean / total for mean in means) if total > 0 else _sum(scores, length)
