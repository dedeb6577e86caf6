"""Batches of sequences of different lengths that waste little on padding.

There are two useful orders. Sorted by length, the rows of a batch need little padding. Sorted by the length of the
shared prefix, as in `prefix_cache`, the rows of a batch have more computed already. Texts with one unit left out are
cheaper in the second order, texts with many units left out in the first. Both plans are made, and the cheaper is used.
The network computes logits at the same places of all rows, so rows that end at many places cost more.
"""

import math
from collections.abc import Sequence

import numpy as np

from reagent.case import Ids
from reagent.models.prefix_cache import COPIES, Batch, leading_agreement

LOGITS_COST = 0.4  # of a place, in tokens; measured with the bundled model
MOST_PASS_COST = 1e9  # upper limit, so that costs stay finite


def pad_right(sequences: Sequence[Ids], lengths: Ids) -> Ids:
    """The first `lengths` tokens of the sequences, [n, longest]; each row is filled with its own last token.

    >>> pad_right([np.array([1, 2, 3]), np.array([4, 5])], np.array([3, 1])).tolist()
    [[1, 2, 3], [4, 4, 4]]
    """
    padded = np.empty((len(sequences), int(lengths.max())), dtype=np.int64)
    for row, sequence, length in zip(padded, sequences, lengths.tolist(), strict=True):
        row[:length], row[length:] = sequence[:length], sequence[length - 1]
    return padded


def plan_ragged(
    padded: Ids, positions: Ids, tokens_at_once: int, positions_at_once: int, pass_cost: float, sharing: bool
) -> list[Batch]:
    """Cut [n, longest] sequences, of which row i ends before its largest position, into batches.

    A batch holds at most `tokens_at_once` tokens and logits at `positions_at_once` places. The plan costs least, in
    tokens: each batch costs one pass, and each of its rows costs what it is long and what its logits cost. With
    `sharing`, a batch continues a prefix that its rows share.

    >>> rows = [[1, 2, 3, 4, 5, 6, 7], [1, 2, 9], [1, 2, 8], [1, 2, 7, 6, 5, 4, 3]]
    >>> lengths = np.array([len(row) for row in rows])
    >>> padded = pad_right([np.array(row) for row in rows], lengths)
    >>> [(b.rows.tolist(), b.shared) for b in plan_ragged(padded, lengths[:, None], 99, 99, pass_cost=3, sharing=True)]
    [([1, 2], 2), ([0, 3], 2)]
    """
    lengths = positions.max(-1)
    shared = np.minimum(leading_agreement(padded), positions.min(-1) - 1) if sharing else np.zeros_like(lengths)
    common = np.full_like(shared, shared.min())
    pass_cost = min(pass_cost, MOST_PASS_COST)
    plans = [
        _cut(np.argsort(shared, kind="stable"), shared, positions, tokens_at_once, positions_at_once, pass_cost),
        _cut(np.argsort(lengths, kind="stable"), common, positions, tokens_at_once, positions_at_once, pass_cost),
    ]
    return min(plans, key=lambda plan: plan[1])[0]


def _cut(
    order: Ids, shared: Ids, positions: Ids, tokens_at_once: int, positions_at_once: int, pass_cost: float
) -> tuple[list[Batch], float]:
    """The cheapest batches of consecutive rows in the given order, and their cost."""
    ends, starts, lengths = positions.tolist(), shared.tolist(), positions.max(-1).tolist()
    costs, begins = [0.0], [0]  # of the first rows: the least cost, and where the last batch begins
    for end in range(1, len(order) + 1):
        costs.append(math.inf)
        begins.append(end - 1)
        places: set[int] = set()
        longest, prefix = 0, lengths[order[end - 1]]
        for begin in range(end - 1, -1, -1):
            row, count = order[begin], end - begin
            places.update(ends[row])
            longest, prefix = max(longest, lengths[row]), min(prefix, starts[row])
            full = count * (longest - prefix) > tokens_at_once or count * longest > COPIES * tokens_at_once
            if count > 1 and (full or count * len(places) > positions_at_once):
                break
            cost = costs[begin] + pass_cost + count * (longest - prefix + LOGITS_COST * len(places))
            if cost < costs[end]:
                costs[end], begins[end] = cost, begin
    batches, end = [], len(order)
    while end:
        rows = order[begins[end] : end]
        batches.append(Batch(rows, int(shared[rows].min())))
        end = begins[end]
    return batches[::-1], costs[-1]
