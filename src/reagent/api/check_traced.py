"""`check_traced`: does the answer change as its trace says? New reasoning from a changed prompt: the total effect."""

from dataclasses import replace
from typing import Any, NamedTuple

import regex

from reagent.case import Case
from reagent.errors import EmptyGenerationError, InputError
from reagent.explanation import Explanation, Trace, TraceCheck, TracePart
from reagent.models.base import HasChatTemplate, Model, require
from reagent.models.load import load_model
from reagent.request import check_whole

LEADING_WORDS = 3  # directly before the answer, by which its place is found in another output


def check_traced(model: Any, why: Explanation, count: int = 3) -> Explanation:
    """Check the strongest sources of a trace by a regeneration without each of them.

    A trace multiplies shares that were measured in a fixed text. This deletes a sentence of the prompt (or a unit, if
    units are larger than words), lets the model generate reasoning and answer again, and records what it says: whether
    the answer is still in it, and the log-probability of the answer after the new reasoning. It takes one generation
    and one forward pass for each source. The result is the explanation with `trace.checks`.

    Where in the new output? After the words that come before the answer in the original one, such as "the answer is".
    If these are not in the new output, at the last place where the answer is given. If it is not given at all, after as
    many new tokens as the original reasoning has: then the log-probability is low also because the place is arbitrary.

    Args:
        model: the explained model.
        why: an explanation with a trace, from `explain(…, answer_span=…)` or `why.traced(…)`.
        count: the number of sources, the strongest first.

    >>> from reagent.api.explain import explain
    >>> from reagent.testing import two_hops
    >>> why = explain(two_hops(), "x a3 y", max_new_tokens=2, answer_span="c3")
    >>> check_traced(two_hops(), why, count=1).trace.checks[0].produced
    False
    """
    if not isinstance(why, Explanation):
        raise InputError(f"check_traced needs an Explanation, got a {type(why).__name__}")
    trace = why.trace
    if trace is None:
        raise InputError(
            "this explanation has no trace: explain with `answer_span`, or give the result of why.traced(…)"
        )
    number = check_whole("count", count, 1)
    regeneration = _Regeneration(load_model(model), why, trace)
    strongest = sorted(trace.sources, key=lambda source: -source.share)[:number]
    checks = tuple(regeneration.check(source) for source in strongest if source.share > 0)
    return replace(why, trace=replace(trace, checks=checks))


class _Place(NamedTuple):
    """A new output up to the answer, and whether the model gives the answer there."""

    before: str
    produced: bool


class _Regeneration:
    """Generates from the prompt without a part of it, and scores the answer after the new reasoning."""

    def __init__(self, model: Model, why: Explanation, trace: Trace) -> None:
        self.model, self.why = model, why
        if why.messages:
            require(model, HasChatTemplate, "the check of a chat")
        original = self._read(None, why.completion, 1)
        if original.prompt != why.prompt:
            raise InputError(
                f"the prompt cannot be written again for {model.info['id']!r}: give the explained model; a chat with "
                "tools or tool calls cannot be checked"
            )
        self.answer = trace.answer.text.strip()
        reasoning = why.completion[: trace.answer.start + trace.answer.text.index(self.answer)]
        self.lead = reasoning.split()[-LEADING_WORDS:]
        self.gap = reasoning[len(reasoning.rstrip()) :]
        self.length = len(original.output)
        self.steps = sum(token.start < len(reasoning.rstrip()) for token in original.output)  # tokens of the reasoning

    def check(self, source: TracePart) -> TraceCheck:
        try:
            generated = self._read(source, None, self.length)
            completion, place = generated.completion, self._find_place(generated)
        except EmptyGenerationError:
            completion, place = "", _Place("", produced=False)
        text = place.before + self.answer
        scored = self._read(source, text.lstrip() if self.why.messages else text, 1).with_logprobs(self.model)
        edge = len(scored.completion) - len(self.answer)
        logprob = sum(token.logprob or 0.0 for token in scored.output if token.end > edge)
        return TraceCheck(
            source.start, source.end, source.text, source.share, completion, place.produced, float(logprob)
        )

    def _find_place(self, generated: Case) -> _Place:
        """Where the answer belongs in a new output."""
        completion, answer = generated.completion, rf"(?<!\w){regex.escape(self.answer)}(?!\w)"
        lead = r"\s+".join(map(regex.escape, self.lead))
        after_lead = list(regex.finditer(rf"{lead}(\s*)", completion)) if lead else []
        if after_lead:
            end = after_lead[-1].end()
            return _Place(completion[:end], bool(regex.match(answer, completion, pos=end)))
        given = list(regex.finditer(answer, completion))
        if given:
            return _Place(completion[: given[-1].start()], produced=True)
        tokens = generated.output[: self.steps]
        return _Place((completion[: tokens[-1].end] if tokens else "").rstrip() + self.gap, produced=False)

    def _read(self, deleted: TracePart | None, target: str | None, new_tokens: int) -> Case:
        """The case of the prompt without a part of it; with no target, the model generates."""
        why, (start, end) = self.why, (0, 0) if deleted is None else (deleted.start, deleted.end)

        def rest(begin: int, stop: int) -> str:
            if deleted is None or not begin <= start < stop:
                return why.prompt[begin:stop]
            kept = why.prompt[begin:start] + why.prompt[end:stop]
            return kept.lstrip() if start == begin else kept

        if why.messages:
            assert isinstance(self.model, HasChatTemplate)
            chat = [{"role": m.role, "content": rest(m.start, m.end)} for m in why.messages]
            return self.model.chat(chat, target, new_tokens)
        if not rest(0, len(why.prompt)).strip():
            raise InputError("the prompt has only one part, so that nothing is left without it: give smaller `units`")
        return self.model.case(rest(0, len(why.prompt)), target, new_tokens)
