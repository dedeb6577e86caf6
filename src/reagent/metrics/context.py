"""What is evaluated: explanations of one text, and the case that they explain on the model that is asked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from reagent.case import Case, ContrastToken, Floats, Mask
from reagent.errors import InputError
from reagent.explanation import Explanation, Token
from reagent.models.base import HasChatTemplate, Model
from reagent.models.chat import Chat
from reagent.replacers.base import Proposals, Replacer

# Every use of random numbers has a stream of its own: what one metric draws does not depend on the others.
STREAMS = ("soft", "random", "proposals", "replacement", "ties", "probes", "bootstrap")
SAME = 0.05  # nats by which a target's log-probability may differ from the one in the file


@dataclass(frozen=True)
class EvaluationContext:
    """Explanations of one text, cut into the same units, and the targets at which they are looked at."""

    case: Case  # with log-probabilities of the model that is asked
    tokens: Case  # the same, cut into single tokens
    explanations: tuple[Explanation, ...]
    targets: tuple[int, ...]
    seed: int

    def rng(self, stream: str, *more: int) -> np.random.Generator:
        """The generator of one use; `explain` uses none of these."""
        return np.random.default_rng([self.seed, STREAMS.index(stream), *more])

    def before(self, t: int) -> int:
        """How many units stand before output unit `t`."""
        return len(self.case.input) + t

    def free(self, t: int) -> Mask:
        """Which units before output unit `t` are not protected."""
        return ~self.case.protected[: self.before(t)]

    def scores(self, t: int) -> Floats:
        """Row `t` of every explanation, with 0 for what is protected; [explanations, units]."""
        rows = np.array([explanation.scores[t] for explanation in self.explanations])
        return np.asarray(np.where(self.free(t), rows, 0.0))

    def effects(self, t: int) -> Floats:
        """The same of the effects; the scores stand for them where a method has none."""
        rows = [e.scores[t] if e.effects is None else e.effects[t] for e in self.explanations]
        return np.asarray(np.where(self.free(t), np.array(rows), 0.0))

    def random(self, t: int, count: int) -> Floats:
        """Random attributions: numbers from U(0, 1) over their sum; [count, units]."""
        drawn = (1 - self.rng("random", t).random((count, self.before(t)))) * self.free(t)
        return np.asarray(drawn / drawn.sum(1, keepdims=True))

    def proposals(self, model: Model, replacer: Replacer) -> Proposals:
        """What may stand in the units' places: the same for all explanations."""
        rng = self.rng("proposals")
        return replacer.propose(model, self.tokens, rng).grouped(self.case, rng)


def subject(
    model: Model, explanations: Sequence[Explanation], targets: Sequence[int] | None, stride: int, seed: int
) -> EvaluationContext:
    """Put explanations of one text together; one forward pass, for the log-probabilities."""
    first = explanations[0]
    case = case_of(first)
    for other in explanations[1:]:
        if (_cut(case_of(other)), other.target) != (_cut(case), first.target):
            raise InputError(
                "explanations that are evaluated together must be of one text, cut into the same units, with the "
                "same targets: evaluate the others by themselves"
            )
    tokens = _by_tokens(case, same_tokens(model, case))
    if hasattr(model, "register_text"):  # a black box by words knows no ids, but what it has read
        model.register_text(case.completion + ("" if case.contrast is None else case.contrast.token.text))
    chosen = tuple(targets) if targets is not None else targets_of(first, stride)
    for t in chosen:
        first.context(t)  # refuses a target that is not there
    chosen = tuple(dict.fromkeys(t % len(case.output) for t in chosen))
    if not chosen:
        raise InputError("there is no target to look at: give at least one output token, or leave the targets out")
    return EvaluationContext(case.with_logprobs(model), tokens, tuple(explanations), chosen, seed)


