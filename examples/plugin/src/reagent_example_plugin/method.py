"""A baseline: the closer a token is to the answer, the higher its score."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case
from reagent.methods import Attribution, Progress, ProgressCallback
from reagent.methods.base import no_progress
from reagent.models import Model
from reagent.replacers import Proposals


@dataclass(frozen=True)
class Recency:
    """Scores that decay with the distance from the answer; a baseline that makes no forward pass."""

    decay: float = 0.5  # the score of a token, in shares of the score of the token after it

    replaces: ClassVar[bool] = False
    needs: ClassVar[str] = "nothing"
    cost: ClassVar[str] = "none"

    @property
    def info(self) -> dict[str, Any]:
        return {"decay": self.decay}

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        del model, proposals, rng
        rows = [self._row(case, len(case.input) + t) for t in range(len(case.output))]
        on_progress(Progress(len(rows), len(rows), "targets"))
        count = len(rows)
        return Attribution(
            scores=rows,
            steps=[0] * count,
            stopped=["fixed"] * count,
            runs=[[] for _ in rows],
            probes=0,
            stopping_tests=0,
        )

    def _row(self, case: Case, length: int) -> Any:
        """Scores of the `length` units before a target; protected units have 0."""
        weights = self.decay ** np.arange(length)[::-1] * ~case.protected[:length]
        return weights / weights.sum()
