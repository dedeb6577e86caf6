"""Proposals: for each position, the tokens that may stand in its place. Drawing is the same for every replacer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from reagent.models.protocol import Case, Floats, Ids, Mask, Model


@dataclass(frozen=True)
class Proposals:
    """A table of replacements, K for each position; weight 0 marks a place in the table that is not used.

    >>> table = Proposals(original=np.array([7, 8]), ids=np.array([[1, 2], [3, 0]]), weights=np.array([[1, 1], [1, 0]]))
    >>> table.draw(np.array([[0.2, 0.9], [0.7, 0.1]]))
    array([[1, 3],
           [2, 3]])
    """

    original: Ids  # [length]
    ids: Ids  # [length, K]
    weights: Floats  # [length, K], any scale, the original token has none
    foreign_passes: int = 0  # of another model, which made the table

    @property
    def replaceable(self) -> Mask:
        """Positions that have at least one proposal."""
        return np.asarray(self.weights.sum(-1) > 0)

    def at(self, positions: Ids) -> "Proposals":
        """The same table for some of the positions."""
        return Proposals(self.original[positions], self.ids[positions], self.weights[positions])

    def draw(self, uniform: Floats) -> Ids:
        """A replacement for every position, [batch, length], by inverting the weights at `uniform` in [0, 1).

        The numbers come from outside so that the same draws can be made one by one or in one go.
        """
        return self.ids_at(self.columns(uniform))

    def columns(self, uniform: Floats) -> Ids:
        """Which of the K proposals the numbers choose; [batch, length]."""
        cumulative = np.cumsum(self.normalised, axis=-1)
        column = np.empty(uniform.shape, dtype=np.int64)
        for i, row in enumerate(cumulative):
            column[:, i] = np.searchsorted(row, uniform[:, i] * row[-1], side="right")
        # Rounding must not carry a draw past the last proposal that has a weight.
        last = np.where(self.weights > 0, np.arange(self.weights.shape[1]), 0).max(-1)
        return np.asarray(np.minimum(column, last))

    def ids_at(self, columns: Ids) -> Ids:
        """The proposals in these columns; where a position has none, its own token."""
        return np.where(self.replaceable, self.ids[np.arange(len(self.ids)), columns], self.original)

    @property
    def normalised(self) -> Floats:
        """The weights of each position as shares of 1; all 0 where there is no proposal."""
        total = self.weights.sum(-1, keepdims=True)  # [length, 1]
        return np.asarray(self.weights / np.where(total > 0, total, 1))

    def strata(self, most: int) -> int:
        """Into how many equal parts draws should be dealt: one for each proposal, if they are few."""
        return int(np.clip((self.weights > 0).sum(-1).max(initial=1), 1, most))


class Replacer(Protocol):
    """Called once per text."""

    @property
    def info(self) -> Mapping[str, Any]:
        """Provenance: id and parameters."""
        ...

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        """Proposals for every position of prompt and continuation; none for protected positions."""
        ...


def table(case: Case, ids: Ids, weights: Floats) -> Proposals:
    """Proposals without what must not be proposed: the original token, and anything for protected positions."""
    original = case.ids
    allowed = (ids != original[:, None]) & ~case.protected[:, None]
    return Proposals(original, ids, np.where(allowed, weights, 0.0))
