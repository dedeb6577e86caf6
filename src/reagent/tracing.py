"""Through the reasoning to the prompt: the answer traced along every path of influence.

An answer often rests on generated text, and that text on the prompt. Scores over the whole context say both. Let A be
the matrix of scores: row t has the shares of the units before output token t, and sums to 1. Its columns are the prompt
(A_op) and earlier output (A_oo). The share of the prompt in each output token, over all paths, is

    traced = A_op + A_oo A_op + A_oo² A_op + … = (I − A_oo)⁻¹ A_op

A_oo is strictly lower triangular: a token depends only on earlier ones. The sum is therefore finite, and no further
forward pass is needed. In other words: start at the answer, step back to an earlier unit with the probability of its
share, and repeat until the prompt is reached. The traced share of a unit of the prompt is the probability to end there;
the share of a reasoning sentence is the probability to pass through it. The idea is that of CAGE (Walker and Ewetz,
2025, arXiv 2512.15663).

Two assumptions: effects mediate linearly, so that shares multiply along a path; and the score of a token in a fixed
text tells how its removal would change the text that follows. Neither is tested here. `reagent.check_traced` does: it
deletes a part of the prompt, generates the reasoning anew, and measures the answer after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from reagent.aggregation import merge_cost, token_weights
from reagent.errors import InputError
from reagent.explanation import Explanation, Token, Trace, TraceFlow, TracePart, join_tokens
from reagent.segmentation import Span, assign, split_sentences, split_words

Floats = npt.NDArray[np.float64]
MEANINGLESS = ("flat", "empty")  # reasons to stop whose rows are uniform


def traced_explanation(why: Explanation, answer_span: str | None = None) -> Explanation:
    """The explanation of the answer alone, over the prompt: its scores are the traced shares."""
    if why.trace is not None and answer_span is None:
        trace = why.trace
    else:
        trace = trace_answer(why, find_answer(why, answer_span))
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
    start = completion.rfind(text) if text else -1
    if start < 0:
        raise InputError(f"`answer_span` {text!r} is not in the output {completion!r}: give a phrase of it")
    return start, start + len(text)


def trace_answer(why: Explanation, span: Span) -> Trace:
    """Trace these characters of the completion to the prompt."""
    answer = _units_inside(why.output, span)
    _check_rows(why, answer)
    walk = _Walk(why, answer)
    reasoning = why.output[: answer[0]]
    sources, source_of = _sources(why)
    steps = split_sentences(why.completion[: reasoning[-1].end]) if reasoning else []
    step_of = assign([(token.start, token.end) for token in reasoning], steps, why.completion)
    last = len(sources) + len(steps)
    part_of = [
        *source_of,
        *(None if step is None else len(sources) + step for step in step_of),
        *([last] * len(answer)),
    ]
    between = walk.flows(part_of, last + 1)
    arriving = between.sum(0)  # from later parts, [parts]
    start, end = why.output[answer[0]].start, why.output[answer[-1]].end
    logprobs = [why.output[t].logprob for t in answer]
    return Trace(
        answer=TracePart(why.completion[start:end], start, end, 1.0),
        logprob=None if None in logprobs else sum(p for p in logprobs if p is not None),
        steps=_parts(why.completion, steps, arriving[len(sources) :]),
        sources=_parts(why.prompt, sources, arriving),
        flows=tuple(
            TraceFlow(int(source), int(target), _share(between[target, source]))
            for source, target in zip(*between.T.nonzero(), strict=True)
        ),
        direct=tuple(map(_share, walk.direct)),
        traced=tuple(map(_share, walk.traced)),
        unreliable=_share(walk.passes_any([t for t, reason in enumerate(why.cost.stopped) if reason in MEANINGLESS])),
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
    answer: Sequence[int]  # output units

    @cached_property
    def matrix(self) -> Floats:
        """Shares [outputs up to the answer, inputs + those outputs]; each row sums to 1."""
        count, inputs = self.answer[-1] + 1, len(self.why.input)
        shares = np.zeros((count, inputs + count))
        for t, row in enumerate(self.why.scores[:count]):
            shares[t, : len(row)] = row
            shares[t] /= shares[t].sum() or 1.0
        return shares

    @cached_property
    def weights(self) -> Floats:
        """How much each token of the answer counts, [outputs]."""
        weights = np.zeros(len(self.matrix))
        effects = self.why.effects
        weights[self.answer] = 1.0
        if effects is not None:
            weights[self.answer] = token_weights([effects[t] for t in self.answer], len(effects[self.answer[0]]))
        return np.asarray(weights / weights.sum())

    @cached_property
    def through(self) -> Floats:
        """The probability that the walk visits each output unit, [outputs]."""
        return self._visits(self.matrix[:, len(self.why.input) :])

    @cached_property
    def traced(self) -> Floats:
        """The probability that the walk ends at each unit of the prompt, [inputs]."""
        ends = self.through @ self.matrix[:, : len(self.why.input)]
        return np.asarray(ends / (ends.sum() or 1.0))

    @property
    def direct(self) -> Floats:
        """The probability that it does so without a visit to the reasoning, [inputs]."""
        inputs, first = len(self.why.input), self.answer[0]
        inside = self.matrix[:, inputs:].copy()
        inside[:, :first] = 0.0
        return np.asarray(self._visits(inside) @ self.matrix[:, :inputs])

    def passes_any(self, outputs: Sequence[int]) -> float:
        """The probability that the walk visits at least one of these output units."""
        stops = [t for t in outputs if t < len(self.matrix)]
        between = self.matrix[:, len(self.why.input) :].copy()
        between[stops] = 0.0  # the walk ends there, so that no path is counted twice
        return float(self._visits(between)[stops].sum())

    def flows(self, part_of: Sequence[int | None], parts: int) -> Floats:
        """The probability that the walk steps from a part [targets] directly to another one [sources]."""
        steps = self.through[:, None] * self.matrix  # [outputs, units]
        inputs = len(self.why.input)
        flows = np.zeros((parts, parts))
        for t, row in enumerate(steps):
            target = part_of[inputs + t]
            for i in row.nonzero()[0]:
                source = part_of[i]
                if source is not None and target is not None and source != target:
                    flows[target, source] += row[i]
        return flows

    def _visits(self, between: Floats) -> Floats:
        """wᵀ(I − A_oo)⁻¹: the sum over all paths inside the output, for the weights w of the answer."""
        return np.asarray(np.linalg.solve((np.eye(len(between)) - between).T, self.weights), dtype=np.float64)


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


def _parts(text: str, spans: Sequence[Span], shares: Floats) -> tuple[TracePart, ...]:
    return tuple(
        TracePart(text[start:end], start, end, _share(share))
        for (start, end), share in zip(spans, shares, strict=False)
    )


def _share(value: float) -> float:
    return float(min(1.0, max(0.0, value)))
