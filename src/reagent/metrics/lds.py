"""The linear datamodelling score: do the effects predict what the model does under replacements they never saw?

Units are replaced in dealt hands, as in ReAGent's probes but from another stream of random numbers. The effects
of what was replaced add up to a predicted drop; LDS is the correlation of predicted with real drops of the
target's log-probability, over the hands that touch anything before the target. One pass for each hand answers
for all targets, and log-probabilities of the targets are all it needs.
"""

from dataclasses import dataclass

import numpy as np

from reagent.case import Floats, Ids, Mask
from reagent.evaluation import Result, TargetResult
from reagent.methods.reagent_fast import MOST_STRATA
from reagent.metrics.context import EvaluationContext
from reagent.metrics.monte_carlo import Advance, ignore, mean_and_error
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.sampling import sample_balanced

PROBES = 128
RATIO = 0.1
BLOCK = 32  # probes between two reports
RESAMPLES = 200
RANDOM = 64  # random attributions: they ask nothing of the model
MEASURES = ("spearman", "pearson")
FLAT = 1e-12  # of the largest: a smaller spread is rounding


def lds(
    model: Model,
    subject: EvaluationContext,
    table: Proposals,
    probes: int = PROBES,
    ratio: float = RATIO,
    advance: Advance = ignore,
) -> list[list[Result]]:
    """The correlation of every explanation's predictions, by ranks and by numbers."""
    free = np.flatnonzero(table.replaceable[: subject.before(max(subject.targets))])
    if not len(free):
        return [[_unmeasured(measure, subject) for measure in MEASURES] for _ in subject.explanations]
    hand = max(1, round(ratio * len(free)))
    replaced, uniform = sample_balanced(len(free), hand, probes, table.strata(MOST_STRATA)[free], subject.rng("probes"))
    texts = table.apply(replaced, table.choose(uniform, free), free)
    drops = []
    for begin in range(0, probes, BLOCK):
        drops.append(subject.case.values - subject.case.score_outputs(model, texts[begin : begin + BLOCK]).value)
        advance(len(drops[-1]), max(0, probes - begin - BLOCK))
    hands = _Hands(subject, free, replaced, np.concatenate(drops))
    return [[hands.result(measure, e) for measure in MEASURES] for e in range(len(subject.explanations))]


@dataclass(frozen=True)
class _Hands:
    """What was replaced in each probe, and what that did to each output unit."""

    subject: EvaluationContext
    free: Ids
    replaced: Mask  # [probes, free units]
    drop: Floats  # [probes, outputs]

    def result(self, measure: str, explanation: int) -> Result:
        by_ranks = measure == "spearman"
        targets, resamples, randoms = [], [], []
        for t in self.subject.targets:
            seen, real = self._touched(t), self.drop[:, t]
            own = self._predicted(t, self.subject.effects(t)[[explanation]])[0]
            random = self._predicted(t, self.subject.random(t, RANDOM))
            value, flat = correlation(own[seen], real[seen], by_ranks)
            drawn = self._resampled(seen)
            again = np.array([correlation(own[i], real[i], by_ranks)[0] for i in drawn])
            chance = correlations(random[:, seen], real[seen], by_ranks)
            chances = np.array([correlations(random[:, i], real[i], by_ranks).mean() for i in drawn])
            flags = ("nothing_to_replace",) if not seen.any() else ("constant",) if flat else ()
            targets.append(TargetResult(t, value, float(again.std(ddof=1)), *_both_errors(chance, chances), flags))
            resamples.append(again)
            randoms.append((chance, chances))
        return Result(
            "lds",
            measure,
            True,
            float(np.mean([target.value for target in targets])),
            float(np.mean(resamples, axis=0).std(ddof=1)),  # the same probes serve all targets
            *_both_errors(*(np.mean(parts, axis=0) for parts in zip(*randoms, strict=True))),
            draws=len(self.drop),
            random_draws=RANDOM,
            flags=tuple(dict.fromkeys(flag for target in targets for flag in target.flags)),
            targets=tuple(targets),
        )

    def _before(self, t: int) -> int:
        return int(np.searchsorted(self.free, self.subject.before(t)))

    def _touched(self, t: int) -> Mask:
        """Which probes replaced anything before target `t`: the others change nothing, as everyone predicts."""
        return np.asarray(self.replaced[:, : self._before(t)].any(1))

    def _predicted(self, t: int, rows: Floats) -> Floats:
        """Sums of effects over what was replaced before the target; [rows, probes]."""
        n = self._before(t)
        return np.asarray(rows[:, self.free[:n]] @ self.replaced[:, :n].T)

    def _resampled(self, seen: Mask) -> list[Ids]:
        """Probes drawn again with replacement, the same for every target and explanation."""
        drawn = self.subject.rng("bootstrap").integers(len(seen), size=(RESAMPLES, len(seen)))
        return [row[seen[row]] for row in drawn]


def correlation(x: Floats, y: Floats, by_ranks: bool) -> tuple[float, bool]:
    """Spearman's or Pearson's coefficient; 0, and true, where one of them is constant and there is none.

    >>> correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 9.0]), by_ranks=True)
    (1.0, False)
    >>> correlation(np.array([1.0, 1.0, 1.0]), np.array([1.0, 4.0, 9.0]), by_ranks=True)
    (0.0, True)
    """
    if len(x) < 2 or np.ptp(x) <= FLAT * np.abs(x).max() or np.ptp(y) <= FLAT * np.abs(y).max():
        return 0.0, True
    return float(correlations(x[None], y, by_ranks)[0]), False


def correlations(rows: Floats, y: Floats, by_ranks: bool) -> Floats:
    """The coefficient of each row of [rows, n] with y [n]; 0 where there is none."""
    from scipy.stats import rankdata

    if len(y) < 2:
        return np.zeros(len(rows))
    if by_ranks:
        rows, y = rankdata(rows.round(12), axis=1), rankdata(y)  # sums of the same effects in another order are equal
    rows, y = rows - rows.mean(1, keepdims=True), y - y.mean()
    size = np.sqrt((rows * rows).sum(1) * (y @ y))
    return np.asarray(np.clip(np.where(size > 0, rows @ y / np.where(size > 0, size, 1), 0.0), -1, 1))


def _both_errors(attributions: Floats, resamples: Floats) -> tuple[float, float]:
    """The mean over random attributions, with the chance in them and the chance in the probes."""
    mean, error = mean_and_error(attributions)
    return mean, float(np.hypot(error, resamples.std(ddof=1)))


def _unmeasured(measure: str, subject: EvaluationContext) -> Result:
    nothing = ("nothing_to_replace",)
    targets = tuple(TargetResult(t, 0.0, 0.0, 0.0, 0.0, nothing) for t in subject.targets)
    return Result("lds", measure, True, 0.0, 0.0, 0.0, 0.0, draws=0, random_draws=0, flags=nothing, targets=targets)
