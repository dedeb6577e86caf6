"""Which units each probe replaces, and by what: dealt like cards, so that chance decides as little as possible.

A deck holds every unit once and is cut into hands of nearly equal size; a hand is what one probe replaces. The
candidates of a unit are dealt too: the numbers in [0, 1) that choose them fall once into each of its `strata` equal
parts before they fall into one twice.
"""

from collections.abc import Iterable

import numpy as np

from reagent.case import Floats, Ids, Mask


def sample_balanced(
    size: int, hand: int, count: int, strata: Ids | int, rng: np.random.Generator
) -> tuple[Mask, Floats]:
    """Deck after deck: who is replaced in each probe, and the numbers that choose by what; [count, size] both.

    >>> replaced, _ = sample_balanced(5, 2, 6, 3, np.random.default_rng(0))
    >>> replaced[:3].sum(0).tolist(), replaced[:3].sum(1).tolist()
    ([1, 1, 1, 1, 1], [2, 2, 1])
    """
    return BalancedSampler(size, hand, strata, rng).next_blocks(count)


class BalancedSampler:
    """Deals to one probe after another, and knows how many turns each unit had."""

    def __init__(self, size: int, hand: int, strata: Ids | int, rng: np.random.Generator) -> None:
        self.turns: Ids = np.zeros(size, dtype=np.int64)
        self.deck = -(-size // hand)  # probes of a deck
        self._strata = np.broadcast_to(strata, size).tolist()
        self._left, self._numbers = list[Ids](), [list[float]() for _ in range(size)]
        self._cards, self._draws = rng.spawn(2)

    def next_blocks(self, count: int) -> tuple[Mask, Floats]:
        """The next hands of the deck, and of new ones."""
        while len(self._left) < count:
            self._left += np.array_split(self._cards.permutation(len(self.turns)), self.deck)
        hands, self._left = self._left[:count], self._left[count:]
        return self.probes(hands)

    def next_uncertain(self, count: int, variance: Floats, enough: Floats) -> tuple[Mask, Floats]:
        """One unit at a time, and each time that whose turn takes away most of what is open.

        `variance` is how uncertain each unit is; of m turns, one more takes away 1/(m + 1). After `enough` turns of a
        unit nothing new can come. Where nothing new can come of any, they are dealt evenly.

        >>> dealer = BalancedSampler(3, 1, 4, np.random.default_rng(0))
        >>> _ = dealer.next_blocks(3)
        >>> replaced, _ = dealer.next_uncertain(4, np.array([1.0, 0.1, 0.4]), enough=np.full(3, 4))
        >>> replaced.sum(0).tolist()
        [3, 0, 1]
        """
        turns, variance, chosen = self.turns.copy(), variance.copy(), []
        for _ in range(count):
            gain = np.where(turns < enough, variance / (turns + 1), 0.0)
            unit = int(np.argmax(gain) if gain.any() else np.argmin(turns))
            variance[unit] -= gain[unit]
            turns[unit] += 1
            chosen.append(np.array([unit]))
        return self.probes(chosen)

    def probes(self, hands: Iterable[Ids]) -> tuple[Mask, Floats]:
        """One probe for each hand, whoever is in it."""
        hands = list(hands)
        replaced = np.zeros((len(hands), len(self.turns)), dtype=np.bool_)
        uniform = np.zeros(replaced.shape)
        for k, hand in enumerate(hands):
            replaced[k, hand] = True
            uniform[k, hand] = [self._number(unit) for unit in hand]
            self.turns[hand] += 1
        return replaced, uniform

    def _number(self, unit: int) -> float:
        """The next of a unit, from a deck of its own with one card for each of its strata."""
        if not self._numbers[unit]:
            strata = self._strata[unit]
            self._numbers[unit] = ((self._draws.permutation(strata) + self._draws.random(strata)) / strata).tolist()
        return self._numbers[unit].pop()
