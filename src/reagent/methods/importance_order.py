"""The order of importance, measured: which units cost most when removed, and carry most when kept alone.

The order grows from the most important unit on. A step considers the units that the surrogate and their own effects
favour. It measures two texts for each: without the units ordered so far and this one, and with only these. The unit
with the best sum of loss and gain is appended. A redundant group may also be appended as a whole, because removing its
units costs something only together. The two paths are the curves of comprehensiveness and sufficiency (DeYoung et al.,
2020), so the order is as faithful as it can be measured to be.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from reagent.case import Floats, Mask
from reagent.methods.probe_set import ProbeSet
from reagent.methods.redundancy import FoundGroup, Requests
from reagent.methods.surrogate import Surrogate

CANDIDATES = 3  # measured in each step
MAX_UNITS = 8  # ordered by measurement
KEEP_WEIGHT = 1.5  # of the gain when units are kept, relative to the loss when they are removed
ESTIMATE_WEIGHT = 0.4  # of the estimate of a unit, relative to that loss: idiosyncrasies of one text count less

Move = tuple[int, ...]  # units that are appended together


class Paths(NamedTuple):
    """Drops along the two paths: without the ordered units, and with only these."""

    removed: float
    kept: float

    def gain(self, later: "Paths", keep_weight: float) -> float:
        """Loss when removed plus gain when kept, from here to a later point."""
        return later.removed - self.removed + keep_weight * (self.kept - later.kept)


@dataclass
class ImportanceOrder:
    """The units ordered so far, and what each step added."""

    units: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)  # mean of the loss when removed and the gain when kept, per unit


@dataclass(frozen=True)
class OrderSearch:
    """The search for the order of one target.

    Drops above `ceiling` count as `ceiling` when units are kept: a text that says nothing about the target may say so
    with any log-probability.
    """

    probes: ProbeSet
    target: int
    surrogate: Surrogate
    estimate: Floats  # the value of each unit so far, [units]
    groups: list[FoundGroup]
    ceiling: float

    def run(self, order: ImportanceOrder, allowance: int) -> Requests:
        """Fill `order` with at most `allowance` probes."""
        yield [self.probes.all_but((), self.target)]
        now, end = self._measured(order.units, ()), self.probes.spent + allowance
        while now is not None and len(order.units) < min(MAX_UNITS, len(self.estimate)):
            moves = self._best_moves(order.units, now)
            wanted = [text for move in moves for text in self._texts(order.units, move)]
            cost = sum(self.probes.result(text, self.target) is None for text in wanted)
            if cost > min(end - self.probes.spent, self.probes.remaining):
                return
            yield wanted
            measured = [self._measured(order.units, move) for move in moves]
            gains = [-np.inf if m is None else self._gain(now, m, mv) for m, mv in zip(measured, moves, strict=True)]
            best = int(np.argmax(gains))
            later, move = measured[best], sorted(moves[best], key=lambda unit: -self.estimate[unit])
            if later is None:
                return
            order.units += move
            order.gains += [now.gain(later, 1.0) / 2 / len(move)] * len(move)
            now = later

    def _best_moves(self, units: list[int], now: Paths) -> list[Move]:
        """The moves with the largest expected gain."""
        left = [tuple(i for i in group.units if i not in units) for group in self.groups if group.kind == "redundant"]
        single = [(i,) for i in range(len(self.estimate)) if i not in units]
        moves = list(dict.fromkeys([*single, *(move for move in left if move)]))
        texts = [self._texts(units, move) for move in moves]
        surrogate, n = self.surrogate.with_probes(*self.probes.known(self.target)), len(self.estimate)
        removed, kept = (surrogate.effects(np.array(column)[:, :n])[0] for column in zip(*texts, strict=True))
        expected = [Paths(r, min(k, self.ceiling)) for r, k in zip(removed, kept, strict=True)]
        gains = [self._gain(now, later, move) for later, move in zip(expected, moves, strict=True)]
        return [moves[i] for i in np.argsort(-np.array(gains), kind="stable")[:CANDIDATES]]

    def _gain(self, now: Paths, later: Paths, move: Move) -> float:
        """The gain of a move for each of its units."""
        estimate = ESTIMATE_WEIGHT * float(self.estimate[list(move)].sum())
        return (now.gain(later, KEEP_WEIGHT) + estimate) / len(move)

    def _texts(self, units: list[int], move: Move) -> tuple[Mask, Mask]:
        """The removal of `units` and the move, and the removal of everything else."""
        chosen = [*units, *move]
        return self.probes.set_of(chosen), self.probes.all_but(chosen, self.target)

    def _measured(self, units: list[int], move: Move) -> Paths | None:
        """What was measured for both texts; None if one is missing."""
        removed, kept = (self.probes.result(text, self.target) for text in self._texts(units, move))
        return None if removed is None or kept is None else Paths(removed.drop, min(kept.drop, self.ceiling))
