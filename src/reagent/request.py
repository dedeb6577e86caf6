"""ExplainRequest: everything that is asked of `explain`, checked once before a model is loaded.

The Python API, the command line, the web service and the benchmark each build one from their own inputs;
`reagent.api.run.run(model, request)` does the rest.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reagent.errors import InputError, UnknownNameError
from reagent.methods.base import Method
from reagent.methods.hierarchical import SupportsHierarchy
from reagent.methods.registry import make_method, uses_replacer
from reagent.models.base import Model, require_logprobs
from reagent.models.chat import Chat, Tools, check_messages, check_tools
from reagent.replacers import Replacer, choose_automatic, make_replacer
from reagent.replacers.alternatives import fill_slots
from reagent.segmentation import UNITS, Span, check_spans
from reagent.validation import check_name

SINGLE_UNITS = ("token", *UNITS, "message")
COARSE_TO_FINE = ("span", *reversed(SINGLE_UNITS))
CONTROL_TOKENS = ("keep", "text")  # control tokens in the text of a user, or their letters
MOST_NEW_TOKENS = 10**6
LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class AutomaticReplacer:
    """The replacer `auto`, with its options: which one it is depends on the model."""

    options: Mapping[str, Any]

    def resolve(self, model: Model) -> Replacer:
        return make_replacer(choose_automatic(model), **self.options)


@dataclass(frozen=True, kw_only=True)
class ExplainRequest:
    """A checked request. `build` makes one from user input."""

    prompt: str | Chat
    target: str | None
    max_new_tokens: int
    tools: tuple[Mapping[str, Any], ...]
    stride: int
    units: str | tuple[str, ...]  # one name: a long prompt may be explained coarse to fine; several: exactly these
    display_unit: str | None  # the unit in which views show tokens
    prompt_spans: tuple[Span, ...] | None
    target_span: str | None
    contrast: str | None
    answer_span: str | None
    attribute_target: bool
    what_if: bool
    screen: bool  # whether units of a long prompt that cannot matter are set aside first
    method: Method
    method_info: Mapping[str, Any]
    replacer: Replacer | AutomaticReplacer | None  # None: the method replaces nothing
    seed: int
    control_tokens: str = "keep"  # or "text": how control tokens in the prompt and the target are read

    @classmethod
    def build(
        cls,
        prompt: Any,
        *,
        target: str | None = None,
        max_new_tokens: int = 10,
        tools: Tools | None = None,
        stride: int = 1,
        units: str | Sequence[str] | None = None,
        prompt_spans: Sequence[Span] | None = None,
        target_span: str | None = None,
        contrast: str | None = None,
        answer_span: str | None = None,
        attribute_target: bool | None = None,
        what_if: bool = False,
        screen: bool = True,
        method: str | Method = "reagent",
        preset: str | None = None,
        options: Mapping[str, Any] | None = None,
        replacer: str | Replacer = "auto",
        replacer_options: Mapping[str, Any] | None = None,
        seed: int | None = 0,
        control_tokens: str = "keep",
        alternatives: Mapping[str, Sequence[str]] | None = None,
    ) -> "ExplainRequest":
        """Check every argument of `reagent.explain`; `options` are those of the method."""
        if alternatives:
            if prompt_spans is not None or units is not None or replacer != "auto":
                raise InputError(
                    "`alternatives` are the units and the replacer: leave out `prompt_spans`, `units` and `replacer`"
                )
            prompt, prompt_spans, replacer = fill_slots(prompt, alternatives)
            if hasattr(configure_method(method, preset, options or {}, "auto")[0], "removal"):
                options = {"removal": "replace", **(options or {})}
        checked_prompt = check_prompt(prompt)
        check_texts(target=target, target_span=target_span, contrast=contrast, answer_span=answer_span)
        asked = {"target_span": target_span, "contrast": contrast, "answer_span": answer_span}
        names = [f"`{name}`" for name, text in asked.items() if text is not None]
        if len(names) > 1:
            raise InputError(f"give {' or '.join(names[:2])}, not both: each asks another question about the output")
        if contrast is not None and contrast == target:
            raise InputError(f"`contrast` is the target itself, {target!r}: give another text to compare it with")
        step = check_whole("stride", stride, 1)
        if step > 1 and names:
            raise InputError(f"`stride` must be 1 where {names[0]} is given, got {stride}")
        if answer_span is not None and attribute_target is False:
            raise InputError("`answer_span` needs the scores of earlier output tokens: leave out `attribute_target`")
        configured, info = configure_method(method, preset, options or {}, replacer)
        checked_units = check_units("token" if units is None else units, prompt_spans, configured, info)
        by_message = "message" in ([checked_units] if isinstance(checked_units, str) else checked_units)
        if isinstance(checked_prompt, str) and (tools or by_message):
            name = "`tools` are" if tools else "the unit 'message' is"
            raise InputError(f"{name} for a chat: give the prompt as a list of messages (--chat or --messages)")
        return cls(
            prompt=checked_prompt,
            target=target,
            max_new_tokens=check_new_tokens(max_new_tokens),
            tools=check_tools(() if tools is None else tools),
            stride=step,
            units=checked_units,
            display_unit="word" if units is None and prompt_spans is None else None,
            prompt_spans=None if prompt_spans is None else check_prompt_spans(prompt_spans, checked_prompt),
            target_span=target_span,
            contrast=contrast,
            answer_span=answer_span,
            attribute_target=bool(names) or is_published(info.get("preset"))
            if attribute_target is None
            else check_flag("attribute_target", attribute_target),
            what_if=check_flag("what_if", what_if),
            screen=check_flag("screen", screen),
            method=configured,
            method_info=info,
            replacer=choose_replacer(configured, info, replacer, check_mapping(replacer_options), what_if),
            seed=secrets.randbits(32) if seed is None else check_whole("seed", seed, 0, LARGEST_SEED),
            control_tokens=check_control_tokens(control_tokens),
        )

    def check_model(self, model: Model) -> None:
        """Raise CapabilityError if the method needs a capability that the model lacks."""
        if hasattr(self.method, "check"):
            self.method.check(model)
        if is_published(self.method_info.get("preset")) or getattr(self.method, "response", "logprob") == "g":
            require_logprobs(model, f"method {describe_method(self.method_info)!r}")
        asked = {"target_span": self.target_span, "answer_span": self.answer_span}
        for name in (name for name, text in asked.items() if text is not None):
            require_logprobs(model, f"`{name}`")

    def replacer_for(self, model: Model) -> Replacer | None:
        return self.replacer.resolve(model) if isinstance(self.replacer, AutomaticReplacer) else self.replacer


def check_prompt(prompt: Any) -> str | Chat:
    """A text, or the messages of a chat."""
    if not isinstance(prompt, str):
        if not isinstance(prompt, Sequence):
            advice = ": put it into a list" if isinstance(prompt, Mapping) else ": make a list of it"
            raise InputError(
                f"`prompt` must be a text, a list of texts or a list of messages, got a {type(prompt).__name__}"
                f"{advice if isinstance(prompt, Iterable) else ''}"
            )
        if not prompt:
            raise InputError("the list of prompts is empty: give at least one text or chat")
        messages = check_messages(prompt)
        check_texts(**{f"message {i}": message["content"] or None for i, message in enumerate(messages)})
        return messages
    if not prompt.strip():
        raise InputError("the prompt is empty: give some text to explain")
    check_texts(prompt=prompt)
    return prompt


def check_texts(**texts: str | None) -> None:
    """Each text is None, or not empty and valid Unicode."""
    for name, text in texts.items():
        if text is None:
            continue
        if not isinstance(text, str):
            raise InputError(f"`{name}` must be a text, got {text!r}")
        if not text:
            raise InputError(f"`{name}` is empty: give some text, or leave it out")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"`{name}` is not valid Unicode text: {error.reason}") from error


def check_whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """A whole number of any integer type, as a plain int."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"`{name}` must be a whole number, got {value!r}")
    if value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"between {low} and {high}"
        raise InputError(f"`{name}` must be {limits}, got {value}")
    return int(value)


