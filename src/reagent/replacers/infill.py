"""The explained model as its own masked language model: it uses the text before and after a position.

The text to the right of a position is evidence about its token. By Bayes' rule, for a candidate c,

    p(c | left, right) ∝ p(c | left) · p(right | left, c)

The first factor is the model's own prediction. The second is the probability of the text that follows when c is at
that position. The candidates of `self` are reranked by the product.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case, Floats, Ids
from reagent.models.base import HasVocabulary, Model, PredictsTokens, require
from reagent.replacers.base import Proposals, make_proposals
from reagent.validation import check_integer


@dataclass(frozen=True)
class InfillReplacer:
    """The best `candidates` of `considered` predictions from the left, reranked by the next `window` tokens.

    At least `candidates` + 1 predictions are considered. The cost is one pass per position and considered token, over
    `window` tokens each, because the text to the left is computed once. `weighted` samples by the posterior, otherwise
    uniformly as in the paper. The model predicts nothing for position 0: its candidates are ordinary tokens, sampled
    uniformly and reranked like the others.
    """

    requires: ClassVar[tuple[type, ...]] = (PredictsTokens, HasVocabulary)

    candidates: int = 10
    considered: int = 30
    window: int = 5
    weighted: bool = False

    def __post_init__(self) -> None:
        for name in ("candidates", "considered", "window"):
            check_integer("the replacer", name, getattr(self, name), 1)

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "infill", **asdict(self)}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        for capability in self.requires:
            require(model, capability, "replacer 'infill'")
        assert isinstance(model, PredictsTokens)
        assert isinstance(model, HasVocabulary)
        predictions = model.predict(case.ids, max(self.considered, self.candidates + 1))  # the original is removed
        first = rng.choice(model.ordinary_ids, size=(1, predictions.ids.shape[1]))
        ids = np.concatenate([first, predictions.ids])  # [length, considered]
        prior = np.concatenate([np.zeros(first.shape), predictions.logprob])
        posterior = prior + np.stack([self._log_likelihood(model, case, i, ids[i]) for i in range(len(ids))])
        posterior[ids == case.ids[:, None]] = -np.inf
        best = np.argsort(-posterior, axis=-1, kind="stable")[:, : self.candidates]
        posterior = np.take_along_axis(posterior, best, axis=-1)
        weights = np.exp(posterior - posterior.max(-1, keepdims=True))
        weights = weights if self.weighted else np.sign(weights)
        return make_proposals(case, np.take_along_axis(ids, best, axis=-1), weights, sampled=np.arange(len(ids)) == 0)

    def _log_likelihood(self, model: Model, case: Case, position: int, candidates: Ids) -> Floats:
        """log p(right | left, c) over the next `window` tokens, for each candidate; [considered]."""
        after = np.arange(position + 1, min(position + 1 + self.window, len(case.ids)))
        if case.protected[position] or len(after) == 0:
            return np.zeros(len(candidates))
        sequences = np.repeat(case.ids[None, : after[-1] + 1], len(candidates), axis=0)
        sequences[:, position] = candidates
        return np.asarray(model.score(sequences, after, case.ids[after]).logprob.sum(-1))
