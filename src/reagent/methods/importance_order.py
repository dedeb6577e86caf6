"""The order of importance, measured: which units cost most when removed, and carry most when kept alone.

An order of up to eight units is judged by two curves: the drop when its first 1, 2, 3 and 5 units are removed
(comprehensiveness), and the drop when only its first 3, 5 and 8 units are kept (sufficiency; DeYoung et al., 2020). The
surrogate predicts both for any order, so the best order is found without the model, by moving one unit at a time. Then
the texts of the best orders are measured, and what was measured replaces what was predicted. This is repeated until
every text of the best order is measured, as far as the probes suffice.

The first three units are always kept together, and the unit with the largest effect is one of them. Among them the
effect of each alone decides: of removing it and, with a smaller weight, of replacing it by another unit of the text,
together with its share of the effects of its groups. Without a unit directly before the output the text is also
ungrammatical, so that its effect counts less, unless a group is among the first three.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from reagent.case import Floats, Ids, Mask
from reagent.methods.probe_set import ProbeSet
from reagent.methods.redundancy import FoundGroup, Requests
from reagent.methods.surrogate import Surrogate

LENGTH = 8  # units in the order
REMOVED = (1, 2, 3, 5)  # numbers of first units that are removed …
KEPT = (3, 5, 8)  # … and that are kept alone
KEEP_WEIGHT = 0.45  # of the drop when units are kept, relative to the drop when they are removed
ESTIMATE_WEIGHT = 1.0  # of the estimates of the units, relative to these drops: limits the influence of a single text
GROUP_WEIGHT = 0.6  # … and of the surplus of their groups
SUBSTITUTED_WEIGHT = 0.4  # of the effects of replacing units, relative to those of removing them
NEAR_WEIGHT = 0.8  # of the effects of units directly before the output
TOGETHER = 1.0  # nats for an order whose first units contain a redundant group as a whole
FIRST_UNITS = 5
LARGEST_FIRST = 1.0  # nats for an order whose first three units contain the one with the largest effect
POOL, SMALLEST_VALUE = 20, 0.05  # units that the order may contain, and the least share of the largest value
SMALLEST, SMALLEST_POOL, SMALLEST_TEXTS = 3, 10, 16  # texts of three units are hard to predict: these are measured
BATCH = 12  # texts measured at once
TIE = 1e-3
MOVES = 30  # of one unit, from the first order to the best


@dataclass
class ImportanceOrder:
    """The ordered units, and what each of them added."""

    units: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class OrderSearch:
    """The search for the order of one target.

    Drops above `ceiling` count as `ceiling` when units are kept, because above it they do not distinguish texts.
    """

    probes: ProbeSet
    target: int
    surrogate: Surrogate
    single: Floats  # the effect of each unit alone, [units]
    substituted: Floats  # of replacing it by another unit of the text; 0 if it was not measured, [units]
    estimate: Floats  # its value so far, [units]
    surplus: Floats  # its share of the effects of its groups, [units]
    groups: list[FoundGroup]
    near: Ids  # units directly before the output
    ceiling: float

    def run(self, order: ImportanceOrder, allowance: int) -> Requests:
        """Fill `order` with at most `allowance` probes."""
        left = allowance // self.probes.draws
        wanted = self._smallest()[: -(-left // 2)]
        best = first = self.pool[: self.length]
        while True:
            if wanted:
                yield wanted
                left -= len(wanted)
            judge = self._judge()
            best = self._by_effect(judge.best(self.pool, [best, first]))
            wanted = judge.unknown_texts(best, self.pool)[: max(0, min(BATCH, left, self.probes.remaining))]
            if not wanted:
                break
        order.units, order.gains = best.tolist(), judge.gains(best)

    def _by_effect(self, order: Ids) -> Ids:
        """The order with its first units in the order of their own effects."""
        first = order[: min(KEPT)]
        effect = self._effects(1.0 if self.surplus[first].any() else NEAR_WEIGHT)
        return np.concatenate([first[np.argsort(-effect[first], kind="stable")], order[min(KEPT) :]])

    def _effects(self, near_weight: float) -> Floats:
        """The effect of each unit alone and its share of the effects of its groups."""
        effect = np.maximum(self.single, 0.0) + SUBSTITUTED_WEIGHT * np.maximum(self.substituted, 0.0) + self.surplus
        effect[self.near] *= near_weight
        return effect

    @cached_property
    def largest(self) -> int:
        """The unit with the largest effect."""
        return int(np.argmax(self._effects(NEAR_WEIGHT)))

    @property
    def length(self) -> int:
        return min(LENGTH, len(self.estimate))

    @cached_property
    def pool(self) -> Ids:
        """The units with the largest values so far, without those of hardly any value."""
        value = self.estimate + self.surplus
        enough = max(self.length, int((value >= SMALLEST_VALUE * value.max()).sum()))
        return np.argsort(-value, kind="stable")[: min(POOL, enough)]

    def _smallest(self) -> list[Mask]:
        """The removals that leave three units of the first ones, those with the smallest predicted drop first."""
        sets = combinations(self.pool[:SMALLEST_POOL].tolist(), SMALLEST)
        texts = np.array([self.probes.all_but(units, self.target) for units in sets])
        drops = self.surrogate.mean_effects()(texts[:, : len(self.estimate)])
        best = texts[np.argsort(drops, kind="stable")[:SMALLEST_TEXTS]]
        return [text for text in best if not self.probes.is_measured(text)]

    def _judge(self) -> "_Judge":
        return _Judge(self, self.surrogate.with_probes(*self.probes.known(self.target)))


class _Judge:
    """The value of orders, from what was measured so far."""

    def __init__(self, search: OrderSearch, surrogate: Surrogate) -> None:
        self.search, self.n = search, len(search.estimate)
        self.predict = surrogate.mean_effects()
        self.measured = search.probes.measured_drops(search.target)
        places = np.arange(search.length)
        self.weight = (places[:, None] < REMOVED).mean(1) + KEEP_WEIGHT * (places[:, None] < KEPT).mean(1)
        self.weight -= TIE * places  # places between two measured numbers of units
        self.prior = (ESTIMATE_WEIGHT * search.estimate + GROUP_WEIGHT * search.surplus) / 2
        self.prior += SUBSTITUTED_WEIGHT * np.maximum(search.substituted, 0.0) / 2

    def best(self, pool: Ids, starts: Sequence[Ids]) -> Ids:
        """The best order that is reached from one of the given ones by moving one unit at a time."""
        found = [self._improve(np.asarray(start), pool) for start in starts]
        return found[int(np.argmax(self.values(np.array(found))))]

    def _improve(self, order: Ids, pool: Ids) -> Ids:
        value = self.values(order[None])[0]
        for _ in range(MOVES):
            near = _neighbours(order, pool)
            values = self.values(near)
            first = int(np.argmax(values))
            if values[first] <= value + 1e-9:
                break
            order, value = near[first], values[first]
        return order

    def values(self, orders: Ids) -> Floats:
        """The value of each order, [orders, length]."""
        first = _first_units(orders, self.n)
        removed = [self.drops(first[:, k - 1]) for k in REMOVED if k <= first.shape[1]]
        kept = [np.minimum(self.drops(~first[:, k - 1]), self.search.ceiling) for k in KEPT if k <= first.shape[1]]
        value = np.mean(removed, axis=0) + self.prior[orders] @ self.weight
        if kept:
            value -= KEEP_WEIGHT * np.mean(kept, axis=0)
        nat = self.search.probes.nat
        value += LARGEST_FIRST * nat * first[:, min(SMALLEST, first.shape[1]) - 1, self.search.largest]
        shown = first[:, min(FIRST_UNITS, first.shape[1]) - 1]
        largest = max(float(self.search.estimate.max(initial=0.0)), 1e-9)
        for group in self.search.groups:
            if group.kind == "redundant" and len(group.units) < FIRST_UNITS:
                share = TOGETHER * nat * min(1.0, group.surplus / largest)
                value += share * shown[:, list(group.units)].all(1)
        return np.asarray(value)

    def drops(self, sets: Mask) -> Floats:
        """The drop of each set: measured, or else predicted."""
        drops = self.predict(sets)
        for i, row in enumerate(sets):
            drops[i] = self.measured.get(row.tobytes(), drops[i])
        return drops

    def unknown_texts(self, best: Ids, pool: Ids) -> list[Mask]:
        """Texts of the best order that were not measured, then those of its best neighbours; none if all of its are."""
        texts = self._texts(best)
        if not texts:
            return []
        near = _neighbours(best, pool)
        for i in np.argsort(-self.values(near), kind="stable"):
            if len(texts) >= BATCH:
                break
            texts |= self._texts(near[i])
        return list(texts.values())

    def _texts(self, order: Ids) -> dict[bytes, Mask]:
        probes, target = self.search.probes, self.search.target
        units = order.tolist()
        rows = [probes.all_but(units[:k], target) for k in KEPT if k <= len(units)]
        rows += [probes.set_of(units[:k]) for k in REMOVED if k <= len(units)]
        return {row.tobytes(): row for row in rows if not probes.is_measured(row)}

    def gains(self, order: Ids) -> list[float]:
        """What each unit of the order adds: the mean of the loss when removed and the gain when kept.

        Units between two measured numbers of units share what they add together.
        """
        ends = sorted({k for k in (*REMOVED, *KEPT) if k < len(order)} | {len(order)})
        first = _first_units(order[None], self.n)[0][np.array(ends) - 1]
        removed, kept = self.drops(first), np.minimum(self.drops(~first), self.search.ceiling)
        nothing = min(self.drops(np.ones((1, self.n), np.bool_))[0], self.search.ceiling)
        sizes = np.diff(ends, prepend=0)
        gains = (np.diff(removed, prepend=0.0) - np.diff(kept, prepend=nothing)) / 2 / sizes
        return np.repeat(gains, sizes).tolist()


def _first_units(orders: Ids, n: int) -> Mask:
    """The first 1, 2, … units of each order, [orders, length, units]."""
    marked = np.zeros((*orders.shape, n), dtype=np.bool_)
    np.put_along_axis(marked, orders[:, :, None], True, axis=2)
    return np.logical_or.accumulate(marked, axis=1)


def _neighbours(order: Ids, pool: Ids) -> Ids:
    """The orders that differ in the place of one unit of the pool."""
    found = []
    for unit in dict.fromkeys([*order.tolist(), *pool.tolist()]):
        others = [other for other in order.tolist() if other != unit]
        found += [[*others[:place], unit, *others[place:]][: len(order)] for place in range(len(order))]
    return np.array(found)
