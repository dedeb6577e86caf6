"""The beginning that many sequences share is computed once.

Probes of one prompt differ from it only from their first replaced token on, and a system prompt or
few-shot block is the same in all of them. Sorted by that place, every batch continues one common
prefix, whose keys and values grow as the batches go.
"""

import copy
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

from reagent.case import Ids

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SHORTEST = 4  # a shorter prefix is not worth the trouble
COPIES = 16  # a batch copies its prefix for every row, layer by layer: bounds that to so many batches of tokens
_PLAIN = (DynamicLayer, DynamicSlidingWindowLayer)
NOTHING: tuple[Ids, Any] = (np.empty(0, dtype=np.int64), None)


class Batch(NamedTuple):
    rows: Ids  # which sequences
    shared: int  # how many leading tokens they have in common


def batches(
    sequences: Ids, limit: int, tokens_at_once: int, rows_at_once: int, pass_costs: float = math.inf
) -> Iterator[Batch]:
    """Cut [n, length] sequences into batches that share ever longer prefixes, of at most `limit` tokens.

    A batch ends where it is full, or where the rest, begun anew with its longer prefix, saves more tokens than one
    more pass costs.

    >>> rows = np.array([[1, 2, 3], [1, 2, 4], [0, 2, 3]])
    >>> [(b.rows.tolist(), b.shared) for b in batches(rows, 2, 4, 9)]
    [([2], 0), ([0, 1], 2)]
    >>> [[len(b.rows) for b in batches(rows, 2, 99, 9, pass_costs)] for pass_costs in (3, 4)]
    [[1, 2], [3]]
    """
    length = sequences.shape[1]
    shared = np.minimum(_leading_agreement(sequences), limit)
    order = np.argsort(shared, kind="stable")
    start = 0
    while start < len(order):
        prefix = int(shared[order[start]])
        rows = min(rows_at_once, tokens_at_once // (length - prefix), COPIES * tokens_at_once // length)
        chosen = order[start : start + max(1, rows)]
        while (saved := np.arange(len(chosen), 0, -1) * (shared[chosen] - prefix)).max() > pass_costs:
            chosen = chosen[: saved.argmax()]
        yield Batch(chosen, prefix)
        start += len(chosen)


def _leading_agreement(sequences: Ids) -> Ids:
    """For each row, how many leading tokens are those that most rows have there."""
    if len(sequences) == 1:
        return np.zeros(1, dtype=np.int64)
    ordered = np.sort(sequences, axis=0)
    usual = ordered[len(ordered) // 2]  # a token that most rows have in a column is also its median
    differs = sequences != usual
    return np.asarray(np.where(differs.any(-1), differs.argmax(-1), sequences.shape[1]))


class GrowingPrefix:
    """Keys and values of the tokens that all further sequences start with.

    What every sequence of a call has in common (a system prompt, a few-shot block) is kept for the next
    call; what only some batches share is not.
    """

    def __init__(self, network: "PreTrainedModel", keep_few: dict[str, Any]) -> None:
        self.network = network
        self.keep_few = keep_few
        self.can_share = True
        self.latest: tuple[Ids, Any] = NOTHING
        self.kept: tuple[Ids, Any] = NOTHING

    def upto(self, tokens: Ids, keep: bool) -> "SharedPrefix | None":
        """The prefix `tokens` as a cache; nothing where a model remembers in other ways than keys and values."""
        if len(tokens) < SHORTEST or not self.can_share:
            return None
        known, past = self._what_fits(tokens)
        if len(tokens) > len(known):
            # A branch grows: what is interrupted on the way leaves no half-grown cache behind.
            past = self._grow(_branch(past), tokens[len(known) :])
        if not isinstance(past, Cache) or any(type(layer) not in _PLAIN for layer in past.layers):
            self.can_share = False
            return None
        self.latest = (tokens.copy(), past)  # a copy, since the caller may use its array again
        if keep and len(tokens) > len(self.kept[0]):
            self.kept = self.latest
        return SharedPrefix(past)

    def _what_fits(self, tokens: Ids) -> tuple[Ids, Any]:
        """The longest known beginning of `tokens`, or nothing."""
        for known, past in (self.latest, self.kept):
            if len(known) and np.array_equal(known, tokens[: len(known)]):
                return known, past
        self.latest = self.kept = NOTHING
        return NOTHING

    def _grow(self, past: Any, new: Ids) -> Any:
        ids = torch.from_numpy(np.ascontiguousarray(new[None])).to(self.network.device)
        answer = self.network(ids, past_key_values=past, use_cache=True, **self.keep_few)
        return getattr(answer, "past_key_values", None)


def _branch(past: Any) -> Any:
    """A cache that can grow on its own; the tensors are shared, since growing makes new ones."""
    if past is None:
        return None
    branch = copy.copy(past)
    branch.layers = [copy.copy(layer) for layer in past.layers]
    return branch


class SharedPrefix(Cache):
    """The keys and values of one sequence, which a whole batch continues without anything being stored."""

    def __init__(self, past: Cache) -> None:
        super().__init__(layers=past.layers)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_args: Any, **_more: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        layer: Any = self.layers[layer_idx]
        rows = len(key_states)
        keys = torch.cat([layer.keys.expand(rows, -1, -1, -1), key_states], dim=-2)
        values = torch.cat([layer.values.expand(rows, -1, -1, -1), value_states], dim=-2)
        return keys, values
