"""Greedy rationales (after Vafa et al., "Rationales for Sequential Predictions", 2021): which few units suffice?

With nothing but the protected units in place, add the unit that makes the target likeliest, again and
again, until the target is what the model predicts. What was added is its rationale, in that order.

The published method fine-tunes the model first, so that it can read texts with gaps. Here it is left as
it is, and there are two ways to take a unit away:

- replacement: a proposal stands in its place. A few draws are fixed beforehand, the target's
  log-probability is averaged over them, and it counts as predicted when it is so in most of them.
- masking: attention looks away from it, and all others keep their positions, as published. The prediction
  is read off the last unit, which is therefore always part of the rationale; nobody chose it, so it comes
  last in the order, and has no effect to report.

A target that is not the model's prediction even with the whole context can at best keep its rank: the
search then ends when its rank is no worse than with the whole context, and the row is flagged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, islice
from math import comb
from typing import Any, NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, Mask, OutputScores
from reagent.errors import InputError, UnknownNameError
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.probing import BLOCK, Reworded, dealt
from reagent.models.base import HasAttentionMask, Model, require_attention_mask
from reagent.replacers.base import Proposals
from reagent.validation import check_integer

WAYS = ("replacement", "masking")
TIE = 5  # decimals of a nat: of units that differ by less, the first is added


@dataclass(frozen=True)
class Greedy:
    """How units are taken away, and when the rationale is complete."""

    by: str = "replacement"  # or masking
    draws: int = 3  # replacements that stand in for all other units; masking has only one way
    top_k: int = 1  # the target must be among the model's k likeliest tokens
    exhaustive: bool = False  # then search all smaller sets too, for the smallest there is
    max_subsets: int = 20_000  # how many sets that may be, for one target

    def __post_init__(self) -> None:
        if self.by not in WAYS:
            raise UnknownNameError("way to take a unit away", self.by, WAYS)
        for name in ("draws", "top_k", "max_subsets"):
            check_integer("method 'greedy'", name, getattr(self, name), 1)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "scores": "1 / place in the order of the rationale, over their sum"}

    @property
    def replaces(self) -> bool:
        """Whether it needs something to stand in for a unit."""
        return self.by == "replacement"

    def check(self, model: Model) -> None:
        if self.by == "masking":
            require_attention_mask(model, "method 'greedy' by masking")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain every output unit, one after another. `steps` is the length of each rationale."""
        masks = require_attention_mask(model, "method 'greedy' by masking") if self.by == "masking" else None
        units = len(case.units)
        columns = proposals.choose(dealt(self.draws, units, rng)) if masks is None else np.zeros((1, units), np.int64)
        work = _Work(report, case, len(columns))
        found = []
        for t in range(len(case.output)):
            if t not in case.explained_rows:
                found.append(_unasked(case.protected[: len(case.input) + t]))
                continue
            sets = _Sets(model, case.for_target(t), proposals, columns, masks, work)
            found.append(self._rationale(sets))
            work.finish(t)
        return Attribution(
            scores=[rationale.scores for rationale in found],
            effects=[rationale.effects for rationale in found],
            effect_unit="nats",
            steps=[rationale.length for rationale in found],
            stopped=[rationale.stopped for rationale in found],
            runs=[],
            probes=work.done - work.tests,
            stopping_tests=work.tests,
        )

    def _rationale(self, sets: "_Sets") -> "_Rationale":
        rank = sets.whole()
        sets.enough = max(self.top_k, rank + 1)
        order = _grow(sets, range(len(sets.free)))
        if self.exhaustive:
            order = _grow(sets, _smallest(sets, len(order.units), self.max_subsets) or order.units)
        return sets.rationale(order, relaxed=rank >= self.top_k)


class _Order(NamedTuple):
    """What was added, one after another, and by how many nats that raised the target."""

    units: list[int]  # indices of free units
    gains: list[float]


class _Rationale(NamedTuple):
    """One row of the answer."""

    scores: Floats
    effects: Floats
    length: int
    stopped: str


def _unasked(protected: Mask) -> _Rationale:
    return _Rationale(~protected / max((~protected).sum(), 1), np.zeros(len(protected)), 0, "unasked")


def _grow(sets: "_Sets", among: Sequence[int]) -> _Order:
    """Add the unit that helps most until the target is predicted; only units of `among` are tried."""
    kept = np.zeros((1, len(sets.free)), dtype=np.bool_)
    units: list[int] = []
    gains: list[float] = []
    (value,), (predicted,) = sets.ask(kept)
    while not predicted and len(units) < len(among):
        rest = [unit for unit in among if unit not in units]
        tried = np.repeat(kept, len(rest), axis=0)
        tried[np.arange(len(rest)), rest] = True
        values, enough = sets.ask(tried)
        best = int(np.argmax(np.round(values, TIE)))
        units.append(rest[best])
        gains.append(float(values[best] - value))
        kept, value, predicted = tried[[best]], values[best], enough[best]
    return _Order(units, gains)


