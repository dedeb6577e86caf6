"""Random scores: the baseline that every method must beat."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case
from reagent.methods.base import Attribution, ProgressCallback, no_progress
from reagent.models.base import Model
from reagent.replacers.base import Proposals


@dataclass(frozen=True)
class RandomScores:
    """The random baseline of the paper: independent random scores for every target. It has no hyperparameters."""

    replaces: ClassVar[bool] = False

    @property
    def info(self) -> dict[str, Any]:
        return {"scores": "numbers from U(0, 1) over their sum"}

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Score every unit that is not protected, without a forward pass."""
        del model, proposals, on_progress
        targets = range(len(case.output))
        rows = [(1 - rng.random(len(case.input) + t)) * ~case.protected[: len(case.input) + t] for t in targets]
        return Attribution(
            scores=[row / row.sum() for row in rows],
            steps=[0] * len(rows),
            stopped=["fixed"] * len(rows),
            runs=[],
            probes=0,
            stopping_tests=0,
        )
