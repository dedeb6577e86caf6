"""Mean effects over inputs, their intervals, and the verdict that follows."""

from collections.abc import Sequence

import numpy as np

from reagent.metrics.statistics import LEVEL, proportion, student
from reagent.prompt_study import MeanEffect, Verdict


def mean_effect(effects: Sequence[float | None]) -> MeanEffect:
    """The mean over the inputs that have an effect.

    >>> mean_effect([1.0, 3.0, None]).mean, mean_effect([]).mean
    (2.0, None)
    """
    known = np.array([effect for effect in effects if effect is not None], dtype=np.float64)
    if not len(known):
        return MeanEffect(None, None, None, 0)
    return MeanEffect(*student(known, LEVEL), len(known))


def share_that_matters(effects: Sequence[float | None], threshold: float) -> tuple[float | None, ...]:
    """The share of inputs whose effect is beyond the threshold, with its interval."""
    known = np.array([abs(effect) > threshold for effect in effects if effect is not None], dtype=np.float64)
    return (None, None, None) if not len(known) else tuple(proportion(known, LEVEL))


def is_idle(effect: MeanEffect, threshold: float) -> bool:
    """Whether the interval proves that the effect is below the threshold: an equivalence test."""
    return effect.low is not None and effect.high is not None and -threshold < effect.low and effect.high < threshold


def can_go(effect: MeanEffect, threshold: float) -> bool:
    """Whether the interval proves that the loss is below the threshold; a gain is welcome."""
    return effect.high is not None and effect.high < threshold


def judge(effect: MeanEffect, threshold: float) -> Verdict:
    """
    >>> [judge(MeanEffect(0.0, *ends, 9), 1.0) for ends in ((-0.5, 0.5), (0.1, 2.0), (-2.0, -0.1), (-2.0, 2.0))]
    ['idle', 'needed', 'hurts', 'unclear']
    """
    if effect.low is None or effect.high is None:
        return "unclear"
    if is_idle(effect, threshold):
        return "idle"
    return "needed" if effect.low > 0 else "hurts" if effect.high < 0 else "unclear"
