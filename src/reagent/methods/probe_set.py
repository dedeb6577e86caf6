"""ProbeSet: all probes of one explanation, with the drop and the rank of every target."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.methods.base import Progress, ProgressCallback
from reagent.methods.probing import mean_and_stderr
from reagent.methods.substitution import measure_substitutions
from reagent.models.base import HasSamplingNoise, response_of
from reagent.removal import Remover

BATCH = 64  # probes scored between two reports of progress
DRAWS = 3  # of replacements, for the effect of one set of units
DECIMALS = 4  # of a drop in nats: the cut of the batches changes later ones, and the search must not depend on it


class Measurement(NamedTuple):
    """What a target loses when a set of units is removed."""

    drop: float
    stderr: float
    rank: int  # of the target; of several draws, the median


@dataclass
class ProbeSet:
    """Probes within a budget. A set of units is scored once, or `DRAWS` times if removal is random.

    The targets are the output units. If the case asks about the whole answer, that is a further target, the last one:
    its log-probability is the sum over the output units, its rank the worst of theirs.
    """

    remover: Remover
    case: Case
    budget: int
    rng: np.random.Generator
    on_progress: ProgressCallback
    removed: Mask = field(init=False)  # [probes, free units]
    drops: Floats = field(init=False)  # [probes, targets]
    ranks: Ids = field(init=False)  # [probes, targets]

    def __post_init__(self) -> None:
        outputs = len(self.case.output)
        self.free = self.remover.free
        self.whole = outputs if self.case.asks_about_the_whole_answer else None
        self.before = np.searchsorted(self.free, len(self.case.input) + np.arange(outputs))  # free units before targets
        if self.whole is not None:
            self.before, outputs = np.append(self.before, self.before[0]), outputs + 1
        self.removed = np.empty((0, len(self.free)), dtype=np.bool_)
        self.drops, self.ranks = np.empty((0, outputs)), np.empty((0, outputs), dtype=np.int64)
        self.substituted = np.zeros((len(self.free), outputs))  # [units, targets]; 0 if it was not measured
        self._substitutions = 0
        self._rows: dict[bytes, list[int]] = {}

    @property
    def spent(self) -> int:
        return len(self.removed) + self._substitutions

    @property
    def remaining(self) -> int:
        return self.budget - self.spent

    @property
    def draws(self) -> int:
        """How often the effect of one set is measured."""
        return DRAWS if self.remover.is_random else 1

    def measure(self, sets: Mask, draws: int | None = None) -> None:
        """Score each set until it has `draws` probes, by default once more; sets beyond the budget are left out.

        Without random removal a second probe would say the same, so there is never one.
        """
        rows: list[Mask] = []
        for row in sets:
            count = len(self._rows.get(row.tobytes(), ()))
            wanted = 1 if not self.remover.is_random else count + 1 if draws is None else draws
            for _ in range(min(wanted - count, self.remaining - len(rows)) if row.any() else 0):
                self._rows.setdefault(row.tobytes(), []).append(len(self.removed) + len(rows))
                rows.append(row)
        for begin in range(0, len(rows), BATCH):
            self._score(np.array(rows[begin : begin + BATCH]))

    def _score(self, removed: Mask) -> None:
        scores = self.remover.score(removed, self.rng.random(removed.shape))
        drops, ranks = self._with_whole((self.case.values - scores.value).round(DECIMALS)), scores.rank
        if self.whole is not None:
            ranks = np.append(ranks, ranks.max(1, keepdims=True), axis=1)
        self.removed = np.concatenate([self.removed, removed])
        self.drops, self.ranks = np.concatenate([self.drops, drops]), np.concatenate([self.ranks, ranks])
        self.report()

    def _with_whole(self, drops: Floats) -> Floats:
        """The drops of all targets from those of the output units."""
        return drops if self.whole is None else np.append(drops, drops.sum(1, keepdims=True), axis=1)

    def substitute(self, units: Sequence[int]) -> None:
        """Replace each of the units alone by another unit of the text; units beyond the budget are left out."""
        found, drops = measure_substitutions(
            self.remover.model, self.case, self.free, units[: self.remaining], self.rng
        )
        self.substituted[found] = self._with_whole(drops.round(DECIMALS))
        self._substitutions += len(found)
        self.report()

    def report(self) -> None:
        """Report the progress."""
        self.on_progress(Progress(self.spent, self.budget, "probes"))

    def is_measured(self, removed: Mask) -> bool:
        """Whether a set has all its draws."""
        return not removed.any() or len(self._rows.get(removed.tobytes(), ())) >= self.draws

    def result(self, removed: Mask, target: int) -> Measurement | None:
        """What was measured for a set and a target; None if the set was not scored."""
        if not removed.any():
            return Measurement(0.0, 0.0, 0)
        rows = self._rows.get(removed.tobytes())
        if not rows:
            return None
        mean, stderr = mean_and_stderr(self.drops[rows, target])
        noise = 0.0 if not self.remover.is_random else float("inf") if stderr is None else float(stderr)
        noise = float(np.hypot(noise, self._sampling_stderr(float(mean), target)))
        return Measurement(float(mean), noise, int(np.median(self.ranks[rows, target])))

    def _sampling_stderr(self, drop: float, target: int) -> float:
        """The part of the standard error of a drop that comes from sampled answers, here and for the whole prompt."""
        model = self.remover.model
        if not isinstance(model, HasSamplingNoise) or self.remover.is_random:
            return 0.0
        value = self.case.values[target : target + 1]
        errors = model.sampling_stderr(value - drop), model.sampling_stderr(value, unchanged=True)
        return float(np.hypot(*errors)[0])

    @property
    def nat(self) -> float:
        """The drop that a threshold of one nat stands for; 1 if values are log-probabilities."""
        return response_of(self.remover.model).nat

    @property
    def saturates(self) -> bool:
        """Whether larger removals say nothing more, see `Response`."""
        return response_of(self.remover.model).saturates

    def measured_drops(self, target: int) -> dict[bytes, float]:
        """The mean drop of every measured set of units before a target; a key is the row of the set as bytes."""
        before = self.before[target]
        drops = {np.zeros(before, np.bool_).tobytes(): 0.0}
        for rows in self._rows.values():
            row = self.removed[rows[0]]
            if not row[before:].any():
                drops[row[:before].tobytes()] = float(self.drops[rows, target].mean())
        return drops

    def set_of(self, units: Sequence[int]) -> Mask:
        """A set of free units as a row."""
        row = np.zeros(len(self.free), dtype=np.bool_)
        row[list(units)] = True
        return row

    def all_but(self, units: Sequence[int], target: int) -> Mask:
        """All free units before a target except the given ones."""
        row = np.arange(len(self.free)) < self.before[target]
        row[list(units)] = False
        return np.asarray(row)

    def known(self, target: int) -> tuple[Mask, Floats]:
        """All probes and their drops, and the unchanged text, as far as a target sees them."""
        seen = self.removed[:, : self.before[target]]
        return np.concatenate([np.zeros((1, seen.shape[1]), np.bool_), seen]), np.append(0.0, self.drops[:, target])
