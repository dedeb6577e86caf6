"""The linear datamodeling score (LDS): do the effects predict the model's response to new removals?

Each probe removes a random share of the units: they are replaced, as in ReAGent but with other random numbers, or
deleted. The predicted drop is the sum of the effects of the removed units. If a group of the explanation is removed as
a whole, its joint effect takes the place of its single effects. LDS is the correlation of the predicted with the real
drops of the target's log-probability, over the probes that remove a unit before the target. One pass per probe serves
all targets. Only log-probabilities of the targets are needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reagent.case import Floats, Ids, Mask
from reagent.evaluation import Result, TargetResult
from reagent.explanation import Group
from reagent.methods.leave_one_out import MOST_STRATA
from reagent.metrics.context import EvaluationContext
from reagent.metrics.monte_carlo import mean_and_error
from reagent.models.base import Model
from reagent.removal import require_removal
from reagent.sampling import sample_balanced

if TYPE_CHECKING:  # the config imports the metrics
    from reagent.metrics.config import EvaluationConfig

PROBES = 128
RATIO = 0.1
REMOVAL = "replace"
BATCH = 32  # probes between two progress reports
RESAMPLES = 200
RANDOM_ATTRIBUTIONS = 64  # they need no forward passes
MEASURES = ("spearman", "pearson")
FLAT = 1e-12  # a smaller spread, relative to the largest value, is rounding


@dataclass(frozen=True)
class LinearDatamodelingScore:
    """LDS by ranks (Spearman) and by values (Pearson)."""

    id: str = "lds"
    summary: str = "correlation of the sums of effects with the real drops under random removals"
    higher_is_better: bool = True
    needs: str = "probabilities"
    blind_to: str = "interactions that the explanation does not report as groups; the result depends on the removal"

    def check(self, model: Model, config: "EvaluationConfig") -> None:
        """Every model gives log-probabilities of targets; not every model can mask units."""
        for removal in config.removals:
            require_removal(model, removal, f"metric {self.id!r}")

    def measure(self, context: EvaluationContext) -> list[list[Result]]:
        results: list[list[Result]] = [[] for _ in context.explanations]
        settings = list(product(context.config.removals, context.config.ratios))
        for i, (removal, ratio) in enumerate(settings):
            probes = _make_probes(context, removal, ratio, later=len(settings) - 1 - i)
            for measure in MEASURES:
                for row, result in zip(results, _measure_probes(context, probes, measure, removal, ratio), strict=True):
                    row.append(result)
        return results

    def estimate_passes(self, config: "EvaluationConfig", targets: int, explanations: int) -> float:
        del targets, explanations  # one pass serves all
        return config.probes * len(config.ratios) * len(config.removals)


def measure_name(measure: str, removal: str, ratio: float) -> str:
    """The name of a result; the usual removal and share are left out.

    >>> measure_name("spearman", "replace", 0.1), measure_name("spearman", "delete", 0.3)
    ('spearman', 'spearman_delete_30')
    """
    return measure if (removal, ratio) == (REMOVAL, RATIO) else f"{measure}_{removal}_{round(100 * ratio, 6):g}"


def _measure_probes(
    context: EvaluationContext, probes: "_Probes | None", measure: str, removal: str, ratio: float
) -> list[Result]:
    """One result for each explanation."""
    name = measure_name(measure, removal, ratio)
    if probes is None:
        return [_zero_result(name, context) for _ in context.explanations]
    random = [probes.random_correlations(measure, t) for t in context.targets]
    return [probes.result(measure, name, e, random) for e in range(len(context.explanations))]


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


def _make_probes(context: EvaluationContext, removal: str, ratio: float, later: int) -> "_Probes | None":
    """Remove random units and run the model; None if no unit can be removed. `later` calls like this follow."""
    remover, config = context.remover(removal, context.case), context.config
    free = remover.free[remover.free < context.units_before(max(context.targets))]
    if not len(free):
        return None
    strata = context.proposals.strata(MOST_STRATA)[free] if removal == "replace" else 1
    removed, numbers = _sample(len(free), ratio, config.probes, strata, context.rng("probes"))
    # Units that no measured target can see are never removed.
    rest = ((0, 0), (0, len(remover.free) - len(free)))
    marked: Mask = np.pad(removed, rest)
    uniform: Floats = np.pad(numbers, rest)
    drops = []
    for begin in range(0, config.probes, BATCH):
        values = remover.score(marked[begin : begin + BATCH], uniform[begin : begin + BATCH]).value
        drops.append(context.case.values - values)
        remaining = max(0, config.probes - begin - BATCH) + later * config.probes
        context.progress.advance(len(values), remaining)
    return _Probes(context, free, removed, np.concatenate(drops))


def _sample(size: int, ratio: float, probes: int, strata: Ids | int, rng: np.random.Generator) -> tuple[Mask, Floats]:
    """Which units each probe removes, and the numbers that choose candidates; [probes, size].

    Balanced blocks must divide the units. For large shares they would have the wrong size: of 30 %, a quarter.
    """
    block = max(1, round(ratio * size))
    if ratio <= RATIO:
        return sample_balanced(size, block, probes, strata, rng)
    order = rng.random((probes, size)).argsort(axis=1)
    return order.argsort(axis=1) < block, rng.random((probes, size))


@dataclass(frozen=True)
class _Probes:
    """Which units each probe removed, and the drop that this caused at each output unit."""

    context: EvaluationContext
    free: Ids
    removed: Mask  # [probes, free units]
    drop: Floats  # [probes, outputs]

    def result(self, measure: str, name: str, explanation: int, random: list[_RandomCorrelations]) -> Result:
        by_ranks = measure == "spearman"
        targets, resamples = [], []
        for t, random_at_t in zip(self.context.targets, random, strict=True):
            relevant, real = self._relevant(t), self.drop[:, t]
            predicted = self._predict(t, self.context.effects(t)[[explanation]])[0] + self._surplus(t, explanation)
            value, flat = correlation(predicted[relevant], real[relevant], by_ranks)
            again = np.array([correlation(predicted[i], real[i], by_ranks)[0] for i in self._resample(relevant)])
            flags = ("nothing_to_replace",) if not relevant.any() else ("constant",) if flat else ()
            targets.append(TargetResult(t, value, float(again.std(ddof=1)), *random_at_t.value_and_error(), flags))
            resamples.append(again)
        return Result(
            "lds",
            name,
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
        """Which probes removed a unit before target `t`; in the others both drops are 0."""
        return np.asarray(self.removed[:, : self._count_before(t)].any(1))

    def _predict(self, t: int, rows: Floats) -> Floats:
        """Sums of effects of the removed units before the target; [rows, probes]."""
        n = self._count_before(t)
        return np.asarray(rows[:, self.free[:n]] @ self.removed[:, :n].T)

    def _surplus(self, t: int, explanation: int) -> Floats:
        """The part of the predicted drop that groups add to the sums of effects; 0 for a method without effects."""
        why = self.context.explanations[explanation]
        return group_surplus(() if why.effects is None else why[t].groups, self.free, self.removed)

    def _resample(self, relevant: Mask) -> list[Ids]:
        """Bootstrap samples of the probes, the same for every target and explanation."""
        indices = self.context.rng("bootstrap").integers(len(relevant), size=(RESAMPLES, len(relevant)))
        return [row[relevant[row]] for row in indices]


def group_surplus(groups: Sequence[Group], free: Ids, removed: Mask) -> Floats:
    """Joint effects minus single effects of the groups that each probe removes as a whole; [probes].

    A group inside a larger one that is also removed does not count: the joint effect of the larger one includes it.

    >>> pair = Group(units=(0, 2), kind="redundant", effect=3.0, stderr=None, single=0.5)
    >>> group_surplus([pair], np.array([0, 1, 2]), np.array([[True, False, True], [True, True, False]])).tolist()
    [2.5, 0.0]
    """
    removable = [group for group in groups if np.isin(group.units, free).all()]
    whole = {group: removed[:, np.isin(free, group.units)].all(1) for group in removable}
    total = np.zeros(len(removed))
    for group, complete in whole.items():
        larger = [mask for other, mask in whole.items() if set(group.units) < set(other.units)]
        total += (complete & ~np.any([*larger, np.zeros_like(complete)], axis=0)) * (group.effect - group.single)
    return total


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
