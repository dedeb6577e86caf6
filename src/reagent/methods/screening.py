"""Screening: the few units of a long prompt that can matter, found at the cost of a few passes.

Two measurements mirror each other. Each looks at every unit, and both are cheap:

alone    The unit is kept alone: all other units are deleted. The texts are short, and the measurement is exact. It
         finds units that are sufficient, also if a fact is stated several times.
hidden   The unit is hidden in the keys and values of the full text, and only the text after the last unit (question,
         template, answer) is read again. It finds units that are necessary. The other units have already read the
         hidden one, so that the effect is approximate: it is used to choose units, not to report them. A model that
         cannot hide (see `HidesPrefix`) is screened without it.

If the units with a clear effect do not carry the answer, others are needed beside them: each unit is then kept together
with the clear ones. This finds a fact that is stated several times and that needs another fact.

The best units by any measure are kept. Then one probe deletes all others together. If the answer loses more than is
tolerated, units are missing: those whose return restores the answer are found by bisection, with their substitutes, and
the test is repeated. The result has therefore always passed its test, if need be because everything is kept.

Units directly before the output ask the question. They are always kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.methods.base import Progress, ProgressCallback, no_progress
from reagent.models.base import HidesPrefix, Model, response_of
from reagent.removal import Delete
from reagent.validation import check_range

MANY_UNITS = 32  # of fewer units, all are kept
KEEP = 0.1  # share of the units
FEWEST_KEPT = 6
NEAR_TOKENS = 32  # before the output: units that start there are always kept
TOLERATED_SHARE = 0.1  # of what a target loses without all units …
TOLERATED_NATS = 0.7  # … or this, if it is more
LEAST_EFFECT = 1.0  # nats: targets with a smaller largest effect count less when units are chosen
NOISE = 0.1  # share of the largest effect: smaller effects give a unit no rank
CLEAR = 0.3  # … and from this share on, an effect is clear
SUBSTITUTE = 0.5  # … and a unit makes up for another one
MOST_SUBSTITUTED = 3  # units whose substitutes are looked for
MOST_TEXTS = 256  # for units kept alone, if the model cannot hide units: more units are kept in blocks
MOST_RETURNED = 8  # units that are found one by one if the test fails
BATCH = 64  # texts between two reports of progress


@dataclass(frozen=True)
class Screen:
    """Which units are kept, and what was measured.

    Values are in nats, for each output unit; `Case.output_scores` says what the value of a unit is.
    """

    units: Ids  # units of the prompt that can be removed: indices into `case.units`
    kept: Mask  # [units]
    near: Mask  # [units]: always kept, and not measured
    alone: Floats  # [units, outputs]: what the unit adds if all others are deleted
    hidden: Floats | None  # [units, outputs]: what is lost if the unit is hidden; None if the model cannot hide
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
        self.begin, self.done, self.planned = model.meter.forward_passes, 0, 3 + 2 * len(self.far)

    def run(self, keep: float) -> Screen:
        size = max(FEWEST_KEPT, round(keep * len(self.units)))
        outputs = len(self.case.output)
        if len(self.far) < MANY_UNITS or size >= len(self.far):
            zeros = np.zeros((len(self.units), outputs))
            everything = np.ones(len(self.units), dtype=np.bool_)
            return Screen(self.units, everything, self.near, zeros, None, zeros[0], zeros[0], self.sums, 0)
        hidden = self._hide()  # first, while the model still has the keys and values of the whole text
        nothing = self._joint(self.near)
        self.tolerated = np.maximum(TOLERATED_NATS * self.nat, TOLERATED_SHARE * nothing @ self.sums)
        alone = self._keep_with(self.near)
        measures = [alone] if hidden is None else [hidden, alone]
        clear = self._clear(measures, size)
        if clear.any() and not self._passes(self.near | clear):  # something is needed beside the clear units
            measures.append(self._keep_with(self.near | clear))
        order = self._order(measures)
        kept, returned = self._complete(self._mark(order[:size], self.near), order[size:])
        if returned:  # the measures missed them, and perhaps others that say the same
            needed = self._mark(returned, self.near | clear)
            needed, more = self._complete(needed, order[np.isin(order, np.flatnonzero(kept & ~needed))])
            for unit in (*returned, *more)[:MOST_SUBSTITUTED]:
                kept |= self._find_substitutes(unit, needed)
        joint = self._joint(kept)
        passes = self.model.meter.forward_passes - self.begin
        self.on_progress(Progress(self.done, self.done, "probes"))
        return Screen(self.units, kept, self.near, alone, hidden, joint, nothing, self.sums, passes, self.nat)

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

    def _keep_with(self, base: Mask) -> Floats:
        """What each unit adds if only it and `base` are kept, [units, outputs]; of many units, what its block adds."""
        others = np.flatnonzero(~base)
        count = len(others) if isinstance(self.model, HidesPrefix) else min(len(others), MOST_TEXTS)
        blocks = np.array_split(others, count)
        kept = np.tile(base, (count, 1))
        for row, block in zip(kept, blocks, strict=True):
            row[block] = True
        gains = np.zeros((len(self.units), len(self.case.output)))
        added = self._joint(base) - self._drops(~kept)
        gains[others] = np.repeat(added, [len(block) for block in blocks], axis=0)
        return gains

    def _hide(self) -> Floats | None:
        """What each unit costs if it is hidden from the text after the last unit, [units, outputs]."""
        if not isinstance(self.model, HidesPrefix):
            return None
        case, numbers = self.case, self.units[self.far]
        end = int(case.unit_starts[numbers[-1] + 1])
        lost = np.zeros((len(self.units), len(case.output)))
        for begin in range(0, len(numbers), BATCH):
            some = slice(begin, begin + BATCH)
            hidden = case.unit_of[:end] == numbers[some, None]
            scores = self.model.score_hidden(case.ids, hidden, case.positions, case.targets)
            if scores is None:
                return None
            lost[self.far[some]] = case.values - case.output_scores(scores).value
            self._report(len(hidden))
        return lost

    # --- choices ---

    def _shares(self, measure: Floats) -> Floats:
        """The largest share of each unit in the largest effect on a target, [units]."""
        effects = measure @ self.sums  # [units, targets]
        effects = effects - np.median(effects[self.far], axis=0)  # what every unit does, because it is some text
        return np.asarray((effects / np.maximum(effects[self.far].max(0), LEAST_EFFECT * self.nat)).max(1))

    def _clear(self, measures: Sequence[Floats], size: int) -> Mask:
        """The units with a clear effect in any measure, at most half of `size`, [units]."""
        share = np.max([self._shares(measure) for measure in measures], axis=0)
        share[self.near] = 0.0
        clear = np.zeros(len(self.units), dtype=np.bool_)
        clear[np.argsort(-share, kind="stable")[: size // 2]] = True
        return np.asarray(clear & (share >= CLEAR))

    def _order(self, measures: Sequence[Floats]) -> Ids:
        """The units that are not near: the first of each measure, the second of each, …, then those without effect."""
        shares = np.array([self._shares(measure)[self.far] for measure in measures])  # [measures, units]
        ranks = np.argsort(np.argsort(-shares, axis=1, kind="stable"), axis=1, kind="stable")
        best = np.where(shares >= NOISE, ranks, len(self.far)).min(0)
        return self.far[np.lexsort((-shares.max(0), best))]

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
            middle = min(max(2 * too_few, FEWEST_KEPT), (too_few + enough) // 2)
            if self._passes(self._mark(rest[:middle], kept)):
                enough = middle
            else:
                too_few = middle
        return enough

    def _find_substitutes(self, unit: int, needed: Mask) -> Mask:
        """The units that make up for one of the needed units: another place where the same is said, [units]."""
        base = needed & (np.arange(len(needed)) != unit)
        share = self._shares(self._keep_with(base))
        return np.asarray((share >= SUBSTITUTE) & (share >= SUBSTITUTE * share[unit]) & ~base)


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
