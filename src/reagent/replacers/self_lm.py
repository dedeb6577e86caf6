"""The model's own next-token predictions at each position: no second model is needed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reagent.case import Case
from reagent.models.base import HasVocabulary, Model, PredictsTokens, require
from reagent.replacers.base import Proposals, table
from reagent.validation import check_integer


@dataclass(frozen=True)
class SelfReplacer:
    """The `candidates` tokens that the explained model finds likeliest, given what stands to the left.

    `weighted` draws by the model's probabilities instead of uniformly. Nothing stands to the left of
    position 0: where the tokenizer puts no start token there, that position takes ordinary tokens
    drawn uniformly, as the replacer `random` does.
    """

    candidates: int = 10
    weighted: bool = False

    def __post_init__(self) -> None:
        check_integer("the replacer", "candidates", self.candidates, 1)

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "self", **asdict(self)}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        require(model, PredictsTokens, "replacer 'self'")
        require(model, HasVocabulary, "replacer 'self'")
        assert isinstance(model, PredictsTokens)
        assert isinstance(model, HasVocabulary)
        ids, logprob = model.predict(case.ids, self.candidates + 1)  # one more, since the original goes
        first = rng.choice(model.ordinary_ids, size=(1, ids.shape[1]))
        return table(
            case,
            np.concatenate([first, ids]),
            np.concatenate([np.ones(first.shape), np.exp(logprob) if self.weighted else np.ones(ids.shape)]),
            sampled=np.arange(len(case.ids)) == 0,
            most=self.candidates,
        )
