"""The linear datamodeling score (LDS): do the effects predict the model's response to new replacements?

Each probe replaces a block of units, as in ReAGent but with other random numbers. The predicted drop is the sum of the
effects of the replaced units. LDS is the correlation of the predicted with the real drops of the target's
log-probability, over the probes that replace a unit before the target. One pass per probe serves all targets. Only
log-probabilities of the targets are needed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reagent.case import Floats, Ids, Mask
from reagent.evaluation import Result, TargetResult
from reagent.methods.reagent_fast import MOST_STRATA
from reagent.metrics.context import EvaluationContext
from reagent.metrics.monte_carlo import mean_and_error
from reagent.models.base import Model
from reagent.sampling import sample_balanced

if TYPE_CHECKING:  # the config imports the metrics
    from reagent.metrics.config import EvaluationConfig

PROBES = 128
RATIO = 0.1
BATCH = 32  # probes between two progress reports
RESAMPLES = 200
RANDOM_ATTRIBUTIONS = 64  # they need no forward passes
MEASURES = ("spearman", "pearson")
FLAT = 1e-12  # a smaller spread, relative to the largest value, is rounding


@dataclass(frozen=True)
class LinearDatamodelingScore:
    """LDS by ranks (Spearman) and by values (Pearson)."""

    id: str = "lds"
    summary: str = "correlation of the sums of effects with the real drops under random replacements"
    higher_is_better: bool = True
    needs: str = "probabilities"
    blind_to: str = "effects that do not add up over units; the result depends on the replacer"

    def check(self, model: Model, config: "EvaluationConfig") -> None:
        """Every model gives log-probabilities of targets."""

    def measure(self, context: EvaluationContext) -> list[list[Result]]:
        probes = _make_probes(context)
        if probes is None:
            return [[_zero_result(measure, context) for measure in MEASURES] for _ in context.explanations]
        random = {(m, t): probes.random_correlations(m, t) for m in MEASURES for t in context.targets}
        return [
            [probes.result(measure, e, [random[measure, t] for t in context.targets]) for measure in MEASURES]
            for e in range(len(context.explanations))
        ]

    def estimate_passes(self, config: "EvaluationConfig", targets: int, explanations: int) -> float:
        del targets, explanations  # one pass serves all
        return config.probes


class _RandomCorrelations(NamedTuple):
    """The correlations of random attributions at one target."""

    by_attribution: Floats
    by_resample: Floats  # mean over the attributions

    @classmethod
    def mean_over(cls, targets: "list[_RandomCorrelations]") -> "_RandomCorrelations":
        return cls(*(np.mean(parts, axis=0) for parts in zip(*targets, strict=True)))

    def value_and_error(self) -> tuple[float, float]:
        """The standard error has two sources: the choice of the attributions, and the choice of the probes."""
        mean, error = mean_and_error(self.by_attribution)
        return mean, float(np.hypot(error, self.by_resample.std(ddof=1)))


def _make_probes(context: EvaluationContext) -> "_Probes | None":
    """Replace blocks of units and run the model; None if no unit can be replaced."""
    table, config = context.proposals, context.config
    free = np.flatnonzero(table.replaceable[: context.units_before(max(context.targets))])
    if not len(free):
        return None
    block = max(1, round(config.ratio * len(free)))
    strata = table.strata(MOST_STRATA)[free]
    replaced, uniform = sample_balanced(len(free), block, config.probes, strata, context.rng("probes"))
    texts = table.apply(replaced, table.choose(uniform, free), free)
    drops = []
    for begin in range(0, config.probes, BATCH):
        values = context.case.score_outputs(context.model, texts[begin : begin + BATCH]).value
        drops.append(context.case.values - values)
        context.progress.advance(len(values), max(0, config.probes - begin - BATCH))
    return _Probes(context, free, replaced, np.concatenate(drops))


@dataclass(frozen=True)
class _Probes:
    """Which units each probe replaced, and the drop that this caused at each output unit."""

    context: EvaluationContext
    free: Ids
    replaced: Mask  # [probes, free units]
    drop: Floats  # [probes, outputs]

    def result(self, measure: str, explanation: int, random: list[_RandomCorrelations]) -> Result:
        by_ranks = measure == "spearman"
        targets, resamples = [], []
        for t, random_at_t in zip(self.context.targets, random, strict=True):
            relevant, real = self._relevant(t), self.drop[:, t]
            predicted = self._predict(t, self.context.effects(t)[[explanation]])[0]
            value, flat = correlation(predicted[relevant], real[relevant], by_ranks)
            again = np.array([correlation(predicted[i], real[i], by_ranks)[0] for i in self._resample(relevant)])
            flags = ("nothing_to_replace",) if not relevant.any() else ("constant",) if flat else ()
            targets.append(TargetResult(t, value, float(again.std(ddof=1)), *random_at_t.value_and_error(), flags))
            resamples.append(again)
        return Result(
            "lds",
            measure,
            True,
            float(np.mean([target.value for target in targets])),
            float(np.mean(resamples, axis=0).std(ddof=1)),  # the same probes serve all targets
            *_RandomCorrelations.mean_over(random).value_and_error(),
            draws=len(self.drop),
            random_draws=RANDOM_ATTRIBUTIONS,
            flags=tuple(dict.fromkeys(flag for target in targets for flag in target.flags)),
            targets=tuple(targets),
        )

    def random_correlations(self, measure: str, t: int) -> _RandomCorrelations:
        by_ranks = measure == "spearman"
        relevant, real = self._relevant(t), self.drop[:, t]
        predicted = self._predict(t, self.context.random_scores(t, RANDOM_ATTRIBUTIONS))
        again = [correlations(predicted[:, i], real[i], by_ranks).mean() for i in self._resample(relevant)]
        return _RandomCorrelations(correlations(predicted[:, relevant], real[relevant], by_ranks), np.array(again))

    def _count_before(self, t: int) -> int:
        return int(np.searchsorted(self.free, self.context.units_before(t)))

    def _relevant(self, t: int) -> Mask:
        """Which probes replaced a unit before target `t`; in the others both drops are 0."""
        return np.asarray(self.replaced[:, : self._count_before(t)].any(1))

    def _predict(self, t: int, rows: Floats) -> Floats:
        """Sums of effects of the replaced units before the target; [rows, probes]."""
        n = self._count_before(t)
        return np.asarray(rows[:, self.free[:n]] @ self.replaced[:, :n].T)

    def _resample(self, relevant: Mask) -> list[Ids]:
        """Bootstrap samples of the probes, the same for every target and explanation."""
        indices = self.context.rng("bootstrap").integers(len(relevant), size=(RESAMPLES, len(relevant)))
        return [row[relevant[row]] for row in indices]


def correlation(x: Floats, y: Floats, by_ranks: bool) -> tuple[float, bool]:
    """Spearman's or Pearson's coefficient; 0 and True if it is undefined because x or y is constant.

    >>> correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0]), by_ranks=True)
    (1.0, False)
    >>> correlation(np.array([1.0, 1.0, 1.0]), np.array([1.0, 4.0, 9.0]), by_ranks=True)
    (0.0, True)
    """
    if len(x) < 2 or np.ptp(x) <= FLAT * np.abs(x).max() or np.ptp(y) <= FLAT * np.abs(y).max():
        return 0.0, True
    return float(correlations(x[None], y, by_ranks)[0]), False


def correlations(rows: Floats, y: Floats, by_ranks: bool) -> Floats:
    """The coefficient of each row of [rows, n] with y [n]; 0 if it is undefined.

    `scipy.stats.spearmanr` and `pearsonr` give the same numbers, but also p-values: for 64 rows of 128 numbers they
    take eleven times as long, and the bootstrap calls this function hundreds of times.
    """
    from scipy.stats import rankdata

    if len(y) < 2:
        return np.zeros(len(rows))
    if by_ranks:  # rounded, so that equal sums in another order of the effects have equal ranks
        rows, y = rankdata(rows.round(12), axis=1), rankdata(y)
    rows, y = rows - rows.mean(1, keepdims=True), y - y.mean()
    size = np.sqrt((rows * rows).sum(1) * (y @ y))
    return np.asarray(np.clip(np.where(size > 0, rows @ y / np.where(size > 0, size, 1), 0.0), -1, 1))


def _zero_result(measure: str, context: EvaluationContext) -> Result:
    flags = ("nothing_to_replace",)
    targets = tuple(TargetResult(t, 0.0, 0.0, 0.0, 0.0, flags) for t in context.targets)
    return Result("lds", measure, True, 0.0, 0.0, 0.0, 0.0, draws=0, random_draws=0, flags=flags, targets=targets)
