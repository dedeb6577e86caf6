"""What the model would have said under the strongest replacement: a counterfactual that a person can read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from reagent.case import Case, Ids
from reagent.explanation import Answer, WhatIf
from reagent.methods.base import Attribution
from reagent.models.base import HasTokenTexts, Model, PredictsTokens, require
from reagent.replacers.base import Proposals

ANSWERS = 3


def what_if(model: Model, case: Case, proposals: Proposals, found: Attribution, targets: Sequence[int]) -> list[WhatIf]:
    """For each of the output units `targets`: its most important unit, replaced by each alternative in turn.

    The alternative that costs the target most is the one told. A pass for each alternative, shared by the
    targets of which it is the most important unit, and one for the answer.
    """
    for capability in (PredictsTokens, HasTokenTexts):
        require(model, capability, "a counterfactual (--what-if)")
    assert isinstance(model, PredictsTokens)
    assert isinstance(model, HasTokenTexts)
    spelled = dict(zip(model.ordinary_ids.tolist(), model.ordinary_texts, strict=True))
    best = {t: int(np.argmax(found.scores[t])) for t in targets if proposals.replaceable[np.argmax(found.scores[t])]}
    told = []
    for unit in dict.fromkeys(best.values()):
        sequences = _alternatives(proposals, unit)
        values = case.score_outputs(model, sequences).value  # [alternatives, outputs]
        for t in (t for t, at in best.items() if at == unit):
            strongest = sequences[int(values[:, t].argmin())]
            place = case.unit_starts[len(case.input) + t]
            ids, logprobs = model.predict(strongest[: place + 1], ANSWERS)
            own = replace(case, contrast=None).score_outputs(model, strongest[None]).value[0, t]
            told.append(
                WhatIf(
                    target=t,
                    position=unit,
                    replacement="".join(
                        spelled.get(int(i), "\N{REPLACEMENT CHARACTER}")
                        for i in strongest[case.unit_starts[unit] : case.unit_starts[unit + 1]]
                    ),
                    probability=float(np.exp(own)),
                    answers=tuple(
                        Answer(spelled.get(int(i), "\N{REPLACEMENT CHARACTER}"), float(np.exp(p)))
                        for i, p in zip(ids[-1], logprobs[-1], strict=True)
                    ),
                )
            )
    return sorted(told, key=lambda one: one.target)


def _alternatives(proposals: Proposals, unit: int) -> Ids:
    """The text with one unit replaced by each of its alternatives, [alternatives, length]."""
    columns = np.flatnonzero(proposals.weights[unit])[:, None]
    return proposals.apply(np.ones(columns.shape, dtype=np.bool_), columns, np.array([unit]))