def case_of(explanation: Explanation) -> Case:
    """The case that an explanation is of, from its ids; protected units stay protected."""
    target, contrast = explanation.target, None
    if target.get("kind") == "contrast":
        text = str(target["text"])
        token = Token(tuple(int(i) for i in target["ids"]), text, 0, len(text), logprob=target.get("logprob"))
        contrast = ContrastToken(explanation.focus, token)
    return Case(
        explanation.prompt,
        explanation.completion,
        explanation.input,
        explanation.output,
        contrast,
        explanation.messages,
    )


def targets_of(explanation: Explanation, stride: int) -> tuple[int, ...]:
    """The target that was asked about; of a whole continuation, every `stride`-th token from the first on.

    Those are the paper's token level and sequence level.
    """
    if "index" in explanation.target or len(explanation.output) == 1:
        return (explanation.focus,)
    return tuple(range(0, len(explanation.output), stride))


def same_tokens(model: Model, case: Case) -> Case | None:
    """The text as `model` reads it, which must be the case's tokens; nothing where a chat's template has moved on."""
    told = f"the explanation's tokens are not those of {model.info['id']!r}: give the model that it was made on"
    own = [i for unit in case.input for i in unit.ids]
    try:
        again = _read(model, case)
    except InputError as error:
        raise InputError(f"{told} ({error})") from error
    if again.ids[: again.unit_starts[len(again.input)]].tolist() == own:
        return again
    # A template may write today's date around the messages: then what people said decides.
    said = [i for unit in case.input if not unit.protected for i in unit.ids]
    if case.messages and _in_order(said, again.ids.tolist()):
        return None
    raise InputError(told)


def differences(model: Model, subject: EvaluationContext) -> list[str]:
    """What a reader must know about the model not being quite the one that was explained; one pass was made."""
    lines = []
    for made_on in {str(e.model.get("id")): e for e in subject.explanations}.values():
        if made_on.model.get("id") != model.info["id"]:
            lines.append(
                f"the explanation was made on {made_on.model.get('id')!r}, not on {model.info['id']!r}: "
                "the numbers say how faithful it is to the latter"
            )
        for t in subject.targets:
            then, now = made_on.output[t].logprob, subject.case.output[t].logprob
            if then is not None and now is not None and abs(then - now) > SAME:
                text, before, after = made_on.output[t].text, np.exp(then), np.exp(now)
                lines.append(f"{text!r} had probability {before:.3f} when it was explained, and has {after:.3f} now")
    return lines


def _read(model: Model, case: Case) -> Case:
    if not case.messages:
        return model.case(case.prompt, case.completion or None, 1)
    if not isinstance(model, HasChatTemplate):
        raise InputError("it has no chat template")
    chat: Chat = [{"role": m.role, "content": case.prompt[m.start : m.end]} for m in case.messages]
    return model.chat(chat, "x")  # any answer: only what stands before it is compared


def _by_tokens(case: Case, again: Case | None) -> Case:
    """The case cut into single tokens, which replacers propose for."""

    def parts(units: Sequence[Token], tokens: Sequence[Token]) -> Iterable[Token]:
        known = [token.ids[0] for token in tokens] == [i for unit in units for i in unit.ids]
        edges = np.cumsum([0, *(len(unit.ids) for unit in units)]).tolist()
        for unit, (start, stop) in zip(units, pairwise(edges), strict=True):
            if len(unit.ids) == 1:
                yield unit
            elif known:
                yield from (replace(token, protected=unit.protected) for token in tokens[start:stop])
            else:  # where nobody knows which token is which part of the text, each stands for the whole
                yield from (replace(unit, ids=(i,), logprob=None) for i in unit.ids)

    source, said = (again.input, again.output) if again is not None else ((), ())
    return replace(case, input=tuple(parts(case.input, source)), output=tuple(parts(case.output, said)), contrast=None)


def _cut(case: Case) -> Any:
    return [(unit.ids, unit.start, unit.end, unit.protected) for unit in case.units], len(case.input)


def _in_order(some: Sequence[int], all_of_them: Sequence[int]) -> bool:
    """Whether `some` stand in this order among all of them."""
    rest = iter(all_of_them)
    return all(i in rest for i in some)
