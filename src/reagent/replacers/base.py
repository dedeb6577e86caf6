"""Proposals: the candidates that may replace each unit. All replacers share the code that samples from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.models.base import Model

JOINT_CANDIDATES = 64  # candidates of a unit of several tokens, sampled from all combinations of token candidates


@dataclass(frozen=True)
class Proposals:
    """Up to K weighted candidates for each unit; weight 0 marks an unused entry.

    A replacer fills the table for single tokens, with K candidates for each position. In a table of larger units
    (`grouped`), a candidate of a unit has one token for each of its positions.

    >>> table = Proposals(original=np.array([7, 8]), ids=np.array([[1, 2], [3, 0]]), weights=np.array([[1, 1], [1, 0]]))
    >>> columns = table.choose(np.array([[0.2, 0.9], [0.7, 0.1]]))
    >>> table.apply(np.array([[True, True], [True, False]]), columns)
    array([[1, 3],
           [2, 8]])
    """

    original: Ids  # [length]
    ids: Ids  # [length, K]; the original token at positions without candidates
    weights: Floats  # [units, K], any scale
    auxiliary_passes: int = 0  # forward passes of another model, such as a masked LM, to make the table
    unit_of: Ids | None = None  # [length], the unit of each position; None: every position is a unit
    omitted_variance: Floats | None = None  # [units], see `sampling_variance`; None: no candidate was omitted

    @property
    def replaceable(self) -> Mask:
        """Units that have at least one candidate."""
        return np.asarray(self.weights.sum(-1) > 0)

    @property
    def normalised(self) -> Floats:
        """The weights of each unit, scaled to sum to 1; all 0 for a unit without candidates."""
        total = self.weights.sum(-1, keepdims=True)  # [units, 1]
        return np.asarray(self.weights / np.where(total > 0, total, 1))

    def choose(self, uniform: Floats, units: Ids | None = None) -> Ids:
        """Choose one candidate for each unit (or for `units` only) from uniform numbers in [0, 1); [batch, units].

        The caller passes the random numbers, so that the result does not depend on how batches are cut.
        """
        weights = self.weights if units is None else self.weights[units]
        cumulative = np.cumsum(self.normalised if units is None else self.normalised[units], axis=-1)
        column = np.empty(uniform.shape, dtype=np.int64)
        for i, row in enumerate(cumulative):
            column[:, i] = np.searchsorted(row, uniform[:, i] * row[-1], side="right")
        # Rounding must not choose an entry after the last candidate that has a weight.
        last = np.where(weights > 0, np.arange(weights.shape[1]), 0).max(-1)
        return np.asarray(np.minimum(column, last))

    def apply(self, replaced: Mask, columns: Ids, units: Ids | None = None) -> Ids:
        """The text with the marked units replaced, [batch, length]; the columns are those of `units`, or of all."""
        if units is not None:
            some, columns, replaced = (columns, replaced), *self._nothing_replaced(len(replaced))
            columns[:, units], replaced[:, units] = some
        if self.unit_of is not None:
            replaced, columns = replaced[:, self.unit_of], columns[:, self.unit_of]
        return np.where(replaced, self.ids[np.arange(len(self.ids)), columns], self.original)

    def draw(self, uniform: Floats) -> Ids:
        """The text with every unit replaced, [batch, length], chosen by `uniform` [batch, units]."""
        return self.apply(np.broadcast_to(self.replaceable, uniform.shape), self.choose(uniform))

    @property
    def sampling_variance(self) -> Floats:
        """The variance that arises because the candidates are a sample of a larger set, [units].

        It is the variance of the mean over the candidates, relative to the variance of a single candidate: 1/K for K
        equally likely candidates, and 0 where the table holds all candidates.
        """
        return np.zeros(len(self.weights)) if self.omitted_variance is None else self.omitted_variance

    def strata(self, maximum: int) -> Ids:
        """The number of strata for the draws of each unit: one for each candidate, but at most `maximum`; [units]."""
        return np.asarray(np.clip((self.weights > 0).sum(-1), 1, maximum))

    def exhausted_after(self, maximum: int) -> Floats:
        """The number of stratified draws after which each unit has used all its candidates, [units].

        It is infinite where a candidate may be drawn twice before all are used.

        >>> weights = np.array([[1, 1, 1], [1, 1, 0], [1, 2, 0]])
        >>> Proposals(np.zeros(3, dtype=int), np.ones((3, 3), dtype=int), weights).exhausted_after(maximum=2)
        array([inf,  2., inf])
        """
        count, top = (self.weights > 0).sum(-1), self.weights.max(-1, keepdims=True)
        equal = ((self.weights == top) | (self.weights == 0)).all(-1)
        return np.where(equal & (count <= maximum), count, np.inf)

    def grouped(self, case: Case, rng: np.random.Generator) -> "Proposals":
        """The same table for the units of `case`.

        A unit of several tokens gets `JOINT_CANDIDATES` candidates. The tokens of each are drawn independently and
        stratified, so that every candidate of a token occurs about in proportion to its weight. A protected unit has
        none. The joint candidates are a sample of all combinations, and the candidates of a token may be a sample
        too; the sampling variance assumes that all tokens of a unit matter equally.
        """
        k = max(JOINT_CANDIDATES, self.weights.shape[1]) if len(case.units) < len(self.ids) else self.weights.shape[1]
        unused = ((0, 0), (0, k - self.weights.shape[1]))
        ids, own = np.pad(self.ids, unused, mode="edge"), np.pad(self.weights, unused)
        weights, omitted = np.zeros((len(case.units), k)), np.zeros(len(case.units))
        for unit, (start, stop) in enumerate(pairwise(case.unit_starts)):
            inside = [i for i in range(start, stop) if self.weights[i].any()]
            if case.protected[unit] or not inside:
                continue
            if stop - start == 1:
                weights[unit], omitted[unit] = own[start], self.sampling_variance[start]
                continue
            weights[unit], omitted[unit] = 1.0, 1 / k + self.sampling_variance[inside].mean()
            strata = rng.permuted(np.tile(np.arange(k)[:, None], len(inside)), axis=0)  # [K, tokens]
            columns = self.choose((strata + rng.random(strata.shape)) / k, np.array(inside))
            ids[inside] = self.ids[inside, columns].T
        return replace(self, ids=ids, weights=weights, unit_of=case.unit_of, omitted_variance=omitted)

    def restricted_to(self, units: Mask) -> "Proposals":
        """The same table without candidates for all other units."""
        return replace(self, weights=np.where(units[:, None], self.weights, 0.0))

    def _nothing_replaced(self, batch: int) -> tuple[Ids, Mask]:
        shape = (batch, len(self.weights))
        return np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)


@runtime_checkable
class Replacer(Protocol):
    """Proposes candidates; called once per text.

    The hyperparameters are the fields of a frozen dataclass. A replacer that needs capabilities of a model lists their
    protocols in a class attribute `requires: ClassVar[tuple[type, ...]]`.
    """

    @property
    def info(self) -> Mapping[str, Any]:
        """Provenance: id and parameters."""
        ...

    def propose(self, model: Model, case: Case, rng: np.random.Generator) -> Proposals:
        """Candidates for every position of prompt and continuation; none for protected positions."""
        ...


def required_capabilities(replacer: Replacer) -> tuple[type, ...]:
    """The capability protocols that a model must have for `replacer`."""
    return getattr(replacer, "requires", ())


def make_proposals(
    case: Case, ids: Ids, weights: Floats, sampled: Mask | None = None, limit: int | None = None
) -> Proposals:
    """A table for single tokens, without the original tokens and without candidates for protected tokens.

    It keeps the first `limit` candidates of each token. `sampled` marks tokens whose candidates are a sample of more.
    """
    original = case.ids
    allowed = (ids != original[:, None]) & ~case.protected[:, None]
    weights = np.where(allowed, weights, 0.0)
    if limit is not None:
        weights = np.where(np.cumsum(weights > 0, axis=-1) <= limit, weights, 0.0)
    ids = np.where(weights.any(-1, keepdims=True), ids, original[:, None])
    table = Proposals(original, ids, weights)
    return table if sampled is None else replace(table, omitted_variance=sampled * (table.normalised**2).sum(-1))


def no_proposals(case: Case) -> Proposals:
    """The table of a method that replaces nothing."""
    return Proposals(case.ids, case.ids[:, None], np.zeros((len(case.ids), 1)))
