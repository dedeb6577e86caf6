"""The case that an explanation was made on, rebuilt for the model that evaluates it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from reagent.case import Case, ContrastToken
from reagent.errors import InputError
from reagent.explanation import Explanation, Token
from reagent.models.base import HasChatTemplate, Model
from reagent.models.chat import Chat

SAME_LOGPROB = 0.05  # nats by which a target's log-probability may differ from the one in the file


def case_of(explanation: Explanation) -> Case:
    """The case of an explanation, from its token ids; protected units stay protected."""
    target, contrast = explanation.target, None
    if target.get("kind") == "contrast":
        text = str(target["text"])
        token = Token(tuple(int(i) for i in target["ids"]), text, 0, len(text), logprob=target.get("logprob"))
        contrast = ContrastToken(explanation.focus, token)
    case = Case(
        explanation.prompt,
        explanation.completion,
        explanation.input,
        explanation.output,
        contrast,
        explanation.messages,
        separate=explanation.has_separate_output,
    )
    return case.without_output_removal() if explanation.attributes == "prompt" else case


def check_same_text(first: Explanation, other: Explanation) -> None:
    """Raise an InputError unless both explanations have the same text, units and target."""
    if (_units(case_of(other)), other.target) != (_units(case_of(first)), first.target):
        raise InputError(
            "explanations that are evaluated together must be of one text, cut into the same units, with the same "
            "targets: evaluate the others separately"
        )


def reread(model: Model, case: Case) -> Case | None:
    """The text as `model` tokenizes it; its tokens must be those of the case.

    None if only the chat template differs: it may write today's date around the messages.
    """
    message = f"the explanation's tokens are not those of {model.info['id']!r}: give the model that it was made on"
    own = [i for unit in case.input for i in unit.ids]
    try:
        again = _tokenize(model, case)
    except InputError as error:
        raise InputError(f"{message} ({error})") from error
    if again.ids[: again.unit_starts[len(again.input)]].tolist() == own:
        return again
    content = [i for unit in case.input if not unit.protected for i in unit.ids]
    if case.messages and _is_subsequence(content, again.ids.tolist()):
        return None
    raise InputError(message)


def split_into_tokens(case: Case, again: Case | None) -> Case:
    """The case cut into single tokens, as replacers need it; `again` is the text as the model tokenizes it."""

    def parts(units: Sequence[Token], tokens: Sequence[Token]) -> Iterable[Token]:
        matches = [token.ids[0] for token in tokens] == [i for unit in units for i in unit.ids]
        edges = np.cumsum([0, *(len(unit.ids) for unit in units)]).tolist()
        for unit, (start, stop) in zip(units, pairwise(edges), strict=True):
            if len(unit.ids) == 1:
                yield unit
            elif matches:
                yield from (replace(token, protected=unit.protected) for token in tokens[start:stop])
            else:  # the characters of each token are unknown, so each token gets those of the whole unit
                yield from (replace(unit, ids=(i,), logprob=None) for i in unit.ids)

    source, output = (again.input, again.output) if again is not None else ((), ())
    return replace(
        case, input=tuple(parts(case.input, source)), output=tuple(parts(case.output, output)), contrast=None
    )


def model_differences(
    model: Model, case: Case, explanations: Sequence[Explanation], targets: Sequence[int]
) -> list[str]:
    """Warnings if `model` is not quite the explained one; `case` has the log-probabilities of `model`."""
    lines = []
    for explanation in {str(e.model.get("id")): e for e in explanations}.values():
        if explanation.model.get("id") != model.info["id"]:
            lines.append(
                f"the explanation was made on {explanation.model.get('id')!r}, not on {model.info['id']!r}: "
                "the numbers measure how faithful it is to the latter"
            )
        for t in targets:
            then, now = explanation.output[t].logprob, case.output[t].logprob
            if then is not None and now is not None and abs(then - now) > SAME_LOGPROB:
                text, before, after = explanation.output[t].text, np.exp(then), np.exp(now)
                lines.append(f"{text!r} had probability {before:.3f} when it was explained, and has {after:.3f} now")
    return lines


def _tokenize(model: Model, case: Case) -> Case:
    if not case.messages:
        return model.case(case.prompt, case.completion or None, 1)
    if not isinstance(model, HasChatTemplate):
        raise InputError("it has no chat template")
    chat: Chat = [{"role": m.role, "content": case.prompt[m.start : m.end]} for m in case.messages]
    return model.chat(chat, "x")  # any answer, because only the tokens before it are compared


def _units(case: Case) -> Any:
    return [(unit.ids, unit.start, unit.end, unit.protected) for unit in case.units], len(case.input)


def _is_subsequence(part: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether `part` occurs in `whole` in this order, perhaps with others in between."""
    rest = iter(whole)
    return all(i in rest for i in part)
