"""The effect of each unit alone: units that may matter are removed one by one, the others in blocks.

A block is a random set of units that seem unimportant. Before it is measured, all effects in it come from one
distribution with mean 0 and some variance v. The drop B of a block of m units then says two things: each of its units
has the expected effect B / m, and v is about B² / m, averaged over the blocks. The standard error of an effect is
√(v (1 − 1/m)). One forward pass thus tells that none of several units matters much, and how much is not known.

The surrogate predicts single effects too. The units that were removed alone show how large its errors are, and both
estimates are combined by their precision.
"""

import numpy as np

from reagent.case import Floats, Mask
from reagent.methods.probe_set import ProbeSet

MOST_BLOCKS = 12
BLOCK_SIZE = 4  # of units; more if there would be too many blocks


def count_blocks(units: int) -> int:
    """The number of blocks into which this number of units is divided."""
    return min(MOST_BLOCKS, -(-units // BLOCK_SIZE))


def estimate_single_effects(
    probes: ProbeSet, target: int, blocks: list[Mask], predicted: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """The effects of all units before a target and their standard errors.

    `predicted` is what the surrogate predicts, with its standard errors, without the probes of single units.
    """
    effects, errors = predicted[0].copy(), predicted[1].copy()
    measured = np.zeros(len(effects), dtype=np.bool_)
    for i in range(len(effects)):
        result = probes.result(probes.set_of([i]), target)
        if result is not None and np.isfinite(result.stderr):
            effects[i], errors[i], measured[i] = result.drop, result.stderr, True
    removed = [
        (np.flatnonzero(block[: len(effects)]), result)
        for block in blocks
        if (result := probes.result(block, target)) is not None and block[: len(effects)].any()
    ]
    if not removed or not measured.any():
        return effects, errors
    own_variance = float(np.mean([result.drop**2 / len(units) for units, result in removed]))
    misses = np.append((effects - predicted[0])[measured] ** 2, own_variance)  # few of them could all be small
    surrogate_variance = float(np.mean(misses))
    for units, result in removed:
        shared = result.drop / len(units)
        refined = shared + predicted[0][units] - predicted[0][units].mean()
        weight = own_variance / (own_variance + surrogate_variance) if own_variance else 0.0
        effects[units] = np.where(measured[units], effects[units], weight * refined + (1 - weight) * shared)
        variance = (1 - weight) * own_variance * (1 - 1 / len(units))
        variance += (result.stderr / len(units)) ** 2 if np.isfinite(result.stderr) else own_variance / len(units)
        errors[units] = np.where(measured[units], errors[units], np.sqrt(variance))
    return effects, errors
