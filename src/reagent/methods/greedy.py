"""Greedy rationales (after Vafa et al., "Rationales for Sequential Predictions", 2021).

A rationale is a small set of units that suffices for the prediction. The search starts with the protected units only
and repeatedly adds the unit that makes the target most likely, until the model predicts the target.

The published method first fine-tunes the model on texts with missing words. Here the model is not changed, and units
are removed in one of three ways (see `removal`):

- replace: removed units are replaced by proposals. A few draws are fixed in advance; the log-probability of the
  target is averaged over them, and the target counts as predicted if it is predicted in most of them.
- mask: removed units are masked in attention, and all others keep their positions, as published. The prediction is
  read at the last unit, which is therefore always part of the rationale. It is not chosen by the search, so it is the
  last in the order and has no effect.
- delete: removed units are left out. If no unit is kept and none is protected, the last token of the context stays.

If the model does not predict the target even with the whole context, the search ends when the rank of the target is no
worse than with the whole context, and the row is flagged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, islice
from math import comb
from typing import Any, NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.errors import InputError
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.probing import BATCH, stratified_uniform
from reagent.models.base import Model
from reagent.removal import MaskOut, Remover, check_removal, make_remover, require_removal
from reagent.replacers.base import Proposals
from reagent.validation import check_integer

TIE_DECIMALS = 5  # of a nat: among units with equal rounded values, the first is added


@dataclass(frozen=True)
class Greedy:
    """Adds the most helpful unit until the target is predicted."""

    removal: str = "replace"  # delete, mask or replace, see removal.py
    draws: int = 3  # draws of replacements; only used by replace
    top_k: int = 1  # the target must be among the k most likely tokens
    exhaustive: bool = False  # also search all smaller sets, for the smallest rationale
    max_subsets: int = 20_000  # limit of the exhaustive search, for one target

    def __post_init__(self) -> None:
        check_removal(self.removal)
        for name in ("draws", "top_k", "max_subsets"):
            check_integer("method 'greedy'", name, getattr(self, name), 1)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "scores": "1 / place in the order of the rationale, over their sum"}

    @property
    def replaces(self) -> bool:
        """Whether the method needs a replacer."""
        return self.removal == "replace"

    def check(self, model: Model) -> None:
        require_removal(model, self.removal, "method 'greedy'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain every output unit, one after another. `steps` is the length of each rationale."""
        self.check(model)
        uniform = stratified_uniform(self.draws if self.replaces else 1, len(case.units), rng)  # [draws, units]
        meter = _PassMeter(on_progress, case, len(uniform))
        rationales = []
        for t in range(len(case.output)):
            if t not in case.explained_rows:
                rationales.append(_uniform_row(case.protected[: len(case.input) + t]))
                continue
            context = case.for_target(t)
            remover = make_remover(self.removal, model, context, proposals)
            rationales.append(self._search(_SubsetScorer(model, context, remover, uniform, meter)))
            meter.finish(t)
        return Attribution(
            scores=[rationale.scores for rationale in rationales],
            effects=[rationale.effects for rationale in rationales],
            effect_unit="nats",
            steps=[rationale.length for rationale in rationales],
            stopped=[rationale.stopped for rationale in rationales],
            runs=[],
            probes=meter.done - meter.tests,
            stopping_tests=meter.tests,
        )

    def _search(self, subsets: "_SubsetScorer") -> "_Rationale":
        rank = subsets.original_rank()
        subsets.max_rank = max(self.top_k, rank + 1)
        order = _add_greedily(subsets, range(len(subsets.free)))
        if self.exhaustive:
            smallest = _smallest_subset(subsets, len(order.units), self.max_subsets)
            order = _add_greedily(subsets, smallest or order.units)
        return subsets.rationale(order, relaxed=rank >= self.top_k)


class _Order(NamedTuple):
    """Units in the order in which they were added, and the gain in the value of the target from each, in nats."""

    units: list[int]  # indices of free units
    gains: list[float]


class _Rationale(NamedTuple):
    """The rationale of one target, as a row of the attribution."""

    scores: Floats
    effects: Floats
    length: int
    stopped: str


def _uniform_row(protected: Mask) -> _Rationale:
    return _Rationale(~protected / max((~protected).sum(), 1), np.zeros(len(protected)), 0, "unasked")


def _add_greedily(subsets: "_SubsetScorer", candidates: Sequence[int]) -> _Order:
    """Add the most helpful of the `candidates` until the target is predicted or all are added."""
    kept = np.zeros((1, len(subsets.free)), dtype=np.bool_)
    units: list[int] = []
    gains: list[float] = []
    (value,), (predicted,) = subsets.score(kept)
    while not predicted and len(units) < len(candidates):
        rest = [unit for unit in candidates if unit not in units]
        extended = np.repeat(kept, len(rest), axis=0)
        extended[np.arange(len(rest)), rest] = True
        values, enough = subsets.score(extended)
        best = int(np.argmax(np.round(values, TIE_DECIMALS)))
        units.append(rest[best])
        gains.append(float(values[best] - value))
        kept, value, predicted = extended[[best]], values[best], enough[best]
    return _Order(units, gains)


