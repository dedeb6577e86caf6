"""Scripted models whose causes are known: the truth that an attribution must find.

Each answers "w0" because of certain words at certain positions of the prompt, and otherwise prefers "w19".
"""

from collections.abc import Mapping

import numpy as np

from reagent.case import Floats, Ids, Mask
from reagent.testing.scripted import ScriptedModel

WORDS = [f"w{i}" for i in range(20)]
Causes = Mapping[int, int]  # position → the word that must be there


def all_of(causes: Causes, strength: float = 3.0) -> ScriptedModel:
    """Predicts "w0" only while all `causes` are in place (AND): each one is necessary.

    >>> all_of({0: 1, 2: 3}).case("w1 w2 w3", max_new_tokens=1).completion
    ' w0'
    """

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 19] = strength * (len(causes) - 0.5)
        table[:, 0] = strength * _present(causes, context).sum(-1)
        return table

    return ScriptedModel(WORDS, logits)


def any_of(causes: Causes, strength: float = 3.0) -> ScriptedModel:
    """Predicts "w0" while at least one of `causes` is in place (OR): each one is sufficient, none is necessary.

    >>> any_of({0: 1, 2: 3}).case("w1 w2 w9", max_new_tokens=1).completion
    ' w0'
    """

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 19] = strength / 2
        table[:, 0] = strength * _present(causes, context).any(-1)
        return table

    return ScriptedModel(WORDS, logits)


def mentions(word: str, strength: float = 3.0) -> ScriptedModel:
    """Predicts "w0" while `word` is anywhere in the context.

    >>> mentions("w5").case("w1 w5", max_new_tokens=1).completion
    ' w0'
    """

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 19] = strength / 2
        table[:, 0] = strength * (context == WORDS.index(word)).any(-1)
        return table

    return ScriptedModel(WORDS, logits)


def two_hops(strength: float = 9.0) -> ScriptedModel:
    """Copies in two steps: "a3" in the prompt leads to "b3", and "b3" leads to "c3".

    The answer "c3" does not read the prompt while "b3" is there. So "a3" has no direct share in it, and all of the
    share through "b3". The other words, "x" to "z", do nothing.

    >>> two_hops().case("x a3 y", max_new_tokens=2).completion
    ' b3 c3'
    """
    words = [f"{letter}{i}" for letter in "abc" for i in range(5)] + ["x", "y", "z"]

    def logits(context: Ids) -> Floats:
        present = (context[:, :, None] == np.arange(len(words))).any(1)  # [batch, words]
        table = np.zeros((len(context), len(words)))
        table[:, 5:10] = strength * present[:, :5]
        table[:, 10:15] = strength * present[:, 5:10]
        table[present[:, 5:10].any(1), 5:10] = 0.0
        return table

    return ScriptedModel(words, logits)


def additive(costs: Floats) -> ScriptedModel:
    """log p("w0") is exactly −1 − Σ costs[position, word] over the context; costs [positions, words]."""

    def logits(context: Ids) -> Floats:
        seen = min(context.shape[1], len(costs))
        logprob = -1 - costs[np.arange(seen), context[:, :seen]].sum(-1)  # [batch]
        rest = np.log1p(-np.exp(logprob)) - np.log(len(WORDS) - 1)
        return np.concatenate([logprob[:, None], np.repeat(rest[:, None], len(WORDS) - 1, axis=1)], axis=1)

    return ScriptedModel(WORDS, logits)


def _present(causes: Causes, context: Ids) -> Mask:
    """Which causes are in place in each context, [batch, causes]."""
    columns = [
        context[:, position] == word if position < context.shape[1] else np.zeros(len(context), dtype=np.bool_)
        for position, word in causes.items()
    ]
    return np.stack(columns, axis=-1) if columns else np.zeros((len(context), 0), dtype=np.bool_)
