"""Proposals: for each unit, what may stand in its place. Drawing is the same for every replacer."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.models.base import Model

JOINT = 64  # alternatives of a unit of several tokens, drawn from all that there could be


@dataclass(frozen=True)
class Proposals:
    """What may stand in each unit's place, K alternatives each; weight 0 marks a place that is not used.

    A replacer fills it for single tokens, K for each position. Cut into larger units (`grouped`), an
    alternative of a unit is one token for each of its positions.

    >>> table = Proposals(original=np.array([7, 8]), ids=np.array([[1, 2], [3, 0]]), weights=np.array([[1, 1], [1, 0]]))
    >>> columns = table.choose(np.array([[0.2, 0.9], [0.7, 0.1]]))
    >>> table.apply(np.array([[True, True], [True, False]]), columns)
    array([[1, 3],
           [2, 8]])
    """

    original: Ids  # [length]
    ids: Ids  # [length, K]; the original where a position has nothing to be replaced by
    weights: Floats  # [units, K], any scale
    foreign_passes: int = 0  # of another model, which made the table
    unit_of: Ids | None = None  # [length], the unit of each position; None where every position is one
    missing: Floats | None = None  # [units], see `sampling_variance`; None: the table has all there is

    @property
    def replaceable(self) -> Mask:
        """Units that have at least one proposal."""
        return np.asarray(self.weights.sum(-1) > 0)

    @property
    def normalised(self) -> Floats:
        """The weights of each unit as shares of 1; all 0 where there is no proposal."""
        total = self.weights.sum(-1, keepdims=True)  # [units, 1]
        return np.asarray(self.weights / np.where(total > 0, total, 1))

    def choose(self, uniform: Floats, units: Ids | None = None) -> Ids:
        """Which of the K proposals of each unit (or of `units` only) the numbers in [0, 1) choose; [batch, units].

        The numbers come from outside so that the same draws can be made one by one or in one go.
        """
        weights = self.weights if units is None else self.weights[units]
        cumulative = np.cumsum(self.normalised if units is None else self.normalised[units], axis=-1)
        column = np.empty(uniform.shape, dtype=np.int64)
        for i, row in enumerate(cumulative):
            column[:, i] = np.searchsorted(row, uniform[:, i] * row[-1], side="right")
        # Rounding must not carry a draw past the last proposal that has a weight.
        last = np.where(weights > 0, np.arange(weights.shape[1]), 0).max(-1)
        return np.asarray(np.minimum(column, last))

    def apply(self, replaced: Mask, columns: Ids, units: Ids | None = None) -> Ids:
        """The text with the marked units replaced, [batch, length]; `units` names those that the columns stand for."""
        if units is not None:
            some, columns, replaced = (columns, replaced), *self._blank(len(replaced))
            columns[:, units], replaced[:, units] = some
        if self.unit_of is not None:
            replaced, columns = replaced[:, self.unit_of], columns[:, self.unit_of]
        return np.where(replaced, self.ids[np.arange(len(self.ids)), columns], self.original)

    def draw(self, uniform: Floats) -> Ids:
        """The text with every unit replaced, [batch, length], by inverting the weights at `uniform` [batch, units]."""
        return self.apply(np.broadcast_to(self.replaceable, uniform.shape), self.choose(uniform))

    @property
    def sampling_variance(self) -> Floats:
        """What the table leaves out where its proposals are a sample of all that could stand there, [units].

        It is the variance that their mean has for it, in terms of that of single proposals: one over their number.
        """
        return np.zeros(len(self.weights)) if self.missing is None else self.missing

    def strata(self, most: int) -> Ids:
        """Into how many equal parts the draws of each unit should be dealt: one for each proposal, if they are few."""
        return np.asarray(np.clip((self.weights > 0).sum(-1), 1, most))

    def exhausted_after(self, most: int) -> Floats:
        """After how many draws so dealt each unit has shown all its proposals; inf: one may come again before.

        >>> weights = np.array([[1, 1, 1], [1, 1, 0], [1, 2, 0]])
        >>> Proposals(np.zeros(3, dtype=int), np.ones((3, 3), dtype=int), weights).exhausted_after(most=2)
        array([inf,  2., inf])
        """
        count, top = (self.weights > 0).sum(-1), self.weights.max(-1, keepdims=True)
        alike = ((self.weights == top) | (self.weights == 0)).all(-1)
        return np.where(alike & (count <= most), count, np.inf)

    def grouped(self, case: Case, rng: np.random.Generator) -> "Proposals":
        """The same table for the units of `case`.

        A unit of several tokens gets `JOINT` alternatives, each drawn token by token, so that every candidate of
        every token occurs about as often as its weight says. A protected unit has none. They are a sample of what the
        tokens' candidates make together, and these may be samples themselves: each token is taken to matter alike.
        """
        k = max(JOINT, self.weights.shape[1]) if len(case.units) < len(self.ids) else self.weights.shape[1]
        unused = ((0, 0), (0, k - self.weights.shape[1]))
        ids, own = np.pad(self.ids, unused, mode="edge"), np.pad(self.weights, unused)
        weights, missing = np.zeros((len(case.units), k)), np.zeros(len(case.units))
        for unit, (start, stop) in enumerate(pairwise(case.unit_starts)):
            inside = [i for i in range(start, stop) if self.weights[i].any()]
            if case.protected[unit] or not inside:
                continue
            if stop - start == 1:
                weights[unit], missing[unit] = own[start], self.sampling_variance[start]
                continue
            weights[unit], missing[unit] = 1.0, 1 / k + self.sampling_variance[inside].mean()
            dealt = rng.permuted(np.tile(np.arange(k)[:, None], len(inside)), axis=0)  # [K, tokens]
            columns = self.choose((dealt + rng.random(dealt.shape)) / k, np.array(inside))
            ids[inside] = self.ids[inside, columns].T
        return replace(self, ids=ids, weights=weights, unit_of=case.unit_of, missing=missing)

    def restricted_to(self, units: Mask) -> "Proposals":
        """The same table, in which all other units stay as they are."""
        return replace(self, weights=np.where(units[:, None], self.weights, 0.0))

    def _blank(self, batch: int) -> tuple[Ids, Mask]:
        return np.zeros((batch, len(self.weights)), dtype=np.int64), np.zeros(
            (batch, len(self.weights)), dtype=np.bool_
        )


class Replacer(Protocol):
    """Called once per text."""

    @property
    def info(self) -> Mapping[str, Any]:
        """Provenance: id and parameters."""
        ...

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        """Proposals for every position of prompt and continuation; none for protected positions."""
        ...


def table(case: Case, ids: Ids, weights: Floats, sampled: Mask | None = None, most: int | None = None) -> Proposals:
    """Proposals for single tokens, without the original and without any for protected tokens.

    Of each token the first `most` that are left; `sampled` marks those whose proposals were drawn from more.
    """
    original = case.ids
    allowed = (ids != original[:, None]) & ~case.protected[:, None]
    weights = np.where(allowed, weights, 0.0)
    if most is not None:
        weights = np.where(np.cumsum(weights > 0, axis=-1) <= most, weights, 0.0)
    ids = np.where(weights.any(-1, keepdims=True), ids, original[:, None])
    proposals = Proposals(original, ids, weights)
    return proposals if sampled is None else replace(proposals, missing=sampled * (proposals.normalised**2).sum(-1))


def no_proposals(case: Case) -> Proposals:
    """The table of a method that replaces nothing."""
    return Proposals(case.ids, case.ids[:, None], np.zeros((len(case.ids), 1)))
