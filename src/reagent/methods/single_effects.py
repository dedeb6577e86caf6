"""The effect of each unit alone: units that may matter are removed one by one, the others in blocks.

A block is a random set of units that seem unimportant. Before it is measured, all effects in it come from one
distribution with mean 0 and some variance v. The drop B of a block of m units then says two things: each of its units
has the expected effect B / m, and v is about B² / m, averaged over the blocks. The standard error of an effect is
√(v (1 − 1/m)). One forward pass thus tells that none of several units matters much, and how much is not known.
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
    probes: ProbeSet, target: int, blocks: list[Mask], expected: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """The effects of all units before a target and their standard errors; `expected` of those never removed."""
    effects, errors = expected[0].copy(), expected[1].copy()
    measured = [
        (np.flatnonzero(block[: len(effects)]), result.drop)
        for block in blocks
        if (result := probes.result(block, target)) is not None and block[: len(effects)].any()
    ]
    if measured:
        variance = float(np.mean([drop**2 / len(units) for units, drop in measured]))
        for units, drop in measured:
            effects[units] = drop / len(units)
            errors[units] = np.sqrt(variance * (1 - 1 / len(units)))
    for i in range(len(effects)):
        result = probes.result(probes.set_of([i]), target)
        if result is not None and np.isfinite(result.stderr):
            effects[i], errors[i] = result.drop, result.stderr
    return effects, errors
