"""Occlusion: remove one unit and measure how much less likely the target becomes (Zeiler and Fergus, 2014).

A unit is removed by replacement, averaged over a few proposals, or by deletion. Deletion is deterministic and has no
standard error, but the text becomes shorter and may be ungrammatical. In both cases all other units are present, so
neither of two redundant units has an effect.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reagent.case import Case
from reagent.errors import UnknownNameError
from reagent.methods.base import Attribution, ProgressCallback, no_progress
from reagent.methods.normalization import check_normalization
from reagent.methods.probing import ProbeRunner, make_attribution, mean_and_stderr, rows_per_target, stratified_uniform
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.validation import check_integer

REMOVAL_METHODS = ("replacement", "deletion")


@dataclass(frozen=True)
class Occlusion:
    """Removes one unit at a time."""

    by: str = "replacement"  # removal method: replacement or deletion
    draws: int = 4  # replacements per unit; not used by deletion
    scores: str = "positive"  # normalization, see normalization.py

    def __post_init__(self) -> None:
        if self.by not in REMOVAL_METHODS:
            raise UnknownNameError("removal method", self.by, REMOVAL_METHODS)
        check_integer("method 'occlusion'", "draws", self.draws, 1)
        check_normalization(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def replaces(self) -> bool:
        """Whether the method needs a replacer."""
        return self.by == "replacement"

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same passes: one per unit, times `draws` for replacement."""
        runner = ProbeRunner(model, case, proposals, on_progress)
        return self._delete(runner) if self.by == "deletion" else self._replace(runner, rng)

    def _replace(self, runner: ProbeRunner, rng: np.random.Generator) -> Attribution:
        case, free = runner.case, runner.free
        runner.total = self.draws * len(free)
        columns = runner.proposals.choose(stratified_uniform(self.draws, len(free), rng), free)  # [draws, units]
        one_at_a_time = np.eye(len(free), dtype=np.bool_)
        samples = np.stack([runner.replacement_effects(one_at_a_time, column) for column in columns])
        effects, errors = mean_and_stderr(samples)
        stderr = None if errors is None else rows_per_target(case, free, errors)
        return make_attribution(
            case, self.scores, rows_per_target(case, free, effects), stderr, self.draws, runner.done
        )

    def _delete(self, runner: ProbeRunner) -> Attribution:
        case = runner.case
        free = np.flatnonzero(~case.protected[:-1])
        runner.total = len(free)
        effects = rows_per_target(case, free, runner.deletion_effects(free))
        if len(case.input) > 1:
            return make_attribution(case, self.scores, effects, None, 1, runner.done)
        effects[0] = np.zeros(1)  # deleting the only unit leaves no context for the first target
        attribution = make_attribution(case, self.scores, effects, None, 1, runner.done)
        return replace(attribution, stopped=["single", *attribution.stopped[1:]])
