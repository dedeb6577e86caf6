"""Through the reasoning to the prompt: the answer traced along every path of influence.

An answer often rests on generated text, and that text on the prompt. Scores over the whole context say both. Let A be
the matrix of scores: row t has the shares of the units before step t of the output, and sums to 1. Its columns are the
prompt (A_op) and earlier steps (A_oo). The share of the prompt in each step, over all paths, is

    traced = A_op + A_oo A_op + A_oo² A_op + … = (I − A_oo)⁻¹ A_op

A_oo is strictly lower triangular: a step depends only on earlier ones. The sum is therefore finite, and no further
forward pass is needed. In other words: start at the answer, step back to an earlier unit with the probability of its
share, and repeat until the prompt is reached. The traced share of a unit of the prompt is the probability to end there;
the share of a reasoning sentence is the probability to pass through it. The idea is that of CAGE (Walker and Ewetz,
2025, arXiv 2512.15663).

The steps are sentences of the reasoning, or tokens. A sentence has the mean scores of its tokens for everything before
the sentence; each token counts by the effects of that. What its tokens do to each other is left out, on purpose: the
removal of a token harms above all the grammar of the next one, so that paths over single tokens creep back word by word
and lose what the words say.

Two assumptions: effects mediate linearly, so that shares multiply along a path; and the score of a unit in a fixed
text tells how its removal would change the text that follows. Neither is tested here. `reagent.check_traced` does: it
deletes a part of the prompt, generates the reasoning anew, and measures the answer after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

import numpy as np
import numpy.typing as npt

from reagent.aggregation import OutputRuns, merge_cost
from reagent.errors import InputError, UnknownNameError
from reagent.explanation import Explanation, StepUnit, Token, Trace, TraceFlow, TracePart, join_tokens
from reagent.segmentation import Span, assign, split_sentences, split_words

Floats = npt.NDArray[np.float64]
MEANINGLESS = ("flat", "empty")  # reasons to stop whose rows are uniform


def traced_explanation(
    why: Explanation, answer_span: str | None = None, step_unit: StepUnit | None = None
) -> Explanation:
    """The explanation of the answer alone, over the prompt: its scores are the traced shares."""
    if why.trace is not None and answer_span is None and step_unit in (None, why.trace.step_unit):
        trace = why.trace
    else:
        trace = trace_answer(why, find_answer(why, answer_span), "sentence" if step_unit is None else step_unit)
    if why.attributes == "prompt":
        return why  # it is traced already
    answer = _units_inside(why.output, (trace.answer.start, trace.answer.end))
    return replace(
        why,
        output=(join_tokens(why.completion, [why.output[t] for t in answer]),),
        target={"kind": "tokens"},
        attributes="prompt",
        scores=(trace.traced,),
        effects=None,
        stderr=None,
        shapley_values=None,
        effect_unit=None,
        groups=(),
        sufficiency=None,
        answer=None,
        trace=trace,
        levels=(),
        what_if=(),
        cost=merge_cost(why.cost, [answer]),
    )


def find_answer(why: Explanation, answer_span: str | None) -> Span:
    """The characters of the answer in the completion."""
    if answer_span is not None:
        return find_answer_span(why.completion, answer_span)
    if "index" in why.target:
        token = why.output[why.focus]
        return token.start, token.end
    return split_sentences(why.completion)[-1]


def find_answer_span(completion: str, text: str) -> Span:
    """The last place where the text of the answer occurs: reasoning often names it before.

    >>> find_answer_span("It is 4. So: 4", "4")
    (13, 14)
    """
    if not isinstance(text, str):
        raise InputError(f"`answer_span` must be a text, got {text!r}")
    start = completion.rfind(text) if text.strip() else -1
    if start < 0:
        raise InputError(f"`answer_span` {text!r} is not in the output {completion!r}: give a phrase of it")
    return start, start + len(text)


def trace_answer(why: Explanation, span: Span, step_unit: StepUnit = "sentence") -> Trace:
    """Trace these characters of the completion to the prompt."""
    if step_unit not in get_args(StepUnit):
        raise UnknownNameError("step unit", step_unit, get_args(StepUnit))
    answer = _units_inside(why.output, span)
    _check_rows(why, answer)
    sources, source_of = _sources(why)
    sentences, runs = _sentences(why, answer[0])
    part_of_run = list(range(len(runs)))
    if step_unit == "token":
        part_of_run = [sentence for sentence, run in enumerate(runs) for _ in run]
        runs = [[t] for t in range(answer[0])]
    walk = _Walk(why, [*runs, answer])
    parts = len(sources) + len(sentences)  # without the answer
    between = walk.flows([*source_of, *(len(sources) + part for part in part_of_run), parts], parts + 1)
    arriving = between.sum(0)  # from later parts, [parts]
    start, end = why.output[answer[0]].start, why.output[answer[-1]].end
    logprobs = [why.output[t].logprob for t in answer]
    return Trace(
        answer=TracePart(why.completion[start:end], start, end, 1.0),
        logprob=None if None in logprobs else sum(p for p in logprobs if p is not None),
        step_unit=step_unit,
        steps=_parts(why.completion, sentences, arriving[len(sources) :]),
        sources=_parts(why.prompt, sources, arriving),
        flows=tuple(
            TraceFlow(int(source), int(target), _share(between[target, source]))
            for source, target in zip(*between.T.nonzero(), strict=True)
        ),
        direct=tuple(map(_share, walk.direct)),
        traced=tuple(map(_share, walk.traced)),
        unreliable=_share(walk.passes_meaningless()),
    )


def _check_rows(why: Explanation, answer: Sequence[int]) -> None:
    if why.attributes == "prompt":
        raise InputError(
            "this explanation cannot be traced, because it has no scores of earlier output tokens: explain again with "
            "`attribute_target`, so that each output token is explained by the whole text before it"
        )
    if "unasked" in why.cost.stopped[: answer[-1] + 1]:
        raise InputError("this explanation cannot be traced, because it skips output tokens: explain with `stride` 1")


@dataclass(frozen=True)
class _Walk:
    """The random walk from the answer back to the prompt."""

    why: Explanation
    runs: Sequence[Sequence[int]]  # the output units of each step; the last is the answer

    @cached_property
    def matrix(self) -> Floats:
        """Shares [steps, inputs + steps]; each row sums to 1.

        The row of a step is the mean over its tokens of their shares outside the step, weighted by the positive effects
        of what is outside; without effects, by its scores.
        """
        why, inputs = self.why, len(self.why.input)
        columns = OutputRuns(inputs, self.runs)
        shares = np.zeros((len(self.runs), inputs + len(self.runs)))
        for step in range(len(self.runs)):
            scores = np.array(columns.rows_of(why.scores, step))  # [tokens, units before the step]
            weights = outside = scores.sum(1)
            if why.effects is not None:
                weights = np.maximum(np.array(columns.rows_of(why.effects, step)), 0.0).sum(1)
            weights = weights if weights.sum() > 0 else np.ones(len(scores))
            row = weights / np.where(outside > 0, outside, 1.0) @ scores
            shares[step, : len(row)] = row / (row.sum() or 1.0)
        return shares

    @cached_property
    def through(self) -> Floats:
        """The probability that the walk visits each step, [steps]."""
        return self._visits(self.matrix[:, len(self.why.input) :])

    @property
    def traced(self) -> Floats:
        """The probability that the walk ends at each unit of the prompt, [inputs]."""
        ends = self.through @ self.matrix[:, : len(self.why.input)]
        return np.asarray(ends / (ends.sum() or 1.0))

    @property
    def direct(self) -> Floats:
        """The probability that its first step ends there, [inputs]."""
        return np.asarray(self.matrix[-1, : len(self.why.input)])

    def passes_meaningless(self) -> float:
        """The probability that the walk visits a step of which no token has a meaningful row."""
        stopped = self.why.cost.stopped
        stops = [k for k, run in enumerate(self.runs) if all(stopped[t] in MEANINGLESS for t in run)]
        between = self.matrix[:, len(self.why.input) :].copy()
        between[stops] = 0.0  # the walk ends there, so that no path is counted twice
        return float(self._visits(between)[stops].sum())

    def flows(self, part_of: Sequence[int | None], parts: int) -> Floats:
        """The probability that the walk steps from a part [targets] directly to another one [sources].

        `part_of` has the part of each unit of the prompt, then of each step.
        """
        inputs = len(self.why.input)
        flows = np.zeros((parts, parts))
        for step, row in enumerate(self.through[:, None] * self.matrix):
            target = part_of[inputs + step]
            for i in row.nonzero()[0]:
                source = part_of[i]
                if source is not None and source != target:
                    flows[target, source] += row[i]
        return flows

    def _visits(self, between: Floats) -> Floats:
        """The last row of (I − A_oo)⁻¹: the sum over all paths from the answer to each step."""
        start = np.zeros(len(between))
        start[-1] = 1.0
        return np.asarray(np.linalg.solve((np.eye(len(between)) - between).T, start), dtype=np.float64)


def _units_inside(units: Sequence[Token], span: Span) -> list[int]:
    """The units that overlap a span."""
    inside = [i for i, unit in enumerate(units) if unit.start < span[1] and unit.end > span[0]]
    if not inside:
        raise InputError(f"characters {span[0]} to {span[1]} of the output are not in any output token")
    return inside


def _sources(why: Explanation) -> tuple[list[Span], list[int | None]]:
    """The parts of the prompt that a trace shows, and the part of each unit.

    They are sentences, in a chat those of each message, or words if there is only one sentence. Units that are larger
    than words are parts themselves.
    """
    spans = [(unit.start, unit.end) for unit in why.input]
    if why.unit not in ("token", "word"):
        free = [i for i, unit in enumerate(why.input) if not unit.protected]
        numbers = {i: number for number, i in enumerate(free)}
        return [spans[i] for i in free], [numbers.get(i) for i in range(len(spans))]
    parts = [(message.start, message.end) for message in why.messages] or [(0, len(why.prompt))]
    for split in (split_sentences, split_words):
        units = [(begin + start, begin + end) for begin, stop in parts for start, end in split(why.prompt[begin:stop])]
        if len(units) > 1:
            break
    return units, assign(spans, units, why.prompt)


def _sentences(why: Explanation, stop: int) -> tuple[list[Span], list[list[int]]]:
    """The sentences of the reasoning, which are the output units before `stop`, and the units of each."""
    if not stop:
        return [], []
    spans = split_sentences(why.completion[: why.output[stop - 1].end])
    numbers = assign([(unit.start, unit.end) for unit in why.output[:stop]], spans, why.completion)
    units: dict[int, list[int]] = {}
    last = 0
    for t, number in enumerate(numbers):
        last = last if number is None else number  # a token outside the text belongs to the sentence before it
        units.setdefault(last, []).append(t)
    return [spans[number] for number in units], list(units.values())


def _parts(text: str, spans: Sequence[Span], shares: Floats) -> tuple[TracePart, ...]:
    return tuple(
        TracePart(text[start:end], start, end, _share(share))
        for (start, end), share in zip(spans, shares, strict=False)
    )


def _share(value: float) -> float:
    return float(min(1.0, max(0.0, value)))
