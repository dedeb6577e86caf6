"""Shapley values by permutation sampling (Castro, Gómez and Tejada, 2009; Štrumbelj and Kononenko, 2010).

The players are the units, and the payoff is the log-probability of the target. A permutation replaces the units one
after another until all are replaced; the marginal effect of a unit is the drop in log-probability when it is replaced.
The marginal effects of a permutation add up exactly to the effect of replacing everything, and so do their means, the
Shapley values. Each permutation is also run in reverse with the same replacements (antithetic sampling), which reduces
the variance. A permutation and its reverse are one independent sample, so standard errors are computed over pairs.

The players for target t are the units before it. Units after the target cannot change it, so all targets share the
permutations.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reagent.case import Case, Floats, Ids
from reagent.errors import InputError
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.normalization import check_normalization
from reagent.methods.probing import ProbeRunner, make_attribution, mean_and_stderr, rows_per_target, stratified_uniform
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.validation import check_integer


@dataclass(frozen=True)
class Shapley:
    """Averages marginal effects over random permutations."""

    permutations: int = 16  # half of them are the reverses of the other half
    scores: str = "positive"  # normalization, see normalization.py

    def __post_init__(self) -> None:
        check_integer("method 'shapley'", "permutations", self.permutations, 2)
        if self.permutations % 2:
            raise InputError(
                f"`permutations` of method 'shapley' must be even, because each is also run in reverse: "
                f"got {self.permutations}, give {self.permutations + 1}"
            )
        check_normalization(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return asdict(self)

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same permutations."""
        runner = ProbeRunner(model, case, proposals, on_progress)
        free = runner.free
        pairs = self.permutations // 2
        runner.total = pairs * (2 * len(free) - 1)
        order_rng, candidate_rng = rng.spawn(2)
        columns = proposals.choose(stratified_uniform(pairs, len(free), candidate_rng), free)  # [pairs, units]
        samples = np.empty((pairs, len(free), len(case.output)))
        for i, column in enumerate(columns):
            samples[i] = _antithetic_marginals(runner, order_rng.permutation(len(free)), column)
            attribution = self._attribution(case, free, samples[: i + 1], runner.done)
            on_progress(Progress(runner.done, runner.total, "probes", partial=attribution))
        return attribution

    def _attribution(self, case: Case, free: Ids, samples: Floats, probes: int) -> Attribution:
        values, errors = mean_and_stderr(samples)
        stderr = None if errors is None else rows_per_target(case, free, errors)
        effects = rows_per_target(case, free, values)
        return make_attribution(case, self.scores, effects, stderr, 2 * len(samples), probes)


def _antithetic_marginals(runner: ProbeRunner, order: Ids, column: Ids) -> Floats:
    """Mean marginal effects of a permutation and its reverse, [units, targets]; both end with all units replaced."""
    n = len(order)
    position = np.argsort(order)  # of each unit in the permutation
    steps = np.arange(n)[:, None]
    forward, backward = position <= steps, position >= n - 1 - steps  # units replaced after each step, [steps, units]
    effects = runner.replacement_effects(np.concatenate([forward, backward[:-1]]), column)
    marginals = np.empty((2, n, effects.shape[1]))  # v(S) − v(S ∪ {i}), S being the units replaced before unit i
    start = np.zeros((1, effects.shape[1]))  # replacing nothing has no effect
    marginals[0, order] = np.diff(np.concatenate([start, effects[:n]]), axis=0)
    marginals[1, order[::-1]] = np.diff(np.concatenate([start, effects[n:], effects[n - 1 : n]]), axis=0)
    return np.asarray(marginals.mean(0))
