"""Scripted models with planted truths."""

import numpy as np

from reagent.case import Floats, Ids
from reagent.testing.scripted import ScriptedModel

WORDS = [f"w{i}" for i in range(20)]


def both_needed(causes: dict[int, int], strength: float = 3.0) -> ScriptedModel:
    """Predicts "w0" rather than "w19" only if all `causes` (position → word) are in the context."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 19] = strength * (len(causes) - 0.5)
        for position, word in causes.items():
            if position < context.shape[1]:
                table[:, 0] += strength * (context[:, position] == word)
        return table

    return ScriptedModel(WORDS, logits)


def additive(costs: Floats) -> ScriptedModel:
    """log p("w0") is exactly −1 − Σ costs[position, word] over the context; costs [positions, words]."""

    def logits(context: Ids) -> Floats:
        seen = min(context.shape[1], len(costs))
        logprob = -1 - costs[np.arange(seen), context[:, :seen]].sum(-1)  # [batch]
        rest = np.log1p(-np.exp(logprob)) - np.log(len(WORDS) - 1)
        return np.concatenate([logprob[:, None], np.repeat(rest[:, None], len(WORDS) - 1, axis=1)], axis=1)

    return ScriptedModel(WORDS, logits)
