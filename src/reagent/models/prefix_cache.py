"""The prefix that many sequences share is computed once.

Probes of one prompt are equal to it up to their first replaced token, and a system prompt or few-shot block is the
same in all of them. Sequences are sorted by the length of the shared prefix. Every batch then continues one common
prefix, whose keys and values grow from batch to batch.
"""

import copy
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from reagent.case import Ids
from reagent.models.network import Network

SHORTEST = 4  # tokens; sharing a shorter prefix saves nothing
COPIES = 16  # a batch copies its prefix for every row, layer by layer; bounds the copies, in batches of tokens
_PLAIN = (DynamicLayer, DynamicSlidingWindowLayer)
EMPTY: tuple[Ids, Any] = (np.empty(0, dtype=np.int64), None)


class Batch(NamedTuple):
    rows: Ids  # which sequences
    shared: int  # how many leading tokens they have in common


def plan_batches(
    sequences: Ids, limit: int, tokens_at_once: int, rows_at_once: int, pass_cost: float = math.inf
) -> Iterator[Batch]:
    """Cut [n, length] sequences into batches that share ever longer prefixes, of at most `limit` tokens.

    A batch ends when it is full, or when a new batch with a longer prefix saves more tokens than one more pass costs.

    >>> rows = np.array([[1, 2, 3], [1, 2, 4], [0, 2, 3]])
    >>> [(b.rows.tolist(), b.shared) for b in plan_batches(rows, 2, 4, 9)]
    [([2], 0), ([0, 1], 2)]
    >>> [[len(b.rows) for b in plan_batches(rows, 2, 99, 9, pass_cost)] for pass_cost in (3, 4)]
    [[1, 2], [3]]
    """
    length = sequences.shape[1]
    shared = np.minimum(leading_agreement(sequences), limit)
    order = np.argsort(shared, kind="stable")
    start = 0
    while start < len(order):
        prefix = int(shared[order[start]])
        rows = min(rows_at_once, tokens_at_once // (length - prefix), COPIES * tokens_at_once // length)
        chosen = order[start : start + max(1, rows)]
        while (saved := np.arange(len(chosen), 0, -1) * (shared[chosen] - prefix)).max() > pass_cost:
            chosen = chosen[: saved.argmax()]
        yield Batch(chosen, prefix)
        start += len(chosen)


def leading_agreement(sequences: Ids) -> Ids:
    """For each row, how many leading tokens it shares with most rows."""
    if len(sequences) == 1:
        return np.zeros(1, dtype=np.int64)
    ordered = np.sort(sequences, axis=0)
    usual = ordered[len(ordered) // 2]  # a token that most rows have in a column is also its median
    differs = sequences != usual
    return np.asarray(np.where(differs.any(-1), differs.argmax(-1), sequences.shape[1]))


class PrefixCache:
    """Keys and values of the tokens that all further sequences start with.

    The prefix that every sequence of a call shares (a system prompt, a few-shot block) is kept for the next call. A
    prefix that only some batches share is not.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._is_plain = True  # until another kind of cache is seen
        self.clear()

    @property
    def can_share(self) -> bool:
        return self._is_plain and self.network.has_cache

    def clear(self) -> None:
        """Drop all prefixes."""
        self._latest = self._kept = EMPTY

    def holds(self, tokens: Ids) -> bool:
        """Whether these tokens begin what was read last, so that `read` costs nothing."""
        return np.array_equal(self._latest[0][: len(tokens)], tokens)

    def read(self, tokens: Ids, keep: bool) -> "SharedPrefix | None":
        """Keys and values of `tokens`; None if they are few, or if the network has no plain keys and values."""
        if len(tokens) < SHORTEST or not self.can_share:
            return None
        if len(tokens) < len(self._latest[0]) and self.holds(tokens):
            cropped = _crop(self._latest[1], len(tokens))
            if cropped is not None:
                return SharedPrefix(cropped)
        known, cache = self._longest_match(tokens)
        if len(tokens) > len(known):
            # A branch grows, so that an interruption leaves no half-grown cache behind.
            new = self.network.tensor(tokens[None, len(known) :])
            _, cache = self.network.extend(new, _branch(cache))
        # Exactly these types: others hold more than the keys and values of one text.
        if type(cache) is not DynamicCache or any(type(layer) not in _PLAIN for layer in cache.layers):
            self._is_plain = False
            return None
        self._latest = (tokens.copy(), cache)  # a copy, since the caller may overwrite its array
        if keep and len(tokens) > len(self._kept[0]):
            self._kept = self._latest
        return SharedPrefix(cache)

    def _longest_match(self, tokens: Ids) -> tuple[Ids, Any]:
        """The longest cached prefix of `tokens`; without one, all others are dropped."""
        for known, cache in (self._latest, self._kept):
            if len(known) and np.array_equal(known, tokens[: len(known)]):
                return known, cache
        self.clear()
        return EMPTY


def _branch(cache: Any) -> Any:
    """A copy of the cache that can grow; it shares the tensors, since growing makes new ones."""
    if cache is None:
        return None
    branch = copy.copy(cache)
    branch.layers = [copy.copy(layer) for layer in cache.layers]
    return branch


def _crop(cache: Any, length: int) -> Any:
    """A view of the first tokens of the cache; None if it has windows, which hold only the last tokens."""
    if any(type(layer) is not DynamicLayer for layer in cache.layers):
        return None
    cropped = _branch(cache)
    for layer in cropped.layers:
        layer.keys, layer.values = layer.keys[..., :length, :], layer.values[..., :length, :]
    return cropped


class SharedPrefix(Cache):
    """The keys and values of one sequence, which every row of a batch continues; nothing is added to them."""

    def __init__(self, cache: Cache) -> None:
        super().__init__(layers=cache.layers)
        self.has_windows = any(type(layer) is not DynamicLayer for layer in cache.layers)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_args: Any, **_more: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        layer: Any = self.layers[layer_idx]
        rows = len(key_states)
        keys = torch.cat([layer.keys.expand(rows, -1, -1, -1), key_states], dim=-2)
        values = torch.cat([layer.values.expand(rows, -1, -1, -1), value_states], dim=-2)
        return keys, values