def check_new_tokens(value: Any) -> int:
    """The length of a continuation."""
    length = check_whole("max_new_tokens", value, 1)
    if length > MOST_NEW_TOKENS:
        raise InputError(f"`max_new_tokens` must be at most {MOST_NEW_TOKENS}, got {value}")
    return length


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"`{name}` must be True or False, got {value!r}")
    return bool(value)


def check_control_tokens(value: Any) -> str:
    check_name("way to read control tokens (`control_tokens`)", value, CONTROL_TOKENS)
    return str(value)


def check_mapping(options: Any) -> Mapping[str, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f"`replacer_options` must be a mapping of names to values, got {options!r}")
    return options or {}


def check_prompt_spans(spans: Any, prompt: str | Chat) -> tuple[Span, ...]:
    """Spans [start, end) of characters; those of a plain prompt must lie inside it and not overlap."""
    if isinstance(spans, str) or not isinstance(spans, Iterable):
        raise InputError(f"`prompt_spans` must be a list of (start, end), got {spans!r}")
    checked = []
    for span in spans:
        if isinstance(span, str) or not isinstance(span, Iterable) or len(ends := tuple(span)) != 2:
            raise InputError(f"`prompt_spans` must be a list of (start, end), got {span!r} in it")
        checked.append((check_whole("prompt_spans", ends[0], 0), check_whole("prompt_spans", ends[1], 0)))
    if not checked:
        raise InputError("`prompt_spans` is empty: give at least one part of the prompt")
    return tuple(check_spans(checked, len(prompt))) if isinstance(prompt, str) else tuple(checked)


