"""Screening: the few units of a long prompt that can matter, found at the cost of a few passes.

Two measurements mirror each other. Each looks at every unit, and both are cheap:

alone    The unit is kept alone: all other units are deleted. The texts are short, and the measurement is exact. It
         finds units that are sufficient, also if a fact is stated several times.
hidden   The unit is hidden in the keys and values of the full text, and only the text after the last unit (question,
         template, answer) is read again. It finds units that are necessary. The other units have already read the
         hidden one, so that the effect is approximate: it is used to choose units, not to report them. A model that
         cannot hide (see `HidesPrefix`) is screened without it.

Both first look at blocks of neighbouring units, and then at the single units of the blocks that have an effect. What
the units of a block do not account for is shared equally by all of them: a block may matter although none of its units
matters alone, because they say the same or because the fact needs several of them.

If the units with a clear effect do not carry the answer, others are needed beside them: each unit is then kept together
with the clear ones. This finds a fact that is stated several times and that needs another fact.

The best units by any measure are kept, but none without an effect. Then one probe deletes all others together. If the
answer loses more than is tolerated, units are missing: those whose return restores the answer are found by bisection,
with their substitutes, and the test is repeated. The result has therefore always passed its test, if need be because
everything is kept.

Units directly before the output ask the question. They are always kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.methods.base import Progress, ProgressCallback, no_progress
from reagent.models.base import HidesPrefix, Model, response_of
from reagent.removal import Delete
from reagent.validation import check_range

MANY_UNITS = 32  # of fewer units, all are kept
KEEP = 0.1  # share of the units that are kept at most, if the test passes with them …
MOST_OF_FEW = 6  # … or this number, if it is more
FEWEST_KEPT = 1
NEAR_TOKENS = 32  # before the output: units that start there are always kept
TOLERATED_SHARE = 0.1  # of what a target loses without all units …
TOLERATED_NATS = 0.7  # … or this, if it is more
LEAST_EFFECT = 1.0  # nats: targets with a smaller largest effect count less when units are chosen
NOISE = 0.1  # share of the largest effect: smaller effects give a unit no rank
CLEAR = 0.3  # … and from this share on, an effect is clear
SUBSTITUTE = 0.5  # … and a unit makes up for another one
MOST_SUBSTITUTED = 3  # units whose substitutes are looked for
BLOCKS_PER_UNIT = 4  # blocks for each unit of a block
FEWEST_SINGLE = 12  # units that are measured singly: most of them show what any text does
MOST_RETURNED = 8  # units that are found one by one if the test fails
BATCH = 64  # texts between two reports of progress

Probe = Callable[[Sequence[Ids]], Floats | None]  # from blocks of units to effects, [blocks, targets]


@dataclass(frozen=True)
class Screen:
    """Which units are kept, and what was measured, in nats.

    `alone` and `hidden` are relative to what any text does.
    """

    units: Ids  # units of the prompt that can be removed: indices into `case.units`
    kept: Mask  # [units]
    near: Mask  # [units]: always kept, and not measured
    alone: Floats  # [units, targets]: what the unit adds if all others are deleted
    hidden: Floats | None  # [units, targets]: what is lost if the unit is hidden; None if the model cannot hide
    joint: Floats  # [outputs]: what is lost without all units that are not kept
    nothing: Floats  # [outputs]: what is lost without all units that are not near
    sums: Floats  # [outputs, targets]: the output units that are added to each target
    passes: int  # forward passes; texts that continue the cached prefix count as one each
    nat: float = 1.0  # what a threshold of one nat stands for

    def tolerates(self, lost: Floats) -> bool:
        """Whether a loss of the output units, [outputs], is small for every target."""
        allowed = np.maximum(TOLERATED_NATS * self.nat, TOLERATED_SHARE * self.nothing @ self.sums)
        return bool((lost @ self.sums <= allowed).all())

    @property
    def discarded(self) -> Ids:
        """The units that are not kept: indices into `case.units`."""
        return self.units[~self.kept]


def screen(
    model: Model,
    case: Case,
    *,
    keep: float = KEEP,
    targets: Sequence[Sequence[int]] | None = None,
    near: int = NEAR_TOKENS,
    on_progress: ProgressCallback = no_progress,
) -> Screen:
    """Choose the units of the prompt that can matter for the output.

    Args:
        model: any model.
        case: the units are those of `case.input` that are not protected; the output stays as it is. It needs the
            log-probabilities of its output, see `Case.with_logprobs`.
        keep: the share of the units to keep, if the test passes with it.
        targets: groups of output units, such as the tokens of each sentence of an answer. The values of a group are
            added. By default, each output unit that is explained, and all of them together.
        near: units that start in the last `near` tokens of the prompt are always kept; 0 if the question is protected.
        on_progress: called while texts are scored.
    """
    check_range("screen", "keep", keep, 0, 1)
    return _Screening(model, case.without_output_removal(), targets, near, on_progress).run(keep)


class _Effects(NamedTuple):
    """What units do in one measurement, [units, targets] each."""

    own: Floats  # singly; 0 for units of blocks without an effect
    effects: Floats  # with their share of what their block does besides


class _Screening:
    """The measurements of one screen."""

    def __init__(
        self,
        model: Model,
        case: Case,
        targets: Sequence[Sequence[int]] | None,
        near: int,
        on_progress: ProgressCallback,
    ) -> None:
        self.model, self.case, self.on_progress = model, case, on_progress
        self.remover, self.nat = Delete(model, case), response_of(model).nat
        self.units = self.remover.free
        self.near = _find_near(case, self.units, near)
        self.far = np.flatnonzero(~self.near)
        self.sums = _sum_targets(case, targets)
        self.joint: dict[bytes, Floats] = {}  # of the units that are kept
        self.begin, self.done, self.planned = model.meter.forward_passes, 0, 3 + 2 * 2 * len(_cut(self.far))

    def run(self, keep: float) -> Screen:
        most = max(MOST_OF_FEW, round(keep * len(self.units)))
        if len(self.far) < MANY_UNITS or most >= len(self.far):
            return self._keep_everything()
        hidden = self._measure(self._hide, self.far)  # first, while the model has the keys and values of the whole text
        nothing = self._joint(self.near)
        self.tolerated = np.maximum(TOLERATED_NATS * self.nat, TOLERATED_SHARE * nothing @ self.sums)
        alone = self._keep_with(self.near)
        measures = [alone] if hidden is None else [hidden, alone]
        clear = self._clear(measures, most)
        if clear.any() and not self._passes(self.near | clear):  # something is needed beside the clear units
            measures.append(self._keep_with(self.near | clear))
        kept = self._choose(measures, clear, most)
        joint = self._joint(kept)
        passes = self.model.meter.forward_passes - self.begin
        self.on_progress(Progress(self.done, self.done, "probes"))
        values = None if hidden is None else hidden.effects
        return Screen(self.units, kept, self.near, alone.effects, values, joint, nothing, self.sums, passes, self.nat)

    def _keep_everything(self) -> Screen:
        """The screen of a prompt of few units, without a pass."""
        outputs, targets = self.sums.shape
        zeros, everything = np.zeros(outputs), np.ones(len(self.units), dtype=np.bool_)
        nothing = np.zeros((len(self.units), targets))
        return Screen(self.units, everything, self.near, nothing, None, zeros, zeros, self.sums, 0)

    # --- measurements ---

    def _drops(self, removed: Mask) -> Floats:
        """What each output unit loses when the marked units are deleted, [texts, outputs]."""
        values = []
        for begin in range(0, len(removed), BATCH):
            values.append(self.remover.score(removed[begin : begin + BATCH]).value)
            self._report(len(values[-1]))
        return np.asarray(self.case.values - np.concatenate(values))

    def _report(self, texts: int) -> None:
        self.done += texts
        self.on_progress(Progress(self.done, max(self.planned, self.done), "probes"))

    def _keep_with(self, base: Mask) -> _Effects:
        """What each unit adds if only it and `base` are kept."""

        def gains(removable: Sequence[Ids]) -> Floats:
            kept = np.array([self._mark(block, base) for block in removable])
            return np.asarray((self._joint(base) - self._drops(~kept)) @ self.sums)

        measured = self._measure(gains, np.flatnonzero(~base))
        assert measured is not None
        return measured

    def _hide(self, blocks: Sequence[Ids]) -> Floats | None:
        """What each block costs if it is hidden from the text after the last unit, [blocks, targets]."""
        if not isinstance(self.model, HidesPrefix):
            return None
        case, lost = self.case, []
        unit_of = case.unit_of[: case.unit_starts[self.units[self.far[-1]] + 1]]
        for begin in range(0, len(blocks), BATCH):
            hidden = np.array([np.isin(unit_of, self.units[block]) for block in blocks[begin : begin + BATCH]])
            scores = self.model.score_hidden(case.ids, hidden, case.positions, case.targets)
            if scores is None:
                return None
            lost.append(case.values - case.output_scores(scores).value)
            self._report(len(hidden))
        return np.asarray(np.concatenate(lost) @ self.sums)

    def _measure(self, probe: Probe, units: Ids) -> _Effects | None:
        """What each of some units does: first in blocks, then singly in the blocks with an effect.

        What any text does, because it is some text, is subtracted.
        """
        blocks = _cut(units)
        measured = probe(blocks)
        if measured is None:
            return None
        of_blocks = measured - np.median(measured, axis=0)
        own = np.zeros((len(self.units), of_blocks.shape[1]))
        singles = self._choose_singles(blocks, of_blocks)
        if len(singles):
            single = probe(list(singles[:, None]))
            assert single is not None
            own[singles] = single - np.median(single, axis=0)
        effects = own.copy()
        for block, joint in zip(blocks, of_blocks, strict=True):
            rest = joint - np.maximum(own[block], 0.0).sum(0)
            effects[block] += np.maximum(rest, 0.0) / len(block)
        return _Effects(own, effects)

    def _choose_singles(self, blocks: Sequence[Ids], effects: Floats) -> Ids:
        """The units of the blocks with an effect, and of some others."""
        if len(blocks[0]) == 1:
            return np.array([], dtype=np.int64)
        shares = self._shares(effects)
        count = max(int((shares >= NOISE).sum()), -(-FEWEST_SINGLE // len(blocks[0])))
        return np.sort(np.concatenate([blocks[i] for i in np.argsort(-shares, kind="stable")[:count]]))

    # --- choices ---

    def _choose(self, measures: Sequence[_Effects], clear: Mask, most: int) -> Mask:
        """The units that are kept; without all others the output loses little."""
        order, shown = self._order(measures)
        first, rest = np.split(order, [min(most, max(shown, FEWEST_KEPT))])
        kept, returned = self._complete(self._mark(first, self.near), rest)
        needed = kept
        if returned:  # the measures missed them, and perhaps others that say the same
            needed = self._mark(returned, self.near | clear)
            needed, more = self._complete(needed, order[np.isin(order, np.flatnonzero(kept & ~needed))])
            returned = returned + more
        else:  # what was seen in a block alone may stand elsewhere, without a partner beside it
            returned = self._find_needed(kept, first[self._own_share(measures)[first] < NOISE])
        for unit in returned[:MOST_SUBSTITUTED]:
            kept = kept | self._find_substitutes(unit, needed)
        return kept

    def _shares(self, effects: Floats) -> Floats:
        """The largest share of each row of [rows, targets] in the largest effect on a target, [rows]."""
        return np.asarray((effects / np.maximum(effects.max(0), LEAST_EFFECT * self.nat)).max(1))

    def _own_share(self, measures: Sequence[_Effects]) -> Floats:
        """The largest share of each unit in any measure, without what it does only in its block, [units]."""
        return np.asarray(np.max([self._shares(measure.own) for measure in measures], axis=0))

    def _clear(self, measures: Sequence[_Effects], most: int) -> Mask:
        """The units with a clear effect in any measure, at most half of `most`, [units]."""
        share = self._own_share(measures)
        share[self.near] = 0.0
        clear = np.zeros(len(self.units), dtype=np.bool_)
        clear[np.argsort(-share, kind="stable")[: most // 2]] = True
        return np.asarray(clear & (share >= CLEAR))

    def _order(self, measures: Sequence[_Effects]) -> tuple[Ids, int]:
        """The units that are not near, and how many of them show an effect.

        First come the best of each measure, then the second of each, …, and last those without an effect.
        """
        shares = np.array([self._shares(measure.effects)[self.far] for measure in measures])  # [measures, units]
        ranks = np.argsort(np.argsort(-shares, axis=1, kind="stable"), axis=1, kind="stable")
        best = np.where(shares >= NOISE, ranks, len(self.far)).min(0)
        return self.far[np.lexsort((-shares.max(0), best))], int((best < len(self.far)).sum())

    def _joint(self, kept: Mask) -> Floats:
        """What each output unit loses without all units that are not kept, [outputs]."""
        key = kept.tobytes()
        if key not in self.joint:
            self.joint[key] = np.zeros(len(self.case.output)) if kept.all() else self._drops(~kept[None])[0]
        return self.joint[key]

    def _passes(self, kept: Mask) -> bool:
        return bool((self._joint(kept) @ self.sums <= self.tolerated).all())

    def _mark(self, units: Sequence[int] | Ids, kept: Mask) -> Mask:
        """`kept` and these units."""
        more = kept.copy()
        more[units] = True
        return more

    def _complete(self, kept: Mask, rest: Ids) -> tuple[Mask, list[int]]:
        """`kept` and those units of `rest` without which it does not pass the test; all of them pass it."""
        returned: list[int] = []
        while not self._passes(kept):
            enough = self._count_enough(kept, rest)
            if len(returned) == MOST_RETURNED:
                return self._mark(rest[:enough], kept), returned
            returned.append(int(rest[enough - 1]))
            kept, rest = self._mark(returned, kept), rest[: enough - 1]
        return kept, returned

    def _count_enough(self, kept: Mask, rest: Ids) -> int:
        """How many of the rest must return to pass the test, by bisection; all of them restore the answer."""
        too_few, enough = 0, len(rest)
        while enough - too_few > 1:
            middle = min(max(2 * too_few, MOST_OF_FEW), (too_few + enough) // 2)
            if self._passes(self._mark(rest[:middle], kept)):
                enough = middle
            else:
                too_few = middle
        return enough

    def _find_needed(self, kept: Mask, units: Ids) -> list[int]:
        """Which of some units the others that are kept cannot do without."""
        if not len(units):
            return []
        without = np.array([kept & (np.arange(len(kept)) != unit) for unit in units])
        passes = (self._drops(~without) @ self.sums <= self.tolerated).all(1)
        return [int(unit) for unit in units[~passes]]

    def _find_substitutes(self, unit: int, needed: Mask) -> Mask:
        """The units that make up for one of the needed units: another place where the same is said, [units]."""
        base = needed & (np.arange(len(needed)) != unit)
        share = self._shares(self._keep_with(base).effects)
        return np.asarray((share >= SUBSTITUTE) & (share >= SUBSTITUTE * share[unit]) & ~base)


def _cut(units: Ids) -> list[Ids]:
    """Blocks of neighbouring units: so few units in each that blocks and units take about the same number of probes."""
    size = max(1, round(np.sqrt(len(units) / BLOCKS_PER_UNIT)))
    return np.array_split(units, -(-len(units) // size)) if len(units) else []


def _find_near(case: Case, units: Ids, tokens: int) -> Mask:
    """Units that start close to the output, and a unit directly before it, [units]."""
    prompt = int(case.unit_starts[len(case.input)])
    starts, ends = case.unit_starts[units], case.unit_starts[units + 1]
    return np.asarray((starts >= prompt - tokens) | (ends == prompt))


def _sum_targets(case: Case, targets: Sequence[Sequence[int]] | None) -> Floats:
    """The output units that are added to each target, as a matrix [outputs, targets]."""
    if targets is None:
        rows = [[t] for t in case.required_rows]
        targets = [*rows, [t for row in rows for t in row]] if len(rows) > 1 else rows
    sums = np.zeros((len(case.output), len(targets)))
    for column, members in enumerate(targets):
        sums[list(members), column] = 1.0
    return sums
