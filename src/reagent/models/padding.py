"""Batches of sequences of different lengths that waste little on padding.

There are two useful orders. Sorted by length, the rows of a batch need little padding. Sorted by the length of the
shared prefix, as in `prefix_cache`, the rows of a batch have more computed already. Texts with one unit left out are
cheaper in the second order, texts with many units left out in the first. Both plans are made, and the cheaper is used.
"""

from collections.abc import Sequence

import numpy as np

from reagent.case import Floats, Ids
from reagent.models.prefix_cache import COPIES, Batch, leading_agreement


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

    A batch holds at most `tokens_at_once` tokens and logits at `positions_at_once` places. It is divided further
    where that saves more tokens than one more pass costs. With `sharing`, it continues a prefix that its rows share.

    >>> rows = [[1, 2, 3, 4, 5, 6, 7], [1, 2, 9], [1, 2, 8], [1, 2, 7, 6, 5, 4, 3]]
    >>> lengths = np.array([len(row) for row in rows])
    >>> padded = pad_right([np.array(row) for row in rows], lengths)
    >>> [(b.rows.tolist(), b.shared) for b in plan_ragged(padded, lengths[:, None], 99, 99, pass_cost=3, sharing=True)]
    [([1, 2], 2), ([0, 3], 2)]
    """
    lengths = positions.max(-1)
    shared = np.minimum(leading_agreement(padded), positions.min(-1) - 1) if sharing else np.zeros_like(lengths)
    common = np.full_like(shared, shared.min())
    plans = [
        _cut(np.argsort(shared, kind="stable"), shared, positions, tokens_at_once, positions_at_once, pass_cost),
        _cut(np.argsort(lengths, kind="stable"), common, positions, tokens_at_once, positions_at_once, pass_cost),
    ]
    fixed = min(pass_cost, tokens_at_once)  # also where a pass is never divided to save tokens

    def cost(plan: list[Batch]) -> float:
        return sum(fixed + len(rows) * (int(lengths[rows].max()) - start) for rows, start in plan)

    return min(plans, key=cost)


def _cut(
    order: Ids, shared: Ids, positions: Ids, tokens_at_once: int, positions_at_once: int, pass_cost: float
) -> list[Batch]:
    """Cut the rows in the given order into batches."""
    batches, lengths, begin = [], positions.max(-1), 0
    while begin < len(order):
        rows = order[begin : begin + _fitting(order[begin:], shared, positions, tokens_at_once, positions_at_once)]
        while len(rows) > 1 and (saved := _savings(lengths[rows], shared[rows])).max() > pass_cost:
            rows = rows[: int(saved.argmax()) + 1]
        batches.append(Batch(rows, int(shared[rows].min())))
        begin += len(rows)
    return batches


def _fitting(rows: Ids, shared: Ids, positions: Ids, tokens_at_once: int, positions_at_once: int) -> int:
    """How many of the first `rows` fit into one batch; at least one."""
    places: set[int] = set()
    longest, prefix = 0, int(shared[rows[0]])
    for count, row in enumerate(rows.tolist(), start=1):
        places.update(positions[row].tolist())
        longest, prefix = max(longest, int(positions[row].max())), min(prefix, int(shared[row]))
        full = count * (longest - prefix) > tokens_at_once or count * longest > COPIES * tokens_at_once
        if count > 1 and (full or count * len(places) > positions_at_once):
            return count - 1
    return len(rows)


def _savings(lengths: Ids, shared: Ids) -> Floats:
    """Tokens saved if a batch is divided after each of its rows but the last, [rows − 1].

    >>> _savings(np.array([2, 2, 9]), np.array([0, 0, 0]))  # 3 · 9 − 1 · 2 − 2 · 9, and 3 · 9 − 2 · 2 − 1 · 9
    array([ 7., 14.])
    """
    n = len(lengths)
    count = np.arange(1, n)
    first = count * (np.maximum.accumulate(lengths) - np.minimum.accumulate(shared))[:-1]
    rest = (n - count) * (np.maximum.accumulate(lengths[::-1]) - np.minimum.accumulate(shared[::-1]))[::-1][1:]
    return np.asarray(n * (lengths.max() - shared.min()) - first - rest, dtype=np.float64)
