"""`explain`: the whole way from a prompt to an Explanation."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from reagent.case import Floats
from reagent.errors import InputError
from reagent.explanation import Cost, Explanation, Level, Rows, WhatIf
from reagent.methods import METHODS, Attribution, Method, Progress, make_method
from reagent.methods.counterfactual import find_counterfactuals
from reagent.methods.hierarchical import LevelResult, attribute_hierarchically
from reagent.models.base import Model
from reagent.models.chat import Chat
from reagent.models.load import load_model
from reagent.replacers import Proposals, Replacer, automatic, make_replacer
from reagent.replacers.base import no_proposals
from reagent.request import check_prompt, check_question, check_units, cuts, phrase, question, read_case, streaming_to
from reagent.segmentation import Span
from reagent.views.notebook import notebook_bar


def explain(
    model: Model | Any,
    prompt: str | Chat,
    *,
    target: str | None = None,
    max_new_tokens: int = 10,
    stride: int = 1,
    unit: str = "token",
    spans: Sequence[Span] | None = None,
    levels: Sequence[str] | None = None,
    span: str | None = None,
    contrast: str | None = None,
    what_if: bool = False,
    method: str = "reagent",
    preset: str | None = None,
    replacer: str = "auto",
    replacer_options: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    answered: Callable[[str], None] | None = None,
    **options: Any,
) -> Explanation:
    """Which parts of `prompt` made `model` say `target` (or what it says by itself)?

    `model` is what `load_model` returns, or anything that it takes. A `prompt` that is a list of messages
    is a chat. With a `stride`, only every so many output tokens are explained. `unit` is token, word, sentence
    or paragraph; `spans` are characters of the prompt to score instead, each as a whole, while all else stays.
    `levels` are units from coarse to fine (by itself, a long prompt is explained by sentences first). `span`
    asks for a phrase of the output as a whole, `contrast` why the model did not say that instead, `what_if`
    what it would have said. `progress` is streaming_to how far it is (in a notebook there is a bar by itself),
    `answered` the output as far as it is known, before it is explained. `options` are the hyperparameters of
    the method's preset, such as `runs` and `max_steps`.

    >>> from reagent.testing.scripted import ScriptedModel
    >>> echo = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == np.arange(3)))
    >>> why = explain(echo, "c a b", max_new_tokens=1)
    >>> why.top(1)[0].token.text
    'c'
    """
    # Everything that can be wrong with the words is found before anything is loaded or computed.
    given = check_prompt(prompt)
    check_question(target, span, contrast, max_new_tokens, seed, stride)
    attributor, method_info, substitute = check_choices(
        unit, spans, levels, method, preset, options, replacer, replacer_options, what_if
    )
    known = model if hasattr(model, "score") and hasattr(model, "case") else load_model(model)
    if substitute is not None and replacer == "auto":
        substitute = make_replacer(automatic(known), **(replacer_options or {}))
    if hasattr(attributor, "check"):
        attributor.check(known)
    case = read_case(streaming_to(known, answered), given, target, contrast, max_new_tokens)
    if answered is not None:
        answered(case.completion)
    case = replace(case, stride=stride)
    asked = None if span is None else phrase(case, span)
    cut = cuts(case, unit, spans, levels, attributor)

    bill = _Bill(known)
    proposing, attributing = np.random.default_rng(seed).spawn(2)
    case = case.with_logprobs(known)
    bill.unlisted = bill.censored
    proposals = bill.proposing(lambda: substitute.propose(known, case, proposing)) if substitute else no_proposals(case)
    if substitute and not proposals.replaceable[: len(case.input)].any():
        raise InputError("there is nothing to replace: the replacer has no proposal for any token of the prompt")
    if asked is not None:
        case = case.with_phrase(*asked)

    def explanation(stages: Sequence[LevelResult], imagined: Sequence[WhatIf] = ()) -> Explanation:
        *coarser, last = (stage._replace(attribution=stage.attribution.explained_only(stage.case)) for stage in stages)
        names = list(cut)
        return Explanation(
            prompt=case.prompt,
            completion=case.completion,
            input=last.case.input,
            output=last.case.output,
            **_rows(last.attribution),
            effect_unit=last.attribution.effect_unit,
            model=known.info,
            method=method_info,
            replacer=None if substitute is None else substitute.info,
            seed=seed,
            target=question(case, asked),
            unit=names[len(coarser)],
            levels=tuple(
                Level(name, stage.case.input, **_rows(stage.attribution))
                for name, stage in zip(names, coarser, strict=False)
            ),
            messages=case.messages,
            what_if=tuple(imagined),
            cost=bill.cost(last.attribution),
        )

    def look(now: Progress, stages: list[LevelResult]) -> None:
        if report is not None:
            report(replace(now, partial=explanation(stages)) if stages else now)

    with notebook_bar() if progress is None else nullcontext(progress) as report:
        stages = attribute_hierarchically(attributor, known, case, proposals, list(cut.values()), attributing, look)
    if not what_if:
        return explanation(stages)
    rows = range(len(case.output)) if asked is None and contrast is None else [explanation(stages).focus]
    return explanation(
        stages, find_counterfactuals(known, stages[-1].case, stages[-1].proposals, stages[-1].attribution, rows)
    )


def check_choices(
    unit: str,
    spans: Sequence[Span] | None,
    levels: Sequence[str] | None,
    method: str,
    preset: str | None,
    options: Mapping[str, Any],
    replacer: str,
    replacer_options: Mapping[str, Any] | None,
    what_if: bool,
) -> tuple[Method, dict[str, Any], Replacer | None]:
    """The method, its provenance and the replacer, once all words about them are known to be right."""
    attributor, info = make_method(method, preset, **options)
    check_units(unit, spans, levels, attributor, method)
    return attributor, info, _replacer(info, attributor, replacer, replacer_options or {}, what_if)


def _replacer(
    info: Mapping[str, Any], method: Method, name: str, options: Mapping[str, Any], what_if: bool
) -> Replacer | None:
    """The replacer, or None for a method that replaces nothing."""
    if getattr(method, "replaces", METHODS[info["id"]].replaces):
        return make_replacer(name, **options)
    if name != "auto" or options or what_if:
        called = " ".join(str(info[key]) for key in ("id", "preset") if info[key])
        raise InputError(f"method {called!r} replaces nothing: leave out the replacer, its options and what_if")
    return None


class _Bill:
    """What an explanation took, from here on."""

    def __init__(self, model: Model) -> None:
        self.meter = model.meter
        self.begin, self.before = time.perf_counter(), replace(model.meter)
        self.proposals = self.unlisted = 0

    @property
    def censored(self) -> int:
        return self.meter.censored - self.before.censored

    def proposing(self, propose: Callable[[], Proposals]) -> Proposals:
        before = self.meter.forward_passes
        proposals = propose()
        self.proposals = self.meter.forward_passes - before + proposals.foreign_passes
        return proposals

    def cost(self, found: Attribution) -> Cost:
        return Cost(
            forward_passes=self.meter.forward_passes - self.before.forward_passes,
            tokens=self.meter.tokens - self.before.tokens,
            seconds=round(time.perf_counter() - self.begin, 3),
            proposals=self.proposals,
            probes=found.probes,
            stopping_tests=found.stopping_tests,
            steps=tuple(found.steps),
            stopped=tuple(found.stopped),
            runs=tuple(tuple(steps) for steps in found.runs),
            requests=self.meter.requests - self.before.requests,
            censored=self.censored,
            unlisted=self.unlisted,
        )


def _rows(found: Attribution) -> dict[str, Any]:
    return {"scores": _plain(found.scores), "effects": _plain(found.effects), "stderr": _plain(found.stderr)}


def _plain(rows: list[Floats] | None) -> Rows | None:
    return None if rows is None else tuple(tuple(float(value) for value in row) for row in rows)
