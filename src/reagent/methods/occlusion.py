"""Occlusion: leave one unit out and see how much less likely the target becomes (after Zeiler and Fergus, 2014).

"Out" means replaced by a proposal, on average over a few of them, or deleted. Deletion is exact, with no
draw and no error, but the text gets shorter and what is left may read like no text at all. Either way a
unit is judged with all others in place: of two that say the same, neither is missed.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reagent.case import Case
from reagent.errors import UnknownNameError
from reagent.methods.base import Attribution, ProgressCallback, no_progress
from reagent.methods.normalization import check_how
from reagent.methods.probing import Probing, attribution, average, dealt, rows
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.validation import check_integer

WAYS = ("replacement", "deletion")


@dataclass(frozen=True)
class Occlusion:
    """How a unit is left out."""

    by: str = "replacement"  # or deletion
    draws: int = 4  # replacements tried for each unit; deletion has only one way
    scores: str = "positive"  # how effects become scores, see scores.py

    def __post_init__(self) -> None:
        if self.by not in WAYS:
            raise UnknownNameError("way to leave a unit out", self.by, WAYS)
        check_integer("method 'occlusion'", "draws", self.draws, 1)
        check_how(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def replaces(self) -> bool:
        """Whether it needs something to stand in for a unit."""
        return self.by == "replacement"

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same passes: one for each unit, times `draws` for replacement."""
        probing = Probing(model, case, proposals, report)
        return self._deleted(probing) if self.by == "deletion" else self._replaced(probing, rng)

    def _replaced(self, probing: Probing, rng: np.random.Generator) -> Attribution:
        case, free = probing.case, probing.free
        probing.total = self.draws * len(free)
        columns = probing.proposals.choose(dealt(self.draws, len(free), rng), free)  # [draws, units]
        alone = np.eye(len(free), dtype=np.bool_)
        effects, errors = average(np.stack([probing.costs(alone, column) for column in columns]))
        stderr = None if errors is None else rows(case, free, errors)
        return attribution(case, self.scores, rows(case, free, effects), stderr, self.draws, probing.done)

    def _deleted(self, probing: Probing) -> Attribution:
        case = probing.case
        free = np.flatnonzero(~case.protected[:-1])
        probing.total = len(free)
        effects = rows(case, free, probing.costs_without(free))
        if len(case.input) > 1:
            return attribution(case, self.scores, effects, None, 1, probing.done)
        effects[0] = np.zeros(1)  # without its only unit, nothing is left to predict the first target from
        found = attribution(case, self.scores, effects, None, 1, probing.done)
        return replace(found, stopped=["single", *found.stopped[1:]])