def _smallest(sets: "_Sets", found: int, most: int) -> list[int]:
    """The smallest set of less than `found` units that predicts the target, the best of its size; else none."""
    n = len(sets.free)
    count = sum(comb(n, size) for size in range(1, found))
    if count > most:
        raise InputError(
            f"the smallest rationale of {sets.case.completion!r} may be any of {count} sets of less than {found} of "
            f"its {n} units, more than max_subsets = {most}: shorten the prompt, take larger units or allow more"
        )
    sets.work.total += count * len(sets.columns)
    for size in range(1, found):
        best: tuple[float, list[int]] | None = None
        for some in _blocks(combinations(range(n), size)):
            kept = np.zeros((len(some), n), dtype=np.bool_)
            kept[np.arange(len(some))[:, None], some] = True
            values, predicted = sets.ask(kept)
            for i in np.flatnonzero(predicted):
                if best is None or values[i] > best[0]:
                    best = float(values[i]), list(some[i])
        if best is not None:
            return best[1]
    return []


def rationale_ratio(found: Sequence[int], smallest: Sequence[int]) -> float:
    """How many times longer rationales are than they need be: the mean ratio of lengths over targets.

    The lengths are `steps` of a search, and of the same search with `exhaustive=True` and the same seed. A
    rationale of no unit is as short as can be.

    >>> rationale_ratio([3, 2, 0], [2, 2, 0])
    1.1666666666666667
    """
    return float(np.mean([a / b if b else 1.0 for a, b in zip(found, smallest, strict=True)]))


@dataclass
class _Sets:
    """Sets of context units, and what the model makes of one target when only these are in place."""

    model: Model
    case: Case  # with one output unit alone
    proposals: Proposals
    columns: Ids  # [draws, units] of the whole text
    masks: HasAttentionMask | None
    work: "_Work"
    enough: int = 1  # the target counts as predicted below this rank
    known: dict[bytes, tuple[float, bool]] = field(default_factory=dict)  # a set is asked about once

    def __post_init__(self) -> None:
        n = len(self.case.input)
        held = self.case.input[-1]  # the prediction is read off it
        away = ~self.case.protected[:n] if self.masks else self.proposals.replaceable[:n].copy()
        self.held = n - 1 if self.masks and not held.protected else None
        if self.held is not None:
            away[self.held] = False
        self.free: Ids = np.flatnonzero(away)

    def whole(self) -> int:
        """The rank of the target with the whole context."""
        self.work.add(1, tests=1)
        return int(self.case.score_outputs(self.model, self.case.ids[None]).rank[0, 0])

    def ask(self, kept: Mask) -> tuple[Floats, Mask]:
        """Value of the target with the sets [batch, free units] in place, and whether it is predicted."""
        keys = [row.tobytes() for row in kept]
        new = [i for i, key in enumerate(keys) if key not in self.known]
        step = max(1, BLOCK // len(self.columns))
        for begin in range(0, len(new), step):
            some = new[begin : begin + step]
            answers = self._masked(kept[some]) if self.masks else self._replaced(kept[some])
            self.work.add(len(answers.value), tests=0)
            values = answers.value.reshape(len(some), -1).mean(1)  # over draws
            predicted = (answers.rank < self.enough).reshape(len(some), -1).mean(1) > 0.5
            self.known.update(zip((keys[i] for i in some), zip(values, predicted, strict=True), strict=True))
        values, predicted = zip(*(self.known[key] for key in keys), strict=True)
        return np.array(values), np.array(predicted)

    def _replaced(self, kept: Mask) -> OutputScores:
        draws = len(self.columns)
        columns = np.tile(self.columns[:, self.free], (len(kept), 1))  # [batch · draws, free units]
        sequences = self.proposals.apply(~np.repeat(kept, draws, axis=0), columns, self.free)
        return self.case.score_outputs(self.model, sequences[:, : len(self.case.ids)])

    def _masked(self, kept: Mask) -> OutputScores:
        assert self.masks is not None
        visible = np.ones((len(kept), len(self.case.units)), dtype=np.bool_)
        visible[:, self.free] = kept
        keep, masks = visible[:, self.case.unit_of], self.masks  # [batch, length]
        looking_away = Reworded(self.model, lambda s, p, t: masks.score_masked(s, keep, p, t))
        return self.case.score_outputs(looking_away, np.tile(self.case.ids, (len(kept), 1)))

    def rationale(self, order: _Order, relaxed: bool) -> _Rationale:
        """As scores: 1 over the place in the order, the unit that must stay last; as effects: the gains."""
        units = [int(self.free[i]) for i in order.units] + ([] if self.held is None else [self.held])
        scores, effects = np.zeros((2, len(self.case.input)))
        effects[units[: len(order.gains)]] = order.gains
        if units:
            scores[units] = 1 / np.arange(1, len(units) + 1)
        else:
            scores[~self.case.protected[: len(scores)]] = 1.0
        stopped = "empty" if not units else "relaxed" if relaxed else "condition"
        return _Rationale(scores / scores.sum(), effects, len(units), stopped)


class _Work:
    """Counts passes, and tells how many are left at most: n + … + 1 sets for a target that needs all its n units."""

    def __init__(self, report: ProgressCallback, case: Case, draws: int) -> None:
        self.report, self.done, self.tests = report, 0, 0
        sizes = np.arange(len(case.input), len(case.units))
        self.most = 1 + draws * (1 + sizes * (sizes + 1) // 2)  # of each target
        self.most[[t for t in range(len(sizes)) if t not in case.explained_rows]] = 0
        self.total = int(self.most.sum())

    def add(self, passes: int, tests: int) -> None:
        self.done += passes
        self.tests += tests
        self.total = max(self.total, self.done)
        self.report(Progress(self.done, self.total, "passes"))

    def finish(self, target: int) -> None:
        self.total = self.done + int(self.most[target + 1 :].sum())


def _blocks(sets: Iterator[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    while some := list(islice(sets, 1024)):
        yield some
