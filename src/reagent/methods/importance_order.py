"""The order of importance, measured: which units cost most when removed, and carry most when kept alone.

The order grows from the most important unit on. A step considers the units that the surrogate and their own effects
favour. It measures two texts for each: without the units ordered so far and this one, and with only these. The unit
with the best sum of loss and gain is appended. A redundant group is appended as a whole, because its units act only
together. The two paths are the curves of comprehensiveness and sufficiency, so an explanation is as faithful as its
measurements allow.
"""

from dataclasses import dataclass, field

import numpy as np

from reagent.case import Floats
from reagent.methods.probe_set import ProbeSet
from reagent.methods.redundancy import FoundGroup, Requests
from reagent.methods.surrogate import Surrogate

CANDIDATES = 3  # measured in each step
MAX_UNITS = 8  # ordered by measurement
KEEP_WEIGHT = 1.5  # of the gain when units are kept, relative to the loss when they are removed
ESTIMATE_WEIGHT = 0.4  # of the estimate of a unit, relative to that loss: idiosyncrasies of one text count less


@dataclass
class ImportanceOrder:
    """The units ordered so far, and what each step added."""

    units: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)  # mean of the loss when removed and the gain when kept, per unit


def order_units(
    probes: ProbeSet,
    target: int,
    surrogate: Surrogate,
    estimate: Floats,
    groups: list[FoundGroup],
    ceiling: float,
    allowance: int,
    order: ImportanceOrder,
) -> Requests:
    """Order the most important units with at most `allowance` probes. `estimate` is the value of each unit so far.

    Drops above `ceiling` count as `ceiling` when units are kept: a text that says nothing about the target may say so
    with any log-probability.
    """
    limit, spent = min(MAX_UNITS, len(estimate)), 0
    yield [probes.all_but((), target)]
    nothing = probes.result(probes.all_but((), target), target)
    if nothing is None:
        return
    removed, kept = 0.0, min(nothing.drop, ceiling)  # drops along the two paths
    while len(order.units) < limit:
        moves = _moves(order.units, len(estimate), groups)
        model = surrogate.with_probes(*probes.known(target))
        without, only = _sets(probes, target, order.units, moves)
        forecast = model.effects(without[:, : len(estimate)])[0]
        forecast -= KEEP_WEIGHT * np.minimum(model.effects(only[:, : len(estimate)])[0], ceiling)
        size, value = (
            np.array([len(move) for move in moves]),
            ESTIMATE_WEIGHT * np.array([estimate[list(move)].sum() for move in moves]),
        )
        best = np.argsort(-(forecast - removed + KEEP_WEIGHT * kept + value) / size, kind="stable")[:CANDIDATES]
        wanted = [row for i in best for row in (without[i], only[i])]
        cost = sum(probes.result(row, target) is None for row in wanted)
        if spent + cost > allowance or cost > probes.remaining:
            return
        yield wanted
        spent += cost
        measured = [(probes.result(without[i], target), probes.result(only[i], target)) for i in best]
        gains = [
            -np.inf
            if a is None or b is None
            else (a.drop - removed + KEEP_WEIGHT * (kept - min(b.drop, ceiling)) + value[i]) / size[i]
            for i, (a, b) in zip(best, measured, strict=True)
        ]
        chosen = int(np.argmax(gains))
        after_removal, after_keeping = measured[chosen]
        if after_removal is None or after_keeping is None:
            return
        move = sorted(moves[best[chosen]], key=lambda unit: -estimate[unit])
        order.units += move
        now_removed, now_kept = after_removal.drop, min(after_keeping.drop, ceiling)
        order.gains += [(now_removed - removed + kept - now_kept) / 2 / len(move)] * len(move)
        removed, kept = now_removed, now_kept


def _moves(units: list[int], count: int, groups: list[FoundGroup]) -> list[tuple[int, ...]]:
    """What may be appended next: each unit, and what is left of each redundant group."""
    left = [tuple(i for i in group.units if i not in units) for group in groups if group.kind == "redundant"]
    return list(dict.fromkeys([*((i,) for i in range(count) if i not in units), *(move for move in left if move)]))


def _sets(probes: ProbeSet, target: int, units: list[int], moves: list[tuple[int, ...]]) -> tuple[Floats, Floats]:
    """For each move, the removal of `units` and the move, and the removal of everything else."""
    without = np.array([probes.set_of([*units, *move]) for move in moves])
    only = np.array([probes.all_but([*units, *move], target) for move in moves])
    return without, only
