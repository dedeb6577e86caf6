"""Screening: the few units of a long prompt that can matter, found at the cost of a few passes.

Two measurements mirror each other. Each looks at every unit, and both are cheap:

alone    The unit is kept alone: all other units are deleted. The texts are short, and the measurement is exact. It
         finds units that are sufficient, also if a fact is stated several times.
hidden   The unit is hidden in the keys and values of the full text, and only the text after the last unit (question,
         template, answer) is read again. It finds units that are necessary. The other units have already read the
         hidden one, so that the effect is approximate: it is used to choose units, not to report them. A model that
         cannot hide (see `HidesPrefix`) is screened without it.

The best units by either measure are kept. Then one probe deletes all others together. If the answer loses more than
is tolerated, units are missing: those whose return restores the answer are found by bisection, and the test is
repeated. The result has therefore always passed its test, if need be because everything is kept.

Units directly before the output ask the question. They are always kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.methods.base import Progress, ProgressCallback, no_progress
from reagent.models.base import HidesPrefix, Model
from reagent.removal import Delete
from reagent.validation import check_range

MANY_UNITS = 32  # of fewer units, all are kept
KEEP = 0.1  # share of the units
FEWEST_KEPT = 6
NEAR_TOKENS = 32  # before the output: units that start there are always kept
TOLERATED_SHARE = 0.1  # of what a target loses without all units …
TOLERATED_NATS = 0.7  # … or this, if it is more
LEAST_EFFECT = 1.0  # nats: targets with a smaller largest effect count less when units are chosen
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

    def tolerates(self, lost: Floats) -> bool:
        """Whether a loss of the output units, [outputs], is small for every target."""
        allowed = np.maximum(TOLERATED_NATS, TOLERATED_SHARE * self.nothing @ self.sums)
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
        self.remover = Delete(model, case)
        self.units = self.remover.free
        self.near = _find_near(case, self.units, near)
        self.far = np.flatnonzero(~self.near)
        self.sums = _sum_targets(case, targets)
        self.begin, self.done, self.planned = model.meter.forward_passes, 0, 2 + 2 * len(self.far)

    def run(self, keep: float) -> Screen:
        size = max(FEWEST_KEPT, round(keep * len(self.units)))
        outputs = len(self.case.output)
        if len(self.far) < MANY_UNITS or size >= len(self.far):
            zeros = np.zeros((len(self.units), outputs))
            everything = np.ones(len(self.units), dtype=np.bool_)
            return Screen(self.units, everything, self.near, zeros, None, zeros[0], zeros[0], self.sums, 0)
        nothing = self._drops(~self.near[None])[0]
        alone, hidden = self._keep_alone(nothing), self._hide()
        order = self._order([alone] if hidden is None else [hidden, alone])
        tolerated = np.maximum(TOLERATED_NATS, TOLERATED_SHARE * nothing @ self.sums)
        kept, joint = self._choose(order, size, tolerated)
        passes = self.model.meter.forward_passes - self.begin
        self.on_progress(Progress(self.done, self.done, "probes"))
        return Screen(self.units, kept, self.near, alone, hidden, joint, nothing, self.sums, passes)

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

    def _keep_alone(self, nothing: Floats) -> Floats:
        """What each unit adds if all others are deleted, [units, outputs]; of many units, what its block adds."""
        count = len(self.far) if isinstance(self.model, HidesPrefix) else min(len(self.far), MOST_TEXTS)
        blocks = np.array_split(self.far, count)
        removed = np.tile(~self.near, (count, 1))
        for row, block in zip(removed, blocks, strict=True):
            row[block] = False
        gains = np.zeros((len(self.units), len(self.case.output)))
        gains[self.far] = np.repeat(nothing - self._drops(removed), [len(block) for block in blocks], axis=0)
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

    def _order(self, measures: Sequence[Floats]) -> Ids:
        """The units that are not near, the best by any measure first: the first of each, the second of each, …"""
        ranks = []
        for measure in measures:
            effects = measure[self.far] @ self.sums  # [units, targets]
            effects = effects - np.median(effects, axis=0)  # what every unit does, because it is some text
            share = (effects / np.maximum(effects.max(0), LEAST_EFFECT)).max(1)
            ranks.append(np.argsort(np.argsort(-share, kind="stable"), kind="stable"))
        return self.far[np.lexsort((np.sum(ranks, axis=0), np.min(ranks, axis=0)))]

    def _choose(self, order: Ids, size: int, tolerated: Floats) -> tuple[Mask, Floats]:
        """The units to keep, and what the output loses without all others."""
        joint: dict[bytes, Floats] = {}

        def passes(kept: Mask) -> bool:
            if kept.all():
                joint[kept.tobytes()] = np.zeros(len(self.case.output))
            elif kept.tobytes() not in joint:
                joint[kept.tobytes()] = self._drops(~kept[None])[0]
            return bool((joint[kept.tobytes()] @ self.sums <= tolerated).all())

        def add(kept: Mask, units: Ids) -> Mask:
            more = kept.copy()
            more[units] = True
            return more

        kept, rest = add(self.near, order[:size]), order[size:]
        for _ in range(MOST_RETURNED):
            if passes(kept):
                return kept, joint[kept.tobytes()]
            too_few, enough = 0, len(rest)  # of the rest that must return; all of it restores the answer
            while enough - too_few > 1:
                middle = min(max(2 * too_few, size), (too_few + enough) // 2)
                if passes(add(kept, rest[:middle])):
                    enough = middle
                else:
                    too_few = middle
            whole = add(kept, rest[:enough])
            kept, rest = add(kept, rest[enough - 1 : enough]), rest[: enough - 1]
        kept = kept if passes(kept) else whole
        passes(kept)
        return kept, joint[kept.tobytes()]


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
