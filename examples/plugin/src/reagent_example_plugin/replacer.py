"""A replacer that needs no other model: every token may be replaced by the other tokens of the same text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reagent.case import Case
from reagent.models import Model
from reagent.replacers import Proposals
from reagent.replacers.base import make_proposals


@dataclass(frozen=True)
class Neighbours:
    """Replaces a token by other tokens of the same text, the nearest first."""

    candidates: int = 5

    @property
    def info(self) -> Mapping[str, Any]:
        return {"id": "neighbours", "candidates": self.candidates}

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        del model, rng
        positions = np.arange(len(case.ids))
        nearest = [np.argsort(abs(positions - i), kind="stable")[1:] for i in positions]
        ordinary = [[j for j in row if not case.protected[case.unit_of[j]]] for row in nearest]
        width = max(1, max(map(len, ordinary)))
        ids = np.array([(case.ids[row].tolist() + [case.ids[i]] * width)[:width] for i, row in enumerate(ordinary)])
        return make_proposals(case, ids, np.ones(ids.shape), limit=self.candidates)
