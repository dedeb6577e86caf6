"""Answer a checked request: from a model and an `ExplainRequest` to an Explanation."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reagent.api.cost import CostMeter
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
from reagent.explanation import Explanation, Level, Rows, Token, WhatIf, WholeAnswer
from reagent.methods import Attribution, Progress, ProgressCallback, screening
from reagent.methods.base import no_progress
from reagent.methods.counterfactual import find_counterfactuals
from reagent.methods.hierarchical import Groups, LevelResult, SupportsHierarchy, attribute_hierarchically
from reagent.methods.shortening import Shortener
from reagent.models.base import Model, response_of
from reagent.notebook import notebook_bar
from reagent.replacers import Replacer
from reagent.replacers.base import no_proposals
from reagent.request import ExplainRequest
from reagent.segmentation import Span
from reagent.tracing import find_answer_span, trace_answer

logger = logging.getLogger(__name__)


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
    meter: CostMeter
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
