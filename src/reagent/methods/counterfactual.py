"""Counterfactuals: what the model predicts when the most important unit is replaced."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reagent.case import Case, Ids
from reagent.explanation import Answer, WhatIf
from reagent.methods.base import Attribution
from reagent.models.base import HasDistributions, HasTokenTexts, Model, PredictsTokens, require
from reagent.replacers.base import Proposals

ANSWERS = 3  # most likely tokens that a counterfactual lists
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def find_counterfactuals(
    model: Model, case: Case, proposals: Proposals, attribution: Attribution, targets: Sequence[int]
) -> list[WhatIf]:
    """For each output unit in `targets`, the candidate of its most important unit that lowers its value most.

    It takes one pass per candidate, shared by the targets with the same most important unit, and two per target.
    """
    for capability in (PredictsTokens if not isinstance(model, HasDistributions) else HasDistributions, HasTokenTexts):
        require(model, capability, "`what_if`")
    assert isinstance(model, HasTokenTexts)
    texts = dict(zip(model.ordinary_ids.tolist(), model.ordinary_texts, strict=True))
    top = {t: int(np.argmax(attribution.scores[t])) for t in targets}
    top = {t: unit for t, unit in top.items() if proposals.replaceable[unit]}
    counterfactuals = []
    for unit in dict.fromkeys(top.values()):
        sequences = _replacements(proposals, unit)
        values = case.score_outputs(model, sequences).value  # [candidates, outputs]
        for t in (t for t, at in top.items() if at == unit):
            strongest = sequences[int(values[:, t].argmin())]
            position = case.unit_starts[len(case.input) + t]
            answers = _predict_next(model, strongest[:position])
            logprob = replace(case, contrast=None).score_outputs(model, strongest[None]).value[0, t]
            replacement = strongest[case.unit_starts[unit] : case.unit_starts[unit + 1]]
            counterfactuals.append(
                WhatIf(
                    target=t,
                    position=unit,
                    replacement="".join(texts.get(int(i), UNKNOWN) for i in replacement),
                    probability=float(np.exp(logprob)),
                    answers=tuple(Answer(texts.get(int(i), UNKNOWN), float(np.exp(p))) for i, p in answers),
                )
            )
    return sorted(counterfactuals, key=lambda counterfactual: counterfactual.target)


def _predict_next(model: Any, context: Ids) -> Iterable[tuple[int, float]]:
    """The most likely next tokens with their log-probabilities."""
    if isinstance(model, PredictsTokens):
        ids, logprobs = model.predict(np.append(context, 0), ANSWERS)
        return zip(ids[-1].tolist(), logprobs[-1].tolist(), strict=True)
    logprobs = model.after_tokens(context[None], np.array([len(context)]))[0, 0, model.ordinary_ids]
    best = np.argsort(-logprobs, kind="stable")[:ANSWERS]
    return zip(model.ordinary_ids[best].tolist(), logprobs[best].tolist(), strict=True)


def _replacements(proposals: Proposals, unit: int) -> Ids:
    """The text with one unit replaced by each of its candidates, [candidates, length]."""
    columns = np.flatnonzero(proposals.weights[unit])[:, None]
    return proposals.apply(np.ones(columns.shape, dtype=np.bool_), columns, np.array([unit]))
