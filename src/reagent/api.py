"""`explain`: the whole way from a prompt to an Explanation."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reagent.errors import InputError
from reagent.explanation import Cost, Explanation, Rows
from reagent.methods import Attribution, Progress, make_method
from reagent.models.loading import load_model
from reagent.models.protocol import Floats, Model
from reagent.replacers import make_replacer


def explain(
    model: Model | Any,
    prompt: str,
    *,
    target: str | None = None,
    max_new_tokens: int = 10,
    method: str = "reagent",
    preset: str | None = None,
    replacer: str = "auto",
    replacer_options: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Explanation:
    """Which tokens of `prompt` made `model` say `target` (or what it says by itself)?

    `model` is what `load_model` returns, or anything that it takes. `options` are the hyperparameters
    of the method's preset, such as `runs` and `max_steps`.

    >>> from reagent.models.scripted import ScriptedModel
    >>> echo = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == np.arange(3)))
    >>> why = explain(echo, "c a b", max_new_tokens=1)
    >>> why.top(1)[0].token.text
    'c'
    """
    # Everything that can be wrong with the words is found before anything is loaded or computed.
    attributor, method_info = make_method(method, preset, **options)
    substitute = make_replacer(replacer, **(replacer_options or {}))
    check_words(prompt, target, max_new_tokens, seed)
    known = model if hasattr(model, "score") and hasattr(model, "case") else load_model(model)
    case = known.case(prompt, target, max_new_tokens)

    begin, passes, tokens = time.perf_counter(), known.meter.forward_passes, known.meter.tokens
    proposing, attributing = np.random.default_rng(seed).spawn(2)
    case = case.with_logprobs(known)
    before_proposals = known.meter.forward_passes
    proposals = substitute.propose(known, case, proposing)
    proposal_passes = known.meter.forward_passes - before_proposals + proposals.foreign_passes
    if not proposals.replaceable[: len(case.input)].any():
        raise InputError("there is nothing to replace: the replacer has no proposal for any token of the prompt")

    def explanation(found: Attribution) -> Explanation:
        return Explanation(
            prompt=prompt,
            completion=case.completion,
            input=case.input,
            output=case.output,
            scores=_rows(found.scores),
            effects=None if found.effects is None else _rows(found.effects),
            stderr=None if found.stderr is None else _rows(found.stderr),
            effect_unit=found.effect_unit,
            model=known.info,
            method=method_info,
            replacer=substitute.info,
            seed=seed,
            cost=_cost(
                found,
                forward_passes=known.meter.forward_passes - passes,
                tokens=known.meter.tokens - tokens,
                seconds=round(time.perf_counter() - begin, 3),
                proposals=proposal_passes,
            ),
        )

    def report(now: Progress) -> None:
        if progress is not None:
            progress(replace(now, partial=explanation(now.partial)) if isinstance(now.partial, Attribution) else now)

    return explanation(attributor.attribute(known, case, proposals, attributing, report))


def check_words(prompt: str, target: str | None, max_new_tokens: int, seed: int) -> None:
    """What can be wrong with them, before a model is loaded."""
    if not prompt.strip():
        raise InputError("the prompt is empty: give some text to explain")
    if target == "":
        raise InputError("the target is empty: give the text that the model said, or leave the target out")
    if target is None and max_new_tokens < 1:
        raise InputError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    if seed < 0:
        raise InputError(f"seed must be 0 or more, got {seed}")
    for name, text in (("prompt", prompt), ("target", target or "")):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"the {name} is not valid Unicode text: {error.reason}") from error


def _cost(found: Attribution, **counted: Any) -> Cost:
    return Cost(
        **counted,
        probes=found.probes,
        stopping_tests=found.stopping_tests,
        steps=tuple(found.steps),
        stopped=tuple(found.stopped),
        runs=tuple(tuple(steps) for steps in found.runs),
    )


def _rows(rows: list[Floats]) -> Rows:
    return tuple(tuple(float(value) for value in row) for row in rows)