def check_units(
    units: str | Sequence[str], prompt_spans: Sequence[Span] | None, method: Method, info: Mapping[str, Any]
) -> str | tuple[str, ...]:
    """The units to score: one name, or several from coarse to fine."""
    if isinstance(units, str):
        if units not in SINGLE_UNITS:
            raise UnknownNameError("unit", units, SINGLE_UNITS)
        if prompt_spans is not None and units != "token":
            raise InputError(f"`prompt_spans` are the units themselves: leave out `units`, or give span,{units}")
        return units
    if not isinstance(units, Sequence):
        raise InputError(f"`units` must be a name or a list of names, got {units!r}")
    names = tuple(units)
    for name in names:
        if name not in COARSE_TO_FINE:
            raise UnknownNameError("unit", name, COARSE_TO_FINE)
    places = [COARSE_TO_FINE.index(name) for name in names]
    if not names or places != sorted(set(places)):
        raise InputError(f"`units` must go from coarse to fine, in the order of {', '.join(COARSE_TO_FINE)}")
    if "span" in names and prompt_spans is None:
        raise InputError("the unit 'span' needs `prompt_spans`: give the parts of the prompt")
    if len(names) > 1 and not isinstance(method, SupportsHierarchy):
        raise InputError(f"method {describe_method(info)!r} cannot go from coarse to fine: give one unit")
    return names


def choose_replacer(
    method: Method, info: Mapping[str, Any], replacer: str | Replacer, options: Mapping[str, Any], what_if: bool
) -> Replacer | AutomaticReplacer | None:
    """The replacer, or None for a method that replaces nothing."""
    if uses_replacer(method) or (what_if and hasattr(method, "removal")):
        checked = make_replacer(replacer, **options)
        return AutomaticReplacer(options) if replacer == "auto" else checked
    if replacer != "auto" or options or what_if:
        raise InputError(
            f"method {describe_method(info)!r} replaces nothing: leave out the replacer, its options and `what_if`"
        )
    return None


def is_published(preset: str | None) -> bool:
    """Whether a preset is the published algorithm, which explains each output token by its whole context."""
    return (preset or "").startswith("paper")


def configure_method(
    method: str | Method, preset: str | None, options: Mapping[str, Any], replacer: str | Replacer
) -> tuple[Method, dict[str, Any]]:
    """As `make_method`. A method that leaves the kind of removal open replaces units where a replacer is named."""
    configured, info = make_method(method, preset, **options)
    if replacer != "auto" and getattr(configured, "removal", "") is None:
        return make_method(method, preset, **{**options, "removal": "replace"})
    return configured, info


def describe_method(info: Mapping[str, Any]) -> str:
    """Id and preset, as in "occlusion deletion"."""
    return " ".join(str(info[key]) for key in ("id", "preset") if info[key])
