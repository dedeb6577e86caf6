"""Balanced sampling of probes: which units each probe replaces, and by which candidates.

A *round* replaces every unit once. It is a random permutation of the units, cut into *blocks* of nearly equal size;
one probe replaces one block. Candidates are stratified as well: [0, 1) is divided into `strata` equal intervals, and
the numbers that choose the candidates of a unit fall into each interval once before any interval is used twice.
"""

from collections.abc import Iterable

import numpy as np

from reagent.case import Floats, Ids, Mask


def sample_balanced(
    size: int, block_size: int, count: int, strata: Ids | int, rng: np.random.Generator
) -> tuple[Mask, Floats]:
    """Sample `count` probes of `size` units: which units are replaced, and the numbers that choose candidates.

    Both arrays are [count, size].

    >>> replaced, _ = sample_balanced(5, 2, 6, 3, np.random.default_rng(0))
    >>> replaced[:3].sum(0).tolist(), replaced[:3].sum(1).tolist()
    ([1, 1, 1, 1, 1], [2, 2, 1])
    """
    return BalancedSampler(size, block_size, strata, rng).next_blocks(count)


class BalancedSampler:
    """Samples probes in several calls and counts how often each unit has been replaced.

    The methods return what `sample_balanced` returns.
    """

    def __init__(self, size: int, block_size: int, strata: Ids | int, rng: np.random.Generator) -> None:
        self.replicates: Ids = np.zeros(size, dtype=np.int64)  # [units], replacements so far
        self.round_length = -(-size // block_size)  # probes per round
        self._strata = np.broadcast_to(strata, size).tolist()
        self._pending_blocks, self._pending_numbers = list[Ids](), [list[float]() for _ in range(size)]
        self._block_rng, self._candidate_rng = rng.spawn(2)

    def next_blocks(self, count: int) -> tuple[Mask, Floats]:
        """The next `count` probes of the current round and of the rounds after it."""
        while len(self._pending_blocks) < count:
            order = self._block_rng.permutation(len(self.replicates))
            self._pending_blocks += np.array_split(order, self.round_length)
        blocks, self._pending_blocks = self._pending_blocks[:count], self._pending_blocks[count:]
        return self.probes_of(blocks)

    def next_uncertain(self, count: int, variance: Floats, exhausted_after: Floats) -> tuple[Mask, Floats]:
        """Probes of single units, each chosen to reduce the remaining variance most.

        `variance` is the variance of each unit's effect; with m replicates, one more removes 1/(m + 1) of it. A unit
        is exhausted after `exhausted_after` replicates: all its candidates were tried. If all units are exhausted,
        the unit with the fewest replicates is chosen.

        >>> sampler = BalancedSampler(3, 1, 4, np.random.default_rng(0))
        >>> _ = sampler.next_blocks(3)
        >>> replaced, _ = sampler.next_uncertain(4, np.array([1.0, 0.1, 0.4]), exhausted_after=np.full(3, 4))
        >>> replaced.sum(0).tolist()
        [3, 0, 1]
        """
        replicates, variance, blocks = self.replicates.copy(), variance.copy(), []
        for _ in range(count):
            reduction = np.where(replicates < exhausted_after, variance / (replicates + 1), 0.0)
            unit = int(np.argmax(reduction) if reduction.any() else np.argmin(replicates))
            variance[unit] -= reduction[unit]
            replicates[unit] += 1
            blocks.append(np.array([unit]))
        return self.probes_of(blocks)

    def probes_of(self, blocks: Iterable[Ids]) -> tuple[Mask, Floats]:
        """One probe for each of the given blocks."""
        blocks = list(blocks)
        replaced = np.zeros((len(blocks), len(self.replicates)), dtype=np.bool_)
        uniform = np.zeros(replaced.shape)
        for k, block in enumerate(blocks):
            replaced[k, block] = True
            uniform[k, block] = [self._next_number(unit) for unit in block]
            self.replicates[block] += 1
        return replaced, uniform

    def _next_number(self, unit: int) -> float:
        """The next stratified number in [0, 1) of a unit."""
        if not self._pending_numbers[unit]:
            strata = self._strata[unit]
            stratum = self._candidate_rng.permutation(strata)
            self._pending_numbers[unit] = ((stratum + self._candidate_rng.random(strata)) / strata).tolist()
        return self._pending_numbers[unit].pop()