def _smallest_subset(subsets: "_SubsetScorer", greedy_size: int, max_subsets: int) -> list[int]:
    """The smallest set of fewer than `greedy_size` units that predicts the target, the best of its size; or none."""
    n = len(subsets.free)
    count = sum(comb(n, size) for size in range(1, greedy_size))
    if count > max_subsets:
        raise InputError(
            f"the smallest rationale of {subsets.case.completion!r} may be any of {count} sets of fewer than "
            f"{greedy_size} of its {n} units, more than max_subsets = {max_subsets}: shorten the prompt, use larger "
            f"units or allow more"
        )
    subsets.meter.total += count * len(subsets.uniform)
    for size in range(1, greedy_size):
        best: tuple[float, list[int]] | None = None
        for batch in _batches(combinations(range(n), size)):
            kept = np.zeros((len(batch), n), dtype=np.bool_)
            kept[np.arange(len(batch))[:, None], batch] = True
            values, predicted = subsets.score(kept)
            for i in np.flatnonzero(predicted):
                if best is None or values[i] > best[0]:
                    best = float(values[i]), list(batch[i])
        if best is not None:
            return best[1]
    return []


def rationale_ratio(lengths: Sequence[int], smallest: Sequence[int]) -> float:
    """Mean ratio over targets of the length of a rationale to the smallest possible length.

    The lengths are the `steps` of a search, and of the same search with `exhaustive=True` and the same seed. The ratio
    of an empty rationale is 1.

    >>> rationale_ratio([3, 2, 0], [2, 2, 0])
    1.1666666666666667
    """
    return float(np.mean([a / b if b else 1.0 for a, b in zip(lengths, smallest, strict=True)]))


@dataclass
class _SubsetScorer:
    """Scores one target when only a subset of its context units is kept. Each subset is scored once."""

    model: Model
    case: Case  # of one output unit only, see `Case.for_target`
    remover: Remover
    uniform: Floats  # [draws, units] of the whole text; chooses the candidates
    meter: "_PassMeter"
    max_rank: int = 1  # the target counts as predicted if its rank is below
    cache: dict[bytes, tuple[float, bool]] = field(default_factory=dict)

    @property
    def free(self) -> Ids:
        return self.remover.free

    @property
    def always_kept(self) -> int | None:
        """With masks, the unit before the target, at which the prediction is read; None if it is protected."""
        last = len(self.case.input) - 1
        is_free = isinstance(self.remover, MaskOut) and not self.case.protected[last]
        return last if is_free else None

    def original_rank(self) -> int:
        """The rank of the target with the whole context."""
        self.meter.add(1, tests=1)
        return int(self.case.score_outputs(self.model, self.case.ids[None]).rank[0, 0])

    def score(self, kept: Mask) -> tuple[Floats, Mask]:
        """Value of the target for each subset [batch, free units], and whether the target is predicted."""
        keys = [row.tobytes() for row in kept]
        new = [i for i, key in enumerate(keys) if key not in self.cache]
        draws = len(self.uniform)
        step = max(1, BATCH // draws)
        for begin in range(0, len(new), step):
            batch = new[begin : begin + step]
            uniform = np.tile(self.uniform[:, self.free], (len(batch), 1))  # [batch · draws, free units]
            outputs = self.remover.score(~np.repeat(kept[batch], draws, axis=0), uniform)
            self.meter.add(len(outputs.value), tests=0)
            values = outputs.value.reshape(len(batch), -1).mean(1)  # over draws
            predicted = (outputs.rank < self.max_rank).reshape(len(batch), -1).mean(1) > 0.5
            self.cache.update(zip((keys[i] for i in batch), zip(values, predicted, strict=True), strict=True))
        values, predicted = zip(*(self.cache[key] for key in keys), strict=True)
        return np.array(values), np.array(predicted)

    def rationale(self, order: _Order, relaxed: bool) -> _Rationale:
        """Scores are 1 / position in the order, with the unit that is always kept last; effects are the gains."""
        units = [int(self.free[i]) for i in order.units] + ([] if self.always_kept is None else [self.always_kept])
        scores, effects = np.zeros((2, len(self.case.input)))
        effects[units[: len(order.gains)]] = order.gains
        if units:
            scores[units] = 1 / np.arange(1, len(units) + 1)
        else:
            scores[~self.case.protected[: len(scores)]] = 1.0
        stopped = "empty" if not units else "relaxed" if relaxed else "condition"
        return _Rationale(scores / scores.sum(), effects, len(units), stopped)


class _PassMeter:
    """Counts passes, and reports progress against the largest possible number.

    A target that needs all its n units takes n + … + 1 subsets.
    """

    def __init__(self, on_progress: ProgressCallback, case: Case, draws: int) -> None:
        self.on_progress, self.done, self.tests = on_progress, 0, 0
        sizes = np.arange(len(case.input), len(case.units))
        self.max_passes = 1 + draws * (1 + sizes * (sizes + 1) // 2)  # [targets]
        self.max_passes[[t for t in range(len(sizes)) if t not in case.explained_rows]] = 0
        self.total = int(self.max_passes.sum())

    def add(self, passes: int, tests: int) -> None:
        self.done += passes
        self.tests += tests
        self.total = max(self.total, self.done)
        self.on_progress(Progress(self.done, self.total, "passes"))

    def finish(self, target: int) -> None:
        """Reduce the total to the passes so far plus the most that later targets can take."""
        self.total = self.done + int(self.max_passes[target + 1 :].sum())


def _batches(subsets: Iterator[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    while batch := list(islice(subsets, 1024)):
        yield batch
