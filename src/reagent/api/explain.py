"""`explain`: from a prompt to an Explanation."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from difflib import get_close_matches
from inspect import signature
from typing import Any, overload

import numpy as np

from reagent.api.noise import Noise, measure_noise
from reagent.api.prepare import (
    describe_target,
    find_target_span,
    group_tokens,
    note_control_tokens,
    read_case,
    read_control_tokens,
    stream_to,
)
from reagent.case import Case, Floats
from reagent.errors import BudgetError, InputError
from reagent.explanation import Cost, Explanation, Level, Rows, Token, WhatIf, WholeAnswer
from reagent.methods import Attribution, Method, Progress, ProgressCallback, screening
from reagent.methods.base import no_progress
from reagent.methods.counterfactual import find_counterfactuals
from reagent.methods.hierarchical import Groups, LevelResult, SupportsHierarchy, attribute_hierarchically
from reagent.methods.registry import make_method
from reagent.methods.shortening import Shortener
from reagent.models.base import Model, response_of
from reagent.models.chat import Chat, Tools
from reagent.models.load import load_model
from reagent.replacers import Proposals, Replacer
from reagent.replacers.base import no_proposals
from reagent.request import ExplainRequest
from reagent.segmentation import Span
from reagent.tracing import find_answer_span, trace_answer
from reagent.views.notebook import notebook_bar

logger = logging.getLogger(__name__)


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


def run(
    model: Model,
    request: ExplainRequest,
    on_progress: ProgressCallback | None = None,
    on_answer: Callable[[str], None] | None = None,
) -> Explanation:
    """Answer a checked request."""
    request.check_model(model)
    replacer = request.replacer_for(model)
    model = read_control_tokens(model, request.control_tokens)
    case = read_case(stream_to(model, on_answer), request)
    controls = note_control_tokens(model, case, request.target)
    if on_answer is not None:
        on_answer(case.completion)
    case = replace(case, stride=request.stride)
    if not request.attribute_target:
        case = case.without_output_removal()
    span = None if request.target_span is None else find_target_span(case, request.target_span)
    answer = None if request.answer_span is None else find_answer_span(case.completion, request.answer_span)
    groups = group_tokens(case, request)

    meter = CostMeter(model)
    proposing, attributing = np.random.default_rng(request.seed).spawn(2)
    case = case.with_logprobs(model)
    meter.unlisted = meter.censored
    noise = measure_noise(model, case)
    proposals = meter.measure(lambda: replacer.propose(model, case, proposing)) if replacer else no_proposals(case)
    if replacer and not proposals.replaceable[: len(case.input)].any():
        raise InputError("there is nothing to replace: the replacer has no proposal for any token of the prompt")
    if span is not None:
        case = case.with_phrase(*span)

    latest: list[LevelResult] = []

    def notify(progress: Progress, levels: list[LevelResult]) -> None:
        latest[:] = levels or latest
        if report is not None:
            report(replace(progress, partial=builder.build(levels)) if levels else progress)

    with notebook_bar() if on_progress is None else nullcontext(on_progress) as report:
        shortener = _screen(model, case, request, groups, report or no_progress)
        builder = _Builder(model, request, replacer, case, span, tuple(groups), meter, shortener, controls, noise)
        try:
            levels = attribute_hierarchically(
                request.method, model, case, proposals, list(groups.values()), attributing, notify, shortener
            )
        except BudgetError as error:
            if not latest:
                raise
            logger.warning("%s; the result so far is returned", error)
            levels = latest
    counterfactuals: Sequence[WhatIf] = ()
    if request.what_if:
        last, all_targets = levels[-1], span is None and request.contrast is None
        targets = range(len(case.output)) if all_targets else [builder.build(levels).focus]
        counterfactuals = find_counterfactuals(model, last.case, last.proposals, last.attribution, targets)
    why = builder.build(levels, counterfactuals)
    return why if answer is None else replace(why, trace=trace_answer(why, answer))


def _screen(
    model: Model, case: Case, request: ExplainRequest, groups: Mapping[str, Groups], on_progress: ProgressCallback
) -> Shortener | None:
    """What the coarsest units are explained without; None if all of them are measured in the whole text."""
    method, unit = request.method, next(iter(groups))
    can_shorten = isinstance(method, SupportsHierarchy) and not getattr(method, "replaces", True)
    if not request.screen or not can_shorten or unit in ("token", "word"):
        return None
    units = case.grouped(groups[unit])
    screened = screening.screen(model, units, on_progress=on_progress)
    return None if screened.kept.all() else Shortener(model, units, screened)


@dataclass(frozen=True)
class _Builder:
    """Makes an Explanation, complete or partial, from the results of the levels."""

    model: Model
    request: ExplainRequest
    replacer: Replacer | None
    case: Case
    span: Span | None  # the phrase of the output that is explained, if one was asked for
    units: tuple[str, ...]  # from coarse to fine
    meter: "CostMeter"
    shortener: Shortener | None
    control_tokens: tuple[str, ...]
    noise: Noise | None

    def build(self, levels: Sequence[LevelResult], counterfactuals: Sequence[WhatIf] = ()) -> Explanation:
        unit = response_of(self.model).unit
        *coarser, last = map(self._finish, levels)
        return Explanation(
            prompt=self.case.prompt,
            completion=self.case.completion,
            input=last.case.input,
            output=tuple(self._output(unit) for unit in last.case.output),
            **_rows(last.attribution),
            effect_unit=unit if last.attribution.effect_unit == "nats" else last.attribution.effect_unit,
            shapley_values=_plain(last.attribution.shapley_values),
            groups=tuple(map(tuple, last.attribution.groups or ())),
            sufficiency=None if last.attribution.sufficiency is None else tuple(last.attribution.sufficiency),
            model=self.model.info,
            method=self.request.method_info,
            replacer=None if self.replacer is None else self.replacer.info,
            seed=self.request.seed,
            target=describe_target(self.case, self.span),
            unit=self.units[len(coarser)],
            display_unit=self.request.display_unit,
            attributes="context" if self.request.attribute_target else "prompt",
            answer=_answer(last.attribution),
            levels=tuple(
                Level(unit, level.case.input, **_rows(level.attribution), answer=_answer(level.attribution))
                for unit, level in zip(self.units, coarser, strict=False)
            ),
            screening=None if self.shortener is None else self.shortener.info,
            messages=self.case.messages,
            control_tokens=self.control_tokens,
            noise=None if self.noise is None else self.noise.per_token(last.case),
            what_if=tuple(counterfactuals),
            cost=self.meter.cost(last.attribution),
        )

    def _finish(self, level: LevelResult) -> LevelResult:
        """With the noise of a server, and uniform rows for output units that are not explained."""
        attribution = level.attribution
        if self.noise is not None:
            attribution = self.noise.add_to(attribution, level.case)
        return level._replace(attribution=attribution.explained_only(level.case))

    def _output(self, unit: Token) -> Token:
        """An output unit; a value that is no log-probability is left out."""
        return replace(unit, protected=False, logprob=unit.logprob if response_of(self.model).is_logprob else None)


class CostMeter:
    """Passes, tokens and seconds since it was made."""

    def __init__(self, model: Model) -> None:
        self.meter = model.meter
        self.begin, self.before = time.perf_counter(), replace(model.meter)
        self.proposals = self.unlisted = 0

    @property
    def censored(self) -> int:
        return self.meter.censored - self.before.censored

    @property
    def seconds(self) -> float:
        return round(time.perf_counter() - self.begin, 3)

    def measure(self, propose: Callable[[], Proposals]) -> Proposals:
        """Make proposals and record how many passes they took."""
        before = self.meter.forward_passes
        proposals = propose()
        if not isinstance(proposals, Proposals):
            raise InputError(f"the replacer must return Proposals, got a {type(proposals).__name__}")
        self.proposals = self.meter.forward_passes - before + proposals.auxiliary_passes
        return proposals

    def cost(self, attribution: Attribution) -> Cost:
        return Cost(
            forward_passes=self.meter.forward_passes - self.before.forward_passes,
            tokens=self.meter.tokens - self.before.tokens,
            seconds=self.seconds,
            proposals=self.proposals,
            probes=attribution.probes,
            stopping_tests=attribution.stopping_tests,
            steps=tuple(attribution.steps),
            stopped=tuple(attribution.stopped),
            runs=tuple(tuple(steps) for steps in attribution.runs),
            requests=self.meter.requests - self.before.requests,
            censored=self.censored,
            unlisted=self.unlisted,
        )


# --- the arguments of explain ---

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


def _answer(attribution: Attribution) -> WholeAnswer | None:
    """The row of the answer as a whole, if the method measured it."""
    answer = attribution.answer
    if answer is None:
        return None
    rows: dict[str, Any] = {name: None if some is None else some[0] for name, some in _rows(answer).items()}
    groups, tests = answer.groups or [[]], answer.sufficiency or [None]
    values = _plain(answer.shapley_values)
    return WholeAnswer(
        **rows,
        groups=tuple(groups[0]),
        sufficiency=tests[0],
        stopped=answer.stopped[0],
        shapley_values=None if values is None else values[0],
    )


def _rows(attribution: Attribution) -> dict[str, Any]:
    return {name: _plain(getattr(attribution, name)) for name in ("scores", "effects", "stderr")}


def _plain(rows: list[Floats] | None) -> Rows | None:
    return None if rows is None else tuple(tuple(float(value) for value in row) for row in rows)
