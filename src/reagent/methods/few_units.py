"""Shapley values of a few units: the subsets that are worth a probe, and the game that follows from them.

The Shapley value of a unit is a weighted mean over all subsets. Subsets that lack one unit, or keep only one, have the
largest weights, so they are measured first, if the probes suffice. The others are drawn as by KernelSHAP (Lundberg and
Lee, 2017): the weight of a size k of n units is 1 / (k (n − k)), and each subset is followed by its complement. The
surrogate predicts the subsets that were not measured.
"""

import numpy as np

from reagent.case import Floats, Mask
from reagent.methods.exact import MAX_UNITS, all_subsets, shapley_values
from reagent.methods.probe_set import ProbeSet
from reagent.methods.surrogate import Surrogate

FEW_UNITS = MAX_UNITS
PROBES_FOR_SIZES = 4  # probes for each unit: with fewer, every subset is equally likely
PROBES_FOR_EDGES = 8  # probes for each unit: with fewer, subsets of one unit are not measured first


def edges(units: int) -> Mask:
    """Each unit removed alone, then each kept alone, [2 · units, units]."""
    alone = np.eye(units, dtype=np.bool_)
    return np.concatenate([alone, ~alone])


def draw_subsets(count: int, units: int, probes: int, rng: np.random.Generator) -> Mask:
    """Random subsets of removed units, each with its complement, [count, units]; `probes` may be used in total."""
    half = -(-count // 2)
    if units < 2 or probes < PROBES_FOR_SIZES * units:
        removed = rng.random((half, units)) < 0.5
    else:
        sizes = np.arange(1, units)
        weights = 1 / (sizes * (units - sizes))
        chosen = rng.choice(sizes, half, p=weights / weights.sum())
        removed = rng.random((half, units)).argsort(1) < chosen[:, None]
    return np.stack([removed, ~removed], axis=1).reshape(-1, units)[:count]


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
    if probes.remover.is_random or probes.budget < min(PROBES_FOR_SIZES * len(values), subsets - 1):
        return values, errors
    measured = len(probes.measured_drops(target))
    return shapley_values(fill_game(probes, target, surrogate)), errors * (measured < subsets)
