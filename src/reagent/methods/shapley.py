"""Shapley values by sampling (after Castro, Gómez and Tejada, 2009; Štrumbelj and Kononenko, 2010).

Units are the players, and what they play for is the target's log-probability. One walk replaces them one
after another, in random order, until all are replaced; a unit's marginal is what its replacement cost at
its turn. The marginals of a walk add up exactly to what replacing everything costs, and so do the values,
their means. Every order is also walked backwards, which cancels much of the noise, and with the same
replacements, so that a pair of walks is one independent sample: errors are taken over pairs.

For target t the players are the units before it. Those after it cost it nothing, so one walk serves all.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reagent.case import Case, Floats, Ids
from reagent.errors import InputError
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.normalization import check_how
from reagent.methods.probing import Probing, attribution, average, dealt, rows
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.validation import check_integer


@dataclass(frozen=True)
class Shapley:
    """How many walks."""

    permutations: int = 16  # orders in which all units are replaced, half of them the other half backwards
    scores: str = "positive"  # how effects become scores, see scores.py

    def __post_init__(self) -> None:
        check_integer("method 'shapley'", "permutations", self.permutations, 2)
        if self.permutations % 2:
            raise InputError(
                f"permutations of method 'shapley' must be even, since each is walked both ways: "
                f"got {self.permutations}, give {self.permutations + 1}"
            )
        check_how(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return asdict(self)

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same walks."""
        probing = Probing(model, case, proposals, report)
        free = probing.free
        pairs = self.permutations // 2
        probing.total = pairs * (2 * len(free) - 1)
        ordering, drawing = rng.spawn(2)
        columns = proposals.choose(dealt(pairs, len(free), drawing), free)  # [pairs, units]
        samples = np.empty((pairs, len(free), len(case.output)))
        for i, column in enumerate(columns):
            samples[i] = _both_ways(probing, ordering.permutation(len(free)), column)
            found = self._attribution(case, free, samples[: i + 1], probing.done)
            report(Progress(probing.done, probing.total, "probes", partial=found))
        return found

    def _attribution(self, case: Case, free: Ids, samples: Floats, probes: int) -> Attribution:
        values, errors = average(samples)
        stderr = None if errors is None else rows(case, free, errors)
        return attribution(case, self.scores, rows(case, free, values), stderr, 2 * len(samples), probes)


def _both_ways(probing: Probing, order: Ids, column: Ids) -> Floats:
    """Mean marginals of one order and its reverse, [units, targets]; both end where everything is replaced."""
    n = len(order)
    turn = np.argsort(order)  # when each unit's turn comes
    steps = np.arange(n)[:, None]
    there, back = turn <= steps, turn >= n - 1 - steps  # who is replaced after each step, [steps, units]
    costs = probing.costs(np.concatenate([there, back[:-1]]), column)
    marginals = np.empty((2, n, costs.shape[1]))
    start = np.zeros((1, costs.shape[1]))  # replacing nothing costs nothing
    marginals[0, order] = np.diff(np.concatenate([start, costs[:n]]), axis=0)
    marginals[1, order[::-1]] = np.diff(np.concatenate([start, costs[n:], costs[n - 1 : n]]), axis=0)
    return np.asarray(marginals.mean(0))
