"""Any ordinary token of the vocabulary, in any context: the paper's "Random"."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case
from reagent.models.base import HasVocabulary, Model, require
from reagent.replacers.base import Proposals, make_proposals
from reagent.validation import check_integer


@dataclass(frozen=True)
class UniformReplacer:
    """`candidates` tokens per position, sampled uniformly from printable tokens that are not special."""

    requires: ClassVar[tuple[type, ...]] = (HasVocabulary,)

    candidates: int = 256

    def __post_init__(self) -> None:
        check_integer("the replacer", "candidates", self.candidates, 1)

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "random", **asdict(self)}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        require(model, HasVocabulary, "replacer 'random'")
        assert isinstance(model, HasVocabulary)
        ids = rng.choice(model.ordinary_ids, size=(len(case.ids), self.candidates))
        return make_proposals(case, ids, np.ones(ids.shape), sampled=np.ones(len(ids), dtype=np.bool_))
