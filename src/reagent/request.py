"""What a person asks, checked: the prompt, the units to score, and which question about the output."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reagent.case import Case
from reagent.errors import InputError, UnknownNameError
from reagent.methods.base import Method
from reagent.methods.hierarchical import Divisible, Groups
from reagent.models.base import HasChatTemplate, Model, Streams, require
from reagent.models.chat import Chat, check_messages
from reagent.segmentation import UNITS, Span, assign, check_spans

LONG = 400  # from so many tokens on, a prompt is explained coarse to fine
COARSE_TO_FINE = ("span", *reversed(UNITS), "token")


# --- before a model is loaded ---


def check_prompt(prompt: Any) -> str | list[dict[str, str]]:
    """A text, or the messages of a chat."""
    if not isinstance(prompt, str):
        messages = check_messages(prompt)
        for message in messages:
            _check_text("message", message["content"])
        return messages
    if not prompt.strip():
        raise InputError("the prompt is empty: give some text to explain")
    _check_text("prompt", prompt)
    return prompt


def check_question(
    target: str | None, span: str | None, contrast: str | None, max_new_tokens: int, seed: int, stride: int = 1
) -> None:
    """What can be wrong with what is asked about the output."""
    for name, text in (("target", target), ("span", span), ("contrast", contrast)):
        if text == "":
            raise InputError(f"the {name} is empty: give some text, or leave the {name} out")
        _check_text(name, text or "")
    if span is not None and contrast is not None:
        raise InputError("give a span or a contrast, not both: each asks another question about the output")
    if contrast is not None and contrast == target:
        raise InputError(f"the contrast is the target itself, {target!r}: give another text to compare it with")
    if target is None and max_new_tokens < 1:
        raise InputError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    if stride < 1 or (stride > 1 and (span is not None or contrast is not None)):
        raise InputError(f"stride must be at least 1, and 1 where a span or a contrast is asked for, got {stride}")
    if seed < 0:
        raise InputError(f"seed must be 0 or more, got {seed}")


def check_units(
    unit: str, spans: Sequence[Span] | None, levels: Sequence[str] | None, method: Method, method_name: str
) -> None:
    """What can be wrong with the units."""
    if unit not in (*UNITS, "token"):
        raise UnknownNameError("unit", unit, ["token", *UNITS])
    if spans is not None:
        if not spans:
            raise InputError("there are no spans: give at least one part of the prompt")
        if unit != "token" and levels is None:
            raise InputError(f"spans are the units themselves: leave out unit {unit!r}, or give levels span,{unit}")
    if levels is None:
        return
    for level in levels:
        if level not in COARSE_TO_FINE:
            raise UnknownNameError("level", level, COARSE_TO_FINE)
    places = [COARSE_TO_FINE.index(level) for level in levels]
    if not levels or places != sorted(set(places)):
        raise InputError(f"levels must go from coarse to fine, in the order of {', '.join(COARSE_TO_FINE)}")
    if "span" in levels and spans is None:
        raise InputError("the level 'span' needs spans: say which parts of the prompt they are")
    if len(levels) > 1 and not isinstance(method, Divisible):
        raise InputError(f"method {method_name!r} with this preset has one level only: give a unit instead of levels")


def _check_text(name: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"the {name} is not valid Unicode text: {error.reason}") from error


# --- with the model's tokens ---


def streaming_to(model: Model, answered: Callable[[str], None] | None) -> Model:
    """The same model, which tells its answer word by word where it can and somebody listens."""
    return model if answered is None or not isinstance(model, Streams) else model.with_stream(answered)


def read_case(model: Model, prompt: str | Chat, target: str | None, contrast: str | None, max_new_tokens: int) -> Case:
    """Prompt and output as tokens; with a contrast, up to where the two part."""
    case = _read(model, prompt, target, max_new_tokens)
    if contrast is None:
        return case
    if contrast == case.completion:
        raise InputError(f"the contrast is what the model says by itself, {contrast!r}: give another text")
    other = _read(model, prompt, contrast, max_new_tokens)
    pairs = zip(case.output, other.output, strict=False)
    parted = next((i for i, (one, two) in enumerate(pairs) if one.ids != two.ids), None)
    if parted is None:
        raise InputError(
            f"the contrast {contrast!r} and the output {case.completion!r} do not part: "
            "one is the beginning of the other"
        )
    return case.contrasted_with(other.output[parted], parted)


def _read(model: Model, prompt: str | Chat, target: str | None, max_new_tokens: int) -> Case:
    if isinstance(prompt, str):
        return model.case(prompt, target, max_new_tokens)
    require(model, HasChatTemplate, "a chat")
    assert isinstance(model, HasChatTemplate)
    return model.chat(prompt, target, max_new_tokens)


def phrase(case: Case, text: str) -> Span:
    """Where a phrase stands in the output."""
    start = case.completion.find(text)
    if start < 0:
        raise InputError(f"the output {case.completion!r} does not contain {text!r}: a span is a phrase of the output")
    if case.completion.find(text, start + 1) >= 0:
        raise InputError(f"the output has {text!r} more than once: give more of the text around the one you mean")
    return start, start + len(text)


def cuts(
    case: Case, unit: str, spans: Sequence[Span] | None, levels: Sequence[str] | None, method: Method
) -> dict[str, Groups]:
    """The levels by name, from coarse to fine, and how each groups the tokens of the prompt."""
    if levels is None:
        long = sum(not token.protected for token in case.input) > LONG
        coarse = unit in ("token", "word") and spans is None and long and isinstance(method, Divisible)
        levels = ["span"] if spans is not None else ["sentence", unit] if coarse else [unit]
    inside = None if spans is None else _spans(case, spans)
    return {level: _groups(case, level, inside) for level in levels}


def _groups(case: Case, level: str, inside: Groups | None) -> Groups:
    """The units of a level; where there are spans, only `inside` of them, and never across their edges."""
    if level == "span":
        assert inside is not None
        return inside
    tokens = [(token.start, token.end) for token in case.input]
    units = range(len(tokens)) if level == "token" else assign(tokens, list(_cut(case, level)), case.prompt)
    if inside is None:
        return units
    numbers: dict[tuple[int | None, int | None], int] = {}
    pairs = zip(inside, units, strict=True)
    return [None if span is None else numbers.setdefault((span, unit), len(numbers)) for span, unit in pairs]


def _spans(case: Case, spans: Sequence[Span]) -> Groups:
    """For every token of the prompt its span."""
    text, chosen = case.prompt, check_spans(spans, len(case.prompt))
    groups = assign([(token.start, token.end) for token in case.input], chosen, text)
    for i in set(range(len(chosen))) - set(groups):
        raise InputError(f"span {chosen[i]} ({text[slice(*chosen[i])]!r}) has no token of its own: make it larger")
    return groups


def _cut(case: Case, level: str) -> Iterable[Span]:
    """Words or sentences; in a chat, of each message by itself."""
    parts = [(m.start, m.end) for m in case.messages] or [(0, len(case.prompt))]
    for begin, stop in parts:
        for start, end in UNITS[level](case.prompt[begin:stop]):
            yield begin + start, begin + end


def question(case: Case, asked: Span | None) -> dict[str, Any]:
    """The entry `target` of an Explanation."""
    if case.contrast is not None:
        token = case.contrast.token
        return {
            "kind": "contrast",
            "index": case.contrast.at,
            "text": token.text,
            "ids": list(token.ids),
            "logprob": token.logprob,
        }
    if asked is not None:
        index = next(i for i, unit in enumerate(case.output) if unit.end > asked[0])
        return {"kind": "span", "index": index, "text": case.completion[slice(*asked)]}
    return {"kind": "tokens"}
