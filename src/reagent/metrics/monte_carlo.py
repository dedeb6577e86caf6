"""From single draws to a number with its Monte-Carlo error: over targets draw by draw, then over draws."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from reagent.case import Floats
from reagent.evaluation import Point, Result, TargetResult
from reagent.validation import check_integer

PRECISION = 0.01  # the standard error at which a number is precise enough …
RANDOM_PRECISION = 0.02  # … and random's value, which is there to compare it with
MOST = 512  # draws, however far the error is from that

Advance = Callable[[int, int], None]  # forward passes made since the last call, and how many are left at most


def ignore(_made: int, _left: int) -> None:
    """The report of someone who does not look."""


def mean_and_error(draws: Floats) -> tuple[float, float]:
    """The mean of independent draws and its standard error.

    >>> mean_and_error(np.array([1.0, 2.0, 3.0]))
    (2.0, 0.5773502691896258)
    """
    return float(draws.mean()), float(draws.std(ddof=1) / np.sqrt(len(draws)))


@dataclass(frozen=True)
class Draws:
    """How many draws: exactly `fixed`, or round by round until the error is small enough."""

    fixed: int | None = None
    round: int = 32  # fewer draws do not tell their own error well
    most: int = MOST

    def __post_init__(self) -> None:
        if self.fixed is not None:
            check_integer("the evaluation", "draws", self.fixed, 2)

    @property
    def limit(self) -> int:
        return self.fixed or self.most

    def rounds(self) -> Iterator[range]:
        """The numbers of the draws of each round."""
        for start in range(0, self.limit, self.round):
            yield range(start, min(start + self.round, self.limit))


@dataclass
class Series:
    """What one attribution got, draw by draw, at each target; one column for each point of its curves."""

    look: slice  # the columns whose mean is the number that must be precise
    precision: float = PRECISION
    left_out: frozenset[int] = frozenset()  # targets at which nothing can be measured
    found: dict[int, Floats] = field(default_factory=dict)  # target → [draws, columns]

    def add(self, t: int, values: Floats) -> None:
        self.found[t] = np.concatenate([self.found[t], values]) if t in self.found else values

    @property
    def mean(self) -> Floats:
        """Over the targets at which something could be measured, or all where there is none; [draws, columns]."""
        kept = [values for t, values in self.found.items() if t not in self.left_out] or list(self.found.values())
        # Targets have draws of their own, so the draws of their mean are independent too.
        return np.asarray(np.mean(kept, axis=0))

    def settled(self, draws: Draws) -> bool:
        """Whether more draws are not needed."""
        if draws.fixed is not None or not self.found:
            return False
        return mean_and_error(self.mean[:, self.look].mean(1))[1] <= self.precision


def sample(
    series: Sequence[Series],
    targets: Sequence[int],
    draws: Draws,
    ask: Callable[[int, Sequence[int], range], Sequence[Floats]],
) -> None:
    """Fill all series; `ask(target, which series, which draws)` has [draws, columns] for each of them."""
    for some in draws.rounds():
        unsettled = [i for i, one in enumerate(series) if not one.settled(draws)]
        for t in targets if unsettled else ():
            for i, values in zip(unsettled, ask(t, unsettled, some), strict=True):
                series[i].add(t, values)


def to_come(targets: Sequence[int], t: int, numbers: range, draws: Draws) -> int:
    """How many draws there are at most from target `t` of this round on, over all targets."""
    return (draws.limit - numbers.stop) * len(targets) + len(numbers) * (len(targets) - targets.index(t))


def averaged(
    metric: str,
    measure: str,
    higher_is_better: bool,
    own: Series,
    random: Series,
    columns: slice,
    curve: Sequence[float] = (),
    flags: Mapping[int, tuple[str, ...]] | None = None,
) -> Result:
    """One Result: the number is the mean over `columns`; with a curve, those from there on are its points."""

    def numbers(one: Floats, other: Floats, of: slice) -> tuple[float, float, float, float]:
        return *mean_and_error(one[:, of].mean(1)), *mean_and_error(other[:, of].mean(1))

    of_target = {t: tuple(dict.fromkeys((flags or {}).get(t, ()))) for t in own.found}
    points = range(columns.start, columns.start + len(curve))
    return Result(
        metric,
        measure,
        higher_is_better,
        *numbers(own.mean, random.mean, columns),
        draws=len(own.mean),
        random_draws=len(random.mean),
        flags=tuple(dict.fromkeys(flag for several in of_target.values() for flag in several)),
        targets=tuple(
            TargetResult(t, *numbers(own.found[t], random.found[t], columns), several)
            for t, several in of_target.items()
        ),
        curve=tuple(
            Point(at, *numbers(own.mean, random.mean, slice(i, i + 1))) for i, at in zip(points, curve, strict=True)
        ),
    )
