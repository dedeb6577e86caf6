"""Random scores: what a method must beat to have found anything."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case
from reagent.methods.base import Attribution, ProgressCallback, no_progress
from reagent.models.base import Model
from reagent.replacers.base import Proposals


@dataclass(frozen=True)
class RandomScores:
    """The baseline of the paper: scores assigned at random, anew for every target. It has no hyperparameters."""

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
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Score every unit that is not protected; the model is asked nothing."""
        del model, proposals, report
        targets = range(len(case.output))
        drawn = [(1 - rng.random(len(case.input) + t)) * ~case.protected[: len(case.input) + t] for t in targets]
        return Attribution(
            scores=[row / row.sum() for row in drawn],
            steps=[0] * len(drawn),
            stopped=["fixed"] * len(drawn),
            runs=[],
            probes=0,
            stopping_tests=0,
        )
