"""What several methods share: dealing replacements, asking what they cost, and the rows of the answer."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from reagent.case import Case, Floats, Ids, Mask, TargetScores
from reagent.methods.base import Attribution, Progress, ProgressCallback
from reagent.methods.effects import stretch
from reagent.methods.normalization import share
from reagent.models.base import Meter, Model
from reagent.replacers.base import Proposals

BLOCK = 64  # sequences asked at once, and between two reports of progress


def dealt(draws: int, size: int, rng: np.random.Generator) -> Floats:
    """Numbers in [0, 1) that choose among proposals, [draws, size].

    Those of one unit fall once into each of `draws` equal parts, so that its proposals are used evenly.

    >>> np.sort((4 * dealt(4, 2, np.random.default_rng(0))).astype(int), axis=0).T.tolist()
    [[0, 1, 2, 3], [0, 1, 2, 3]]
    """
    part = rng.permuted(np.tile(np.arange(draws)[:, None], size), axis=0)
    return np.asarray((part + rng.random((draws, size))) / draws)


@dataclass
class Probing:
    """Asks about texts in which some units are replaced, for all output units at once, and tells how far it is."""

    model: Model
    case: Case
    proposals: Proposals
    report: ProgressCallback
    total: int = 0
    done: int = field(default=0, init=False)

    @property
    def free(self) -> Ids:
        """The units that can be replaced and stand before some target."""
        return np.flatnonzero(self.proposals.replaceable[:-1])

    def costs(self, replaced: Mask, columns: Ids) -> Floats:
        """What replacing the marked free units costs each target, [rows, targets]; one pass for each row."""
        columns = np.broadcast_to(columns, replaced.shape)
        return self._in_blocks(
            len(replaced),
            lambda rows: self.proposals.apply(replaced[rows], columns[rows], self.free),
            lambda sequences: self.case.score_outputs(self.model, sequences).value,
        )

    def costs_without(self, units: Ids) -> Floats:
        """What leaving each of `units` out costs each target, [units, targets]; units of one length are asked at once.

        A number counts only for targets that stand after the unit and still have something before them.
        """
        sizes = np.diff(self.case.unit_starts)[units]
        costs = np.empty((len(units), len(self.case.output)))
        for size in np.unique(sizes):
            costs[sizes == size] = self._shorter(units[sizes == size], int(size))
        return costs

    def _shorter(self, units: Ids, by: int) -> Floats:
        """The same for units that all have `by` tokens."""

        def texts(some: slice) -> Ids:
            return np.array([self.case.ids[self.case.unit_of != unit] for unit in units[some]])

        def score(sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
            return self.model.score(sequences, np.maximum(positions - by, 1), targets)

        shifted = Reworded(self.model, score)
        return self._in_blocks(len(units), texts, lambda sequences: self.case.score_outputs(shifted, sequences).value)

    def _in_blocks(self, count: int, texts: Callable[[slice], Ids], ask: Callable[[Ids], Floats]) -> Floats:
        answers = [np.empty((0, len(self.case.output)))]
        for begin in range(0, count, BLOCK):
            answers.append(ask(texts(slice(begin, begin + BLOCK))))
            self.done += len(answers[-1])
            self.report(Progress(self.done, self.total, "probes"))
        return np.asarray(self.case.values - np.concatenate(answers))


class Reworded:
    """A model to which every question is put in other words."""

    def __init__(self, model: Model, score: Callable[[Ids, Ids, Ids], TargetScores]) -> None:
        self.model, self.ask = model, score
        self.meter: Meter = model.meter
        self.info, self.case = model.info, model.case

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        return self.ask(sequences, positions, targets)


def average(samples: Floats) -> tuple[Floats, Floats | None]:
    """Mean over the first axis and its standard error; none from a single sample.

    The error is stretched as Student's t of so few samples is wider than the normal distribution, so that
    ± 1.96 of it covers 95 %.

    >>> mean, error = average(np.array([1.0, 2.0, 3.0]))
    >>> round(float(mean), 2), round(float(error * 1.96), 2)  # 4.30 / √3
    (2.0, 2.48)
    """
    n, mean = len(samples), np.asarray(samples.mean(0))
    if n < 2:
        return mean, None
    return mean, np.asarray(samples.std(0, ddof=1) / np.sqrt(n) * stretch(n - 1))


def rows(case: Case, units: Ids, values: Floats) -> list[Floats]:
    """Numbers [units, targets] of some units as one row per target, with 0 for all other units before it."""
    spread = np.zeros((len(case.units), len(case.output)))
    spread[units] = values
    return [spread[: len(case.input) + t, t] for t in range(len(case.output))]


def attribution(
    case: Case, how: str, effects: list[Floats], stderr: list[Floats] | None, steps: int, probes: int
) -> Attribution:
    """Effects in nats, from a fixed number of probes, with their scores."""
    shared = [share(row, case.protected, how) for row in effects]
    return Attribution(
        scores=[scores for scores, _ in shared],
        effects=effects,
        stderr=stderr,
        effect_unit="nats",
        steps=[steps] * len(effects),
        stopped=["flat" if nothing else "fixed" for _, nothing in shared],
        runs=[],
        probes=probes,
        stopping_tests=0,
    )
