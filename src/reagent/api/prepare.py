"""From a request and a model's tokens to the case that a method explains."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from reagent.case import Case
from reagent.errors import EmptyGenerationError, InputError
from reagent.explanation import control_token_warnings
from reagent.methods.base import Method
from reagent.methods.hierarchical import Groups, SupportsHierarchy
from reagent.models.base import HasChatTemplate, HasControlTokens, Model, Streams, require
from reagent.request import ExplainRequest
from reagent.segmentation import UNITS, Span, assign, check_spans

logger = logging.getLogger(__name__)

LONG_PROMPT = 400  # tokens from which a prompt is explained coarse to fine
_CHAT_HINT = "; if it is a chat model, give the prompt as a message (--chat; in Python a list of messages)"


def read_case(model: Model, request: ExplainRequest) -> Case:
    """Prompt and output as tokens; with a contrast, up to the first token that differs."""
    case = _read(model, request, request.target)
    if request.contrast is None:
        return case
    contrast = _with_space(request.contrast, case.completion)
    if contrast == case.completion:
        raise InputError(f"`contrast` is the model's own output, {contrast!r}: give another text")
    other = _read(model, request, contrast)
    pairs = zip(case.output, other.output, strict=False)
    index = next((i for i, (one, two) in enumerate(pairs) if one.ids != two.ids), None)
    if index is None:
        raise InputError(
            f"the contrast {contrast!r} and the output {case.completion!r} do not differ: one begins with the other"
        )
    return case.contrasted_with(other.output[index], index)


def _with_space(contrast: str, output: str) -> str:
    """Start a word with a space if the output starts with one, because " Kyoto" and "Kyoto" are different tokens.

    >>> _with_space("Kyoto", " Tokyo"), _with_space(" Kyoto", " Tokyo"), _with_space(".", " Tokyo")
    (' Kyoto', ' Kyoto', '.')
    >>> _with_space("Kyoto", "Tokyo")
    'Kyoto'
    """
    return f" {contrast}" if output.startswith(" ") and contrast[0].isalnum() else contrast


def _read(model: Model, request: ExplainRequest, target: str | None) -> Case:
    prompt, max_new_tokens = request.prompt, request.max_new_tokens
    if isinstance(prompt, str):
        try:
            return model.case(prompt, target, max_new_tokens)
        except EmptyGenerationError as error:
            raise EmptyGenerationError(_CHAT_HINT if isinstance(model, HasChatTemplate) else "") from error
    require(model, HasChatTemplate, "a chat")
    assert isinstance(model, HasChatTemplate)
    if request.tools:
        return model.chat(prompt, target, max_new_tokens, request.tools)
    return model.chat(prompt, target, max_new_tokens)


def stream_to(model: Model, on_answer: Callable[[str], None] | None) -> Model:
    """The same model; where it can, it passes its answer to `on_answer` while it generates."""
    return model if on_answer is None or not isinstance(model, Streams) else model.with_stream(on_answer)


def read_control_tokens(model: Model, how: str) -> Model:
    """The same model, which reads control tokens in texts as asked: see `explain`."""
    if how == "keep":
        return model
    require(model, HasControlTokens, "control_tokens='text'")
    assert isinstance(model, HasControlTokens)
    return model.without_control_tokens()


def note_control_tokens(model: Model, case: Case, target: str | None) -> tuple[str, ...]:
    """The control tokens in the text of the user, each once; they are logged as a warning."""
    if not isinstance(model, HasControlTokens):
        return ()
    found = [case.input[i] for i in model.find_control_tokens(case.input, case.messages)]
    if target is not None:
        found += [case.output[i] for i in model.find_control_tokens(case.output)]
    names = tuple(dict.fromkeys(token.text.strip() for token in found))
    for warning in control_token_warnings(names):
        logger.warning("%s", warning)
    return names


def find_target_span(case: Case, text: str) -> Span:
    """The characters of a phrase of the output."""
    start = case.completion.find(text)
    if start < 0:
        advice = "give a phrase of it"
        if text in case.prompt:
            advice = "it is in the prompt; give a phrase of the output, or for a part of the prompt use `prompt_spans`"
        raise InputError(f"`target_span` {text!r} is not in the output {case.completion!r}: {advice}")
    if case.completion.find(text, start + 1) >= 0:
        raise InputError(f"`target_span` {text!r} is in the output more than once: give more of the text around it")
    return start, start + len(text)


def group_tokens(case: Case, request: ExplainRequest) -> dict[str, Groups]:
    """The units by name, from coarse to fine, and the unit of every token of the prompt in each."""
    inside = None if request.prompt_spans is None else _span_of_tokens(case, request.prompt_spans)
    return {unit: _unit_of_tokens(case, unit, inside) for unit in _choose_units(case, request, request.method)}


def _choose_units(case: Case, request: ExplainRequest, method: Method) -> Sequence[str]:
    if not isinstance(request.units, str):
        return request.units
    if request.prompt_spans is not None:
        return ["span"]
    long = sum(not token.protected for token in case.input) > LONG_PROMPT
    if long and request.units in ("token", "word") and isinstance(method, SupportsHierarchy):
        return ["sentence", request.units]
    return [request.units]


def _unit_of_tokens(case: Case, unit: str, inside: Groups | None) -> Groups:
    """For every token its unit; with spans, only tokens `inside` them, and no unit crosses the edge of a span."""
    if unit == "span":
        assert inside is not None
        return inside
    tokens = [(token.start, token.end) for token in case.input]
    units = range(len(tokens)) if unit == "token" else assign(tokens, list(_segments(case, unit)), case.prompt)
    if inside is None:
        return units
    numbers: dict[tuple[int | None, int | None], int] = {}
    pairs = zip(inside, units, strict=True)
    return [None if span is None else numbers.setdefault((span, number), len(numbers)) for span, number in pairs]


def _span_of_tokens(case: Case, spans: Sequence[Span]) -> Groups:
    """For every token of the prompt its span."""
    text, checked = case.prompt, check_spans(spans, len(case.prompt))
    groups = assign([(token.start, token.end) for token in case.input], checked, text)
    for i in set(range(len(checked))) - set(groups):
        raise InputError(f"span {checked[i]} ({text[slice(*checked[i])]!r}) has no token of its own: make it larger")
    return groups


def _segments(case: Case, unit: str) -> Iterable[Span]:
    """Words, sentences or paragraphs; in a chat, those of each message, or the messages themselves."""
    parts = [(message.start, message.end) for message in case.messages] or [(0, len(case.prompt))]
    if unit == "message":
        yield from parts
        return
    for begin, stop in parts:
        for start, end in UNITS[unit](case.prompt[begin:stop]):
            yield begin + start, begin + end


def describe_target(case: Case, span: Span | None) -> Mapping[str, Any]:
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
    if span is not None:
        index = next(i for i, unit in enumerate(case.output) if unit.end > span[0])
        return {"kind": "span", "index": index, "text": case.completion[slice(*span)]}
    return {"kind": "tokens"}
