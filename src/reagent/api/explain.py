"""`explain`: from a prompt to an Explanation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from inspect import signature
from typing import Any, overload

import numpy as np

from reagent.api.run import run
from reagent.errors import InputError
from reagent.explanation import Explanation
from reagent.methods import Method, ProgressCallback
from reagent.methods.registry import make_method
from reagent.models.base import Model
from reagent.models.chat import Chat, Tools
from reagent.models.load import load_model
from reagent.replacers import Replacer
from reagent.request import ExplainRequest
from reagent.segmentation import Span


@overload
def explain(
    model: Any,
    prompt: str | Chat,
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
    proxy: Any = None,
    method: str | Method = "reagent",
    preset: str | None = None,
    replacer: str | Replacer = "auto",
    replacer_options: Mapping[str, Any] | None = None,
    seed: int | None = 0,
    control_tokens: str = "keep",
    alternatives: Mapping[str, Sequence[str]] | None = None,
    on_progress: ProgressCallback | None = None,
    on_answer: Callable[[str], None] | None = None,
    **options: Any,
) -> Explanation: ...
@overload
def explain(
    model: Any,
    prompt: Sequence[str] | Sequence[Chat],
    *,
    target: str | Sequence[str | None] | None = None,
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
    proxy: Any = None,
    method: str | Method = "reagent",
    preset: str | None = None,
    replacer: str | Replacer = "auto",
    replacer_options: Mapping[str, Any] | None = None,
    seed: int | None = 0,
    control_tokens: str = "keep",
    alternatives: Mapping[str, Sequence[str]] | None = None,
    on_progress: ProgressCallback | None = None,
    on_answer: Callable[[str], None] | None = None,
    **options: Any,
) -> "Explanations": ...
def explain(
    model: Any,
    prompt: Any,
    *,
    target: str | Sequence[str | None] | None = None,
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
    proxy: Any = None,
    method: str | Method = "reagent",
    preset: str | None = None,
    replacer: str | Replacer = "auto",
    replacer_options: Mapping[str, Any] | None = None,
    seed: int | None = 0,
    control_tokens: str = "keep",
    alternatives: Mapping[str, Sequence[str]] | None = None,
    on_progress: ProgressCallback | None = None,
    on_answer: Callable[[str], None] | None = None,
    **options: Any,
) -> "Explanation | Explanations":
    """Which parts of `prompt` made `model` say `target` (or its own continuation)?

    Args:
        model: what `load_model` returns, or anything that it accepts.
        prompt: a text, or a chat as a list of messages `{"role", "content"}`, with `tool_calls` and the role `tool`
            for agents. A list of texts or of chats gives a sequence of explanations, each computed when it is first
            read.
        target: explain this continuation instead of the model's own; for a list of prompts, one for each.
        max_new_tokens: length of the model's own continuation.
        tools: for a chat, definitions of the tools, which the chat template shows to the model.
        stride: explain every n-th output token only.
        units: what is removed and scored: "token", "word", "sentence", "paragraph" or, in a chat, "message". By
            default tokens, which views show as words. A list goes from coarse to fine, as `["sentence", "token"]`; a
            long prompt does so by default.
        prompt_spans: score these characters of the prompt instead, each as one unit; everything else is kept.
        target_span: explain this phrase of the output as a whole.
        contrast: explain why the model did not say this instead.
        answer_span: the answer in the output, at the last place where this text occurs. It is traced through the text
            before it, the reasoning, to the prompt (`why.trace`).
        attribute_target: also remove earlier output tokens, so that each output token is explained by its whole
            context. By default only the prompt is changed, unless a phrase, a contrast, an answer to trace or the
            preset "paper" is asked for.
        what_if: also report what the model says under the strongest replacement.
        screen: set aside units of a long prompt that cannot matter, and explain the text without them. False measures
            every unit in the whole text, which takes many times longer.
        proxy: a small model, or its name, that explains the answer of `model` in its place. Both score some texts; if
            they do not agree, a ProxyError says so.
        method: an id of `reagent methods`, or an instance such as `ReagentFast(probes=64)`.
        preset: named settings of the method.
        replacer: an id of `reagent replacers`, or an instance. The preset `fast` deletes, unless one is named.
        replacer_options: options of the replacer, when it is given by its id.
        seed: for all random draws; None draws a seed and records it.
        control_tokens: how control tokens in your text, such as `<|im_end|>`, are read. "keep": as control tokens, with
            a warning; they are never removed. "text": as the letters they are written with.
        alternatives: for a prompt with slots `{{ name }}`, the values of each: the first is that of the prompt, and
            the others replace it. The slots are the units; everything else is kept.
        on_progress: called with a `Progress`; without it, a notebook shows a progress bar.
        on_answer: called with the output before it is explained, token by token where the model can stream.
        options: options of the method, such as `probes` or `max_steps`.

    >>> from reagent.testing import ScriptedModel
    >>> echo = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == np.arange(3)))
    >>> explain(echo, "c a b", max_new_tokens=1).top(1)[0].token.text
    'c'
    >>> [why.completion for why in explain(echo, ["a b", "b c"], max_new_tokens=1)]
    [' a', ' b']
    """
    _check_options(method, preset, options)
    prompts = _several(prompt)
    targets = _targets(target, None if prompts is None else len(prompts))

    def build(one: Any, its_target: str | None) -> ExplainRequest:
        return ExplainRequest.build(
            one,
            target=its_target,
            max_new_tokens=max_new_tokens,
            tools=tools,
            stride=stride,
            units=units,
            prompt_spans=prompt_spans,
            target_span=target_span,
            contrast=contrast,
            answer_span=answer_span,
            attribute_target=attribute_target,
            what_if=what_if,
            screen=screen,
            method=method,
            preset=preset,
            options=options,
            replacer=replacer,
            replacer_options=replacer_options,
            seed=seed,
            control_tokens=control_tokens,
            alternatives=alternatives,
        )

    if prompts is None:
        request = build(prompt, targets[0])
        if proxy is not None:
            from reagent.api.proxy import explain_by_proxy

            return explain_by_proxy(load_model(model), load_model(proxy), request, on_progress, on_answer)
        return run(load_model(model), request, on_progress, on_answer)
    if proxy is not None:
        raise InputError("with `proxy`, explain one prompt at a time: give a text or a chat")
    requests = [build(one, its_target) for one, its_target in zip(prompts, targets, strict=True)]
    return Explanations(load_model(model), requests, on_progress, on_answer)


class Explanations(Sequence[Explanation]):
    """Explanations of several prompts, each computed when it is first read, and kept.

    The length is known, so `tqdm(explanations)` shows how many are done.
    """

    def __init__(
        self,
        model: Model,
        requests: Sequence[ExplainRequest],
        on_progress: ProgressCallback | None = None,
        on_answer: Callable[[str], None] | None = None,
    ) -> None:
        self._model, self._requests = model, list(requests)
        self._on_progress, self._on_answer = on_progress, on_answer
        self._explanations: dict[int, Explanation] = {}

    def __len__(self) -> int:
        return len(self._requests)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> list[Explanation]: ...
    def __getitem__(self, index: int | slice) -> Explanation | list[Explanation]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        if i not in self._explanations:
            self._explanations[i] = run(self._model, self._requests[i], self._report_from(i), self._on_answer)
        return self._explanations[i]

    def _report_from(self, index: int) -> ProgressCallback | None:
        """The progress callback, with the index of the prompt and their number."""
        on_progress = self._on_progress
        if on_progress is None:
            return None
        return lambda progress: on_progress(replace(progress, prompt=index, prompts=len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} explanations, {len(self._explanations)} computed>"


# Names that users of the command line or of other tools may expect.
_RENAMED = {
    "span": "target_span",
    "spans": "prompt_spans",
    "unit": "units",
    "levels": "units",
    "progress": "on_progress",
    **dict.fromkeys(("text", "texts", "inputs", "input_text", "input_texts", "prompts", "messages"), "prompt"),
    **dict.fromkeys(("output", "answer", "generated_text", "generated_texts", "targets"), "target"),
    **dict.fromkeys(("max_tokens", "max_length"), "max_new_tokens"),
    **dict.fromkeys(("n_samples", "nsamples", "num_samples", "num_ablations"), "probes"),
    "attribution_method": "method",
}
# Parts of a prompt, which other tools take as separate arguments.
_PROMPT_PARTS = ("context", "contexts", "document", "documents", "passages", "sources", "query", "question")
# Arguments of load_model.
_OF_MODEL = ("device", "dtype", "revision", "languages", "tokenizer")


def _check_options(method: str | Method, preset: str | None, options: Mapping[str, Any]) -> None:
    """Report an unknown keyword with the argument or the option that is meant."""
    configured, info = make_method(method, preset)
    allowed = list(getattr(configured, "__dataclass_fields__", ()))
    for name in options:
        if name not in allowed:
            arguments = [argument for argument in signature(explain).parameters if argument not in ("model", "options")]
            raise InputError(
                f"explain has no argument {name!r}{_advise(name, arguments, allowed)} Arguments: "
                f"{', '.join(arguments)}; options of method {info['id']!r}: {', '.join(allowed) or 'none'}"
            )


def _advise(name: str, arguments: Sequence[str], options: Sequence[str]) -> str:
    """What to write instead of an unknown argument."""
    if name in _PROMPT_PARTS:
        return (
            ": for a question about documents use reagent.cite(model, question, documents). To explain a prompt that "
            "contains them, write it as `prompt`, and mark its parts with `prompt_spans` or units='paragraph'."
        )
    if name in _OF_MODEL:
        return f": it is an argument of load_model, as explain(load_model(model, {name}=…), prompt)."
    renamed = _RENAMED.get(name)
    known = renamed in (*arguments, *options)
    close = [renamed] if known else get_close_matches(name, [*arguments, *options], n=1)
    return f", did you mean {close[0]!r}?" if close else "."


def _several(prompt: Any) -> Sequence[Any] | None:
    """The prompts of a list of texts or chats; None for one text or one chat."""
    prompt = prompt.tolist() if isinstance(prompt, np.ndarray) else prompt
    if isinstance(prompt, str) or not isinstance(prompt, Sequence) or not prompt:
        return None
    if all(isinstance(one, Mapping) for one in prompt):
        return None
    if all(isinstance(one, str | Sequence) for one in prompt):
        return prompt
    raise InputError("a list of prompts must contain only texts and chats; a chat is a list of messages")


def _targets(target: Any, count: int | None) -> list[str | None]:
    if target is None or isinstance(target, str):
        return [target] * (count or 1)
    if count is None:
        raise InputError(f"`target` must be a text, got {target!r}: give a list of targets with a list of prompts")
    if not isinstance(target, Sequence):
        raise InputError(f"`target` must be a text or a list of texts, got {target!r}")
    if len(target) != count:
        raise InputError(f"there are {count} prompts and {len(target)} targets: give one target for each prompt")
    return list(target)
