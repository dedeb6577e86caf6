"""Shapley values of a few units: the subsets that are worth a probe, and the game that follows from them.

The Shapley value of a unit is a weighted mean over all subsets. Subsets that lack one unit, or keep only one, have the
largest weights, so they are measured first, if the probes suffice. The others are spread over all subsets: each is far
from those before it, and is followed by its complement. Such a space-filling design (Johnson, Moore and Ylvisaker,
1990) balances how often units are removed, alone and together, which subsets drawn independently do only on average.
The surrogate predicts the subsets that were not measured.
"""

import numpy as np

from reagent.case import Floats, Mask
from reagent.methods.exact import MAX_UNITS, all_subsets, shapley_values
from reagent.methods.probe_set import ProbeSet
from reagent.methods.surrogate import Surrogate

FEW_UNITS = MAX_UNITS
PROBES_FOR_EDGES = 4  # probes for each unit: with fewer, subsets of one unit are not measured first
CANDIDATES = 60  # random subsets from which each further one is chosen …
NEARNESS = 3  # … by the sum of their distances to all others, raised to minus this power


def edges(units: int) -> Mask:
    """Each unit removed alone, then each kept alone, [2 · units, units]."""
    alone = np.eye(units, dtype=np.bool_)
    return np.concatenate([alone, ~alone])


def spread_subsets(count: int, measured: Mask, rng: np.random.Generator) -> Mask:
    """Subsets of removed units far from each other and from those measured, [count, units].

    Each subset is followed by its complement. The distance of two subsets is the number of units that are in only one
    of them.
    """
    units = measured.shape[1]
    none = np.zeros((1, units), dtype=np.bool_)
    rows = np.concatenate([none, ~none, measured])
    first = len(rows)
    while len(rows) < first + count:
        candidates = rng.random((CANDIDATES, units)) < 0.5
        candidates = candidates[candidates.any(1)]  # an unchanged text is no probe
        distances = (candidates[:, None] ^ rows).sum(2)
        chosen = candidates[np.argmin(((distances + 0.1) ** -NEARNESS).sum(1))]
        rows = np.concatenate([rows, [chosen, ~chosen]])
    return rows[first : first + count]


def fill_game(probes: ProbeSet, target: int, surrogate: Surrogate) -> Floats:
    """The value of every subset for a target, in the order of `all_subsets`: measured, or predicted."""
    kept = all_subsets(int(probes.before[target]))
    values = -surrogate.mean_effects()(~kept)
    removed, drops = probes.known(target)
    values[~removed @ (1 << np.arange(kept.shape[1]))] = -drops
    return values


def estimate_shapley_values(probes: ProbeSet, target: int, surrogate: Surrogate) -> tuple[Floats, Floats]:
    """The Shapley values and their standard errors, which are those of the surrogate until all is measured."""
    values, errors = surrogate.shapley_values()
    subsets = 2 ** len(values)
    if probes.remover.is_random or probes.budget < min(PROBES_FOR_EDGES * len(values), subsets - 1):
        return values, errors
    measured = len(probes.measured_drops(target))
    return shapley_values(fill_game(probes, target, surrogate)), errors * (measured < subsets)
