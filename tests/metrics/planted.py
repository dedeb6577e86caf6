"""A model that reads embeddings and whose parts are known: each word adds its strength to the target's logit."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from reagent.case import Floats, Ids
from reagent.explanation import Cost, Explanation
from reagent.models.base import Singles
from reagent.testing.scripted import ScriptedModel

WORDS = [f"w{i}" for i in range(60)]
STRENGTHS = (0.2, 1.6, 0.5, 1.1, 0.8, 0.1, 1.3, 0.05)
PROMPT = " ".join(WORDS[1 : 1 + len(STRENGTHS)])
TARGET = " w0"


class Planted(ScriptedModel):
    """The logit of "w0" is Σ strength · (how much of the word's own embedding is left), that of all others 0.

    Another word in a place leaves nothing of the embedding, give or take 1/√width.
    """

    def __init__(self, strengths: Sequence[float] = STRENGTHS, width: int = 256, rows: int = 64) -> None:
        super().__init__(WORDS, lambda context: self.read(self.table[context]))
        self.strengths, self.rows = np.array(strengths, dtype=np.float64), rows
        self.table = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(WORDS), width)).astype(np.float32)
        self.seen: list[Singles] = []

    def read(self, embeddings: Singles) -> Floats:
        n = min(embeddings.shape[1], len(self.strengths))
        own = self.table[1 : n + 1]  # the prompt's words
        left = np.einsum("bnd,nd->bn", embeddings[:, :n].astype(np.float64), own) / own.shape[1]
        logits = np.zeros((len(embeddings), len(WORDS)))
        logits[:, 0] = left @ self.strengths[:n]
        return logits

    # --- what a model may also have ---

    def rows_at_once(self, length: int, positions: int) -> int:
        del length, positions
        return self.rows

    def embed(self, ids: Ids) -> Singles:
        return self.table[ids]

    def after_tokens(self, sequences: Ids, positions: Ids) -> Singles:
        return self._after(self.table[sequences], positions)

    def after_embeddings(self, embeddings: Singles, positions: Ids) -> Singles:
        self.seen.append(embeddings.copy())
        return self._after(embeddings, positions)

    def _after(self, embeddings: Singles, positions: Ids) -> Singles:
        self.meter.add(len(embeddings), int(positions.max()))
        logits = np.stack([self.read(embeddings[:, :p]) for p in positions], axis=1)
        return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)


def explanation(
    model: ScriptedModel,
    scores: Sequence[float],
    *,
    prompt: str = PROMPT,
    protected: Sequence[int] = (),
    effects: Sequence[float] | None = None,
    shared: bool = True,
) -> Explanation:
    """An explanation of "w0" made by hand; scores are shared out to sum to 1 unless they are meant as they are."""
    case = model.case(prompt, TARGET).with_logprobs(model)
    total = sum(scores) if shared else 1.0
    return Explanation(
        prompt=case.prompt,
        completion=case.completion,
        input=tuple(replace(unit, protected=i in protected) for i, unit in enumerate(case.input)),
        output=case.output,
        scores=(tuple(score / total for score in scores),),
        effects=None if effects is None else (tuple(effects),),
        model=model.info,
        method={"id": "by hand"},
        replacer=None,
        seed=0,
        cost=Cost(0, 0, 0.0, 0, 0, 0, (0,), ("fixed",)),
    )
