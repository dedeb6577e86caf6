"""Occlusion: remove one unit and measure how much less likely the target becomes (Zeiler and Fergus, 2014).

A unit is replaced, deleted or masked (see `removal`). The effect of a replacement is averaged over a few proposals.
Deletion and masking are deterministic and have no standard error, but a deletion makes the text shorter and may make
it ungrammatical. In all cases all other units are present, so neither of two redundant units has an effect.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reagent.case import Case
from reagent.methods.base import Attribution, ProgressCallback, no_progress
from reagent.methods.normalization import check_normalization
from reagent.methods.probing import ProbeRunner, make_attribution, mean_and_stderr, rows_per_target, stratified_uniform
from reagent.models.base import Model
from reagent.removal import check_removal, make_remover, require_removal
from reagent.replacers.base import Proposals
from reagent.validation import check_integer


@dataclass(frozen=True)
class Occlusion:
    """Removes one unit at a time."""

    removal: str = "replace"  # delete, mask or replace, see removal.py
    draws: int = 4  # replacements per unit; only used by replace
    scores: str = "positive"  # normalization, see normalization.py

    def __post_init__(self) -> None:
        check_removal(self.removal)
        check_integer("method 'occlusion'", "draws", self.draws, 1)
        check_normalization(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def replaces(self) -> bool:
        """Whether the method needs a replacer."""
        return self.removal == "replace"

    def check(self, model: Model) -> None:
        require_removal(model, self.removal, "method 'occlusion'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same passes: one per unit, times `draws` for replacements."""
        remover = make_remover(self.removal, model, case, proposals)
        free, draws = remover.free, self.draws if remover.is_random else 1
        runner = ProbeRunner(remover, case, on_progress, total=draws * len(free))
        one_at_a_time = np.eye(len(free), dtype=np.bool_)
        uniform = stratified_uniform(draws, len(free), rng)  # [draws, units]
        effects, errors = mean_and_stderr(np.stack([runner.effects(one_at_a_time, row) for row in uniform]))
        stderr = None if errors is None else rows_per_target(case, free, errors)
        rows = rows_per_target(case, free, effects)
        if self.removal == "replace" or len(case.input) > 1:
            return make_attribution(case, self.scores, rows, stderr, draws, runner.done)
        rows[0] = np.zeros(1)  # removing the only unit leaves no context for the first target
        attribution = make_attribution(case, self.scores, rows, stderr, draws, runner.done)
        return replace(attribution, stopped=["single", *attribution.stopped[1:]])
