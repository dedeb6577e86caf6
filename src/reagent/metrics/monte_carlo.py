"""Monte-Carlo averages: values of single draws become a Result with a standard error.

Every attribution is measured at every target, draw by draw. The value is the mean over targets, then over draws.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from reagent.case import Floats
from reagent.evaluation import Point, Result, TargetResult
from reagent.metrics.base import Metric
from reagent.metrics.context import EvaluationContext
from reagent.validation import check_integer

PRECISION = 0.01  # sampling stops at this standard error of a value …
RANDOM_PRECISION = 0.02  # … and at this one of the value of random attributions
MAX_DRAWS = 512  # sampling stops here, whatever the standard error
TYPICAL_DRAWS = 48  # for estimates of cost, where the number of draws is not fixed
SIMPLE_DRAWS = 32  # of `measure_scores`


def mean_and_error(draws: Floats) -> tuple[float, float]:
    """The mean of independent draws and its standard error.

    >>> mean_and_error(np.array([1.0, 2.0, 3.0]))
    (2.0, 0.5773502691896258)
    """
    return float(draws.mean()), float(draws.std(ddof=1) / np.sqrt(len(draws)))


@dataclass(frozen=True)
class DrawBudget:
    """The number of draws: exactly `fixed`, or round by round until the standard error is small enough."""

    fixed: int | None = None
    round_size: int = 32  # a standard error from fewer draws is unreliable
    maximum: int = MAX_DRAWS

    def __post_init__(self) -> None:
        if self.fixed is not None:
            check_integer("the evaluation", "draws", self.fixed, 2)

    def with_fixed(self, draws: int | None) -> "DrawBudget":
        """The same budget if `draws` is None."""
        return self if draws is None else replace(self, fixed=draws)

    @property
    def limit(self) -> int:
        return self.fixed or self.maximum

    def rounds(self) -> Iterator[range]:
        """The numbers of the draws of each round."""
        for start in range(0, self.limit, self.round_size):
            yield range(start, min(start + self.round_size, self.limit))

    def remaining(self, targets: Sequence[int], t: int, draws: range) -> int:
        """The largest number of draws still to make at all targets, from target `t` of the round `draws` on."""
        return (self.limit - draws.stop) * len(targets) + len(draws) * (len(targets) - targets.index(t))


class AttributionKey(NamedTuple):
    """One attribution under one metric: an explanation by its index, or None for random attributions."""

    metric: str
    explanation: int | None


@dataclass
class SampledValues:
    """The values of one attribution, draw by draw at each target; one column for each point of its curves."""

    monitored: slice  # columns whose mean must reach the precision
    precision: float = PRECISION
    excluded: frozenset[int] = frozenset()  # targets at which nothing can be measured
    by_target: dict[int, Floats] = field(default_factory=dict)  # [draws, columns]

    def add(self, t: int, values: Floats) -> None:
        self.by_target[t] = np.concatenate([self.by_target[t], values]) if t in self.by_target else values

    @property
    def mean(self) -> Floats:
        """The mean over targets, without excluded ones unless all are excluded; [draws, columns]."""
        included = [values for t, values in self.by_target.items() if t not in self.excluded]
        # Targets have independent draws, so the draws of their mean are independent too.
        return np.asarray(np.mean(included or list(self.by_target.values()), axis=0))

    def is_precise(self) -> bool:
        """Whether the standard error is small enough to stop."""
        return bool(self.by_target) and mean_and_error(self.mean[:, self.monitored].mean(1))[1] <= self.precision


Samples = dict[AttributionKey, SampledValues]


def make_samples(metrics: Sequence[str], explanations: int, monitored: slice, excluded: Iterable[int] = ()) -> Samples:
    """Empty values of all explanations and of random attributions, for each metric."""
    keys = [AttributionKey(metric, e) for metric in metrics for e in (*range(explanations), None)]
    return {
        key: SampledValues(monitored, RANDOM_PRECISION if key.explanation is None else PRECISION, frozenset(excluded))
        for key in keys
    }


def sample(
    samples: Samples,
    targets: Sequence[int],
    budget: DrawBudget,
    compute: Callable[[int, Sequence[AttributionKey], range], Sequence[Floats]],
) -> None:
    """Fill the samples; `compute(target, keys, draws)` returns [draws, columns] for each key."""
    for draws in budget.rounds():
        open_keys = [key for key, values in samples.items() if budget.fixed is not None or not values.is_precise()]
        for t in targets if open_keys else ():
            for key, values in zip(open_keys, compute(t, open_keys, draws), strict=True):
                samples[key].add(t, values)


def summarize(
    samples: Samples,
    key: AttributionKey,
    measure: str,
    higher_is_better: bool,
    columns: slice = slice(0, 1),
    curve: Sequence[float] = (),
    flags: Mapping[int, tuple[str, ...]] | None = None,
) -> Result:
    """One Result: its value is the mean over `columns`; a curve's points are the columns from the first of them on."""
    own, random = samples[key], samples[key._replace(explanation=None)]

    def numbers(values: Floats, random_values: Floats, some: slice) -> tuple[float, float, float, float]:
        return *mean_and_error(values[:, some].mean(1)), *mean_and_error(random_values[:, some].mean(1))

    target_flags = {t: tuple(dict.fromkeys((flags or {}).get(t, ()))) for t in own.by_target}
    points = range(columns.start, columns.start + len(curve))
    return Result(
        key.metric,
        measure,
        higher_is_better,
        *numbers(own.mean, random.mean, columns),
        draws=len(own.mean),
        random_draws=len(random.mean),
        flags=tuple(dict.fromkeys(flag for several in target_flags.values() for flag in several)),
        targets=tuple(
            TargetResult(t, *numbers(own.by_target[t], random.by_target[t], columns), several)
            for t, several in target_flags.items()
        ),
        curve=tuple(
            Point(at, *numbers(own.mean, random.mean, slice(i, i + 1))) for i, at in zip(points, curve, strict=True)
        ),
    )


def measure_scores(
    context: EvaluationContext, metric: Metric, measure: str, compute: Callable[[int, Floats], Floats]
) -> list[list[Result]]:
    """The results of a metric that is a function of scores, with random attributions for comparison.

    `compute(t, scores)` takes scores [draws, units before output unit t] and returns one value for each draw. It gets
    the scores of every explanation, the same in every draw, and a new random attribution in every draw.
    """
    draws = context.config.draws or SIMPLE_DRAWS
    samples = make_samples([metric.id], len(context.explanations), slice(0, 1))
    for t in context.targets:
        for key, values in samples.items():
            if key.explanation is None:
                scores = context.random_scores(t, draws)
            else:
                scores = np.tile(context.scores(t)[key.explanation], (draws, 1))
            values.add(t, np.asarray(compute(t, scores), dtype=np.float64)[:, None])
    keys = [AttributionKey(metric.id, e) for e in range(len(context.explanations))]
    return [[summarize(samples, key, measure, metric.higher_is_better)] for key in keys]
