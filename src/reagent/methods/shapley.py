"""Shapley values by permutation sampling (Castro, Gómez and Tejada, 2009; Štrumbelj and Kononenko, 2010).

The players are the units, and the payoff is the log-probability of the target. A permutation removes the units one
after another until all are removed; the marginal effect of a unit is the drop in log-probability when it is removed.
The marginal effects of a permutation add up exactly to the effect of removing everything, and so do their means, the
Shapley values. Each permutation is also run in reverse with the same replacements (antithetic sampling), which reduces
the variance. A permutation and its reverse are one independent sample, so standard errors are computed over pairs.

The players for target t are the units before it. Units after the target cannot change it, so all targets share the
permutations.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reagent.case import Case, Floats, Ids
from reagent.errors import InputError
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.normalization import check_normalization
from reagent.methods.probing import ProbeRunner, make_attribution, mean_and_stderr, rows_per_target, stratified_uniform
from reagent.models.base import Model
from reagent.removal import check_removal, make_remover, require_removal
from reagent.replacers.base import Proposals
from reagent.validation import check_integer


@dataclass(frozen=True)
class Shapley:
    """Averages marginal effects over random permutations."""

    permutations: int = 16  # half of them are the reverses of the other half
    removal: str = "replace"  # delete, mask or replace, see removal.py
    scores: str = "positive"  # normalization, see normalization.py

    def __post_init__(self) -> None:
        check_integer("method 'shapley'", "permutations", self.permutations, 2)
        if self.permutations % 2:
            raise InputError(
                f"`permutations` of method 'shapley' must be even, because each is also run in reverse: "
                f"got {self.permutations}, give {self.permutations + 1}"
            )
        check_removal(self.removal)
        check_normalization(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def replaces(self) -> bool:
        """Whether the method needs a replacer."""
        return self.removal == "replace"

    def check(self, model: Model) -> None:
        require_removal(model, self.removal, "method 'shapley'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same permutations."""
        remover = make_remover(self.removal, model, case, proposals)
        free, pairs = remover.free, self.permutations // 2
        runner = ProbeRunner(remover, case, on_progress, total=pairs * max(0, 2 * len(free) - 1))
        order_rng, candidate_rng = rng.spawn(2)
        samples = np.empty((pairs, len(free), len(case.output)))
        for i, uniform in enumerate(stratified_uniform(pairs, len(free), candidate_rng)):
            samples[i] = _antithetic_marginals(runner, order_rng.permutation(len(free)), uniform)
            attribution = self._attribution(case, free, samples[: i + 1], runner.done)
            on_progress(Progress(runner.done, runner.total, "probes", partial=attribution))
        return attribution

    def _attribution(self, case: Case, free: Ids, samples: Floats, probes: int) -> Attribution:
        values, errors = mean_and_stderr(samples)
        stderr = None if errors is None else rows_per_target(case, free, errors)
        effects = rows_per_target(case, free, values)
        attribution = make_attribution(case, self.scores, effects, stderr, 2 * len(samples), probes)
        return replace(attribution, shapley_values=effects)


def _antithetic_marginals(runner: ProbeRunner, order: Ids, uniform: Floats) -> Floats:
    """Mean marginal effects of a permutation and its reverse, [units, targets]; both end with all units removed."""
    n = len(order)
    position = np.argsort(order)  # of each unit in the permutation
    steps = np.arange(n)[:, None]
    forward, backward = position <= steps, position >= n - 1 - steps  # units removed after each step, [steps, units]
    effects = runner.effects(np.concatenate([forward, backward[:-1]]), uniform)
    marginals = np.empty((2, n, effects.shape[1]))  # v(S) − v(S ∪ {i}), S being the units removed before unit i
    start = np.zeros((1, effects.shape[1]))  # removing nothing has no effect
    marginals[0, order] = np.diff(np.concatenate([start, effects[:n]]), axis=0)
    marginals[1, order[::-1]] = np.diff(np.concatenate([start, effects[n:], effects[n - 1 : n]]), axis=0)
    return np.asarray(marginals.mean(0))
