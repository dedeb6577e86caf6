"""A model whose answer is a plain Python function: for tests, and for planted truths."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from reagent.case import Case, Floats, Ids, TargetScores
from reagent.errors import InputError
from reagent.explanation import Token
from reagent.models.base import Meter, Predictions


class ScriptedModel:
    """Tokens are words; `logits(context [batch, n]) -> [batch, vocabulary]` defines the model.

    >>> words = ["a", "b", "c"]
    >>> echo = ScriptedModel(words, lambda context: 9.0 * (context[:, :1] == np.arange(3)))
    >>> echo.case("c a", max_new_tokens=1).completion
    ' c'
    """

    def __init__(self, vocabulary: Sequence[str], logits: Callable[[Ids], Floats]) -> None:
        self.vocabulary = list(vocabulary)
        self.logits = logits
        self.meter = Meter()

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "scripted", "revision": None, "dtype": "float64", "backend": "scripted"}

    @property
    def ordinary_ids(self) -> Ids:
        return np.arange(len(self.vocabulary))

    @property
    def ordinary_texts(self) -> tuple[str, ...]:
        return tuple(f" {word}" for word in self.vocabulary)

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        source = self._tokens(prompt)
        if target is None:
            ids = np.array([[token.ids[0] for token in source]])
            for _ in range(max_new_tokens):
                ids = np.concatenate([ids, self.logits(ids).argmax(-1)[:, None]], axis=1)
            target = "".join(" " + self.vocabulary[i] for i in ids[0, len(source) :])
        return Case(prompt, target, source, self._tokens(target))

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        self.meter.add(len(sequences), int(positions.max()))
        logprob = np.empty((len(sequences), len(positions)))
        rank = np.empty((len(sequences), len(positions)), dtype=np.int64)
        for j, (position, target) in enumerate(zip(positions, targets, strict=True)):
            row = self._log_softmax(sequences[:, :position])
            logprob[:, j] = row[:, target]
            rank[:, j] = (row > row[:, [target]]).sum(-1)
        return TargetScores(logprob, rank)

    def predict(self, sequence: Ids, k: int) -> Predictions:
        self.meter.add(1, len(sequence) - 1)
        rows = np.concatenate([self._log_softmax(sequence[None, :i]) for i in range(1, len(sequence))])
        best = np.argsort(-rows, axis=-1, kind="stable")[:, :k]
        return Predictions(best, np.take_along_axis(rows, best, axis=-1))

    def _log_softmax(self, context: Ids) -> Floats:
        logits = np.asarray(self.logits(context), dtype=np.float64)
        shifted = logits - logits.max(-1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))

    def _tokens(self, text: str) -> tuple[Token, ...]:
        tokens = []
        for match in re.finditer(r"\s*\S+", text):
            word = match.group().strip()
            if word not in self.vocabulary:
                raise InputError(f"the scripted model does not know the word {word!r}")
            tokens.append(Token((self.vocabulary.index(word),), match.group(), *match.span()))
        return tuple(tokens)
