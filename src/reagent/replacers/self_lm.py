"""The explained model's own next-token predictions at each position: no second model is needed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case
from reagent.models.base import HasVocabulary, Model, PredictsTokens, require
from reagent.replacers.base import Proposals, make_proposals
from reagent.validation import check_integer


@dataclass(frozen=True)
class SelfReplacer:
    """The `candidates` tokens that the explained model predicts with the highest probability, given the text before.

    `weighted` samples by the model's probabilities instead of uniformly. The model predicts nothing for position 0. If
    the tokenizer puts no start token there, the candidates of position 0 are ordinary tokens, sampled uniformly as in
    the replacer `random`.
    """

    requires: ClassVar[tuple[type, ...]] = (PredictsTokens, HasVocabulary)

    candidates: int = 10
    weighted: bool = False

    def __post_init__(self) -> None:
        check_integer("the replacer", "candidates", self.candidates, 1)

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "self", **asdict(self)}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        for capability in self.requires:
            require(model, capability, "replacer 'self'")
        assert isinstance(model, PredictsTokens)
        assert isinstance(model, HasVocabulary)
        ids, logprob = model.predict(case.ids, self.candidates + 1)  # one more, because the original is removed
        first = rng.choice(model.ordinary_ids, size=(1, ids.shape[1]))
        return make_proposals(
            case,
            np.concatenate([first, ids]),
            np.concatenate([np.ones(first.shape), np.exp(logprob) if self.weighted else np.ones(ids.shape)]),
            sampled=np.arange(len(case.ids)) == 0,
            limit=self.candidates,
        )
