"""Code shared by the perturbation methods: stratified draws, effects of probes, and rows of an Attribution."""

from dataclasses import dataclass, field

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.methods.base import Attribution, Progress, ProgressCallback
from reagent.methods.effects import t_to_normal_ratio
from reagent.methods.normalization import normalize
from reagent.removal import Remover, different_rows

BATCH = 64  # sequences scored between two reports of progress


def stratified_uniform(draws: int, size: int, rng: np.random.Generator) -> Floats:
    """Numbers in [0, 1) that choose candidates, [draws, size].

    Each column has one number in each of `draws` equal intervals, so that the candidates of a unit are used evenly.

    >>> np.sort((4 * stratified_uniform(4, 2, np.random.default_rng(0))).astype(int), axis=0).T.tolist()
    [[0, 1, 2, 3], [0, 1, 2, 3]]
    """
    stratum = rng.permuted(np.tile(np.arange(draws)[:, None], size), axis=0)
    return np.asarray((stratum + rng.random((draws, size))) / draws)


@dataclass
class ProbeRunner:
    """Scores probes in batches, for all targets at once, and reports progress."""

    remover: Remover
    case: Case
    on_progress: ProgressCallback
    total: int = 0  # probes planned
    done: int = field(default=0, init=False)

    def effects(self, removed: Mask, uniform: Floats) -> Floats:
        """Drop in the value of each target when the marked free units are removed, [probes, targets].

        `uniform` [probes, free], or one row for all probes, chooses the candidates of a random remover.
        """
        uniform = np.broadcast_to(uniform, removed.shape)
        if self.remover.is_random:
            return self._effects(removed, uniform)
        different, row_of = different_rows(removed)
        return self._effects(different, uniform)[row_of]

    def _effects(self, removed: Mask, uniform: Floats) -> Floats:
        values = [np.empty((0, len(self.case.output)))]
        for begin in range(0, len(removed), BATCH):
            batch = slice(begin, begin + BATCH)
            values.append(self.remover.score(removed[batch], uniform[batch]).value)
            self.done += len(values[-1])
            self.on_progress(Progress(self.done, self.total, "probes"))
        return np.asarray(self.case.values - np.concatenate(values))


def mean_and_stderr(samples: Floats) -> tuple[Floats, Floats | None]:
    """Mean over the first axis and its standard error; None from a single sample.

    The standard error is multiplied by the ratio of the quantiles of Student's t and of the normal distribution, so
    that ± 1.96 standard errors is a 95 % interval.

    >>> mean, stderr = mean_and_stderr(np.array([1.0, 2.0, 3.0]))
    >>> round(float(mean), 2), round(float(stderr * 1.96), 2)  # 4.30 / √3
    (2.0, 2.48)
    """
    n, mean = len(samples), np.asarray(samples.mean(0))
    if n < 2:
        return mean, None
    return mean, np.asarray(samples.std(0, ddof=1) / np.sqrt(n) * t_to_normal_ratio(n - 1))


def rows_per_target(case: Case, units: Ids, values: Floats) -> list[Floats]:
    """Values [units, targets] as one row per target; the other units before a target get 0."""
    table = np.zeros((len(case.units), len(case.output)))
    table[units] = values
    return [table[: len(case.input) + t, t] for t in range(len(case.output))]


def make_attribution(
    case: Case, normalization: str, effects: list[Floats], stderr: list[Floats] | None, steps: int, probes: int
) -> Attribution:
    """An Attribution from effects in nats that were measured with a fixed number of probes."""
    normalized = [normalize(row, case.protected, normalization) for row in effects]
    return Attribution(
        scores=[scores for scores, _ in normalized],
        effects=effects,
        stderr=stderr,
        effect_unit="nats",
        steps=[steps] * len(effects),
        stopped=["flat" if flat else "fixed" for _, flat in normalized],
        runs=[],
        probes=probes,
        stopping_tests=0,
    )
