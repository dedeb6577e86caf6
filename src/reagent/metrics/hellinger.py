"""The Hellinger distance between two distributions over the whole vocabulary."""

from typing import Any

import numpy as np
import numpy.typing as npt

from reagent.case import Floats


def hellinger(log_p: npt.NDArray[Any], log_q: npt.NDArray[Any]) -> Floats:
    """H = √(½ Σ (√p − √q)²), from log-probabilities over the last axis: the textbook definition, in [0, 1].

    The differences of roots are summed. The equal form 1 − Σ √(pq) would lose all digits near 0.

    >>> half, sure = np.log([0.5, 0.5]), np.array([0.0, -np.inf])
    >>> float(hellinger(half, half)), float(hellinger(sure, sure[::-1])), round(float(hellinger(half, sure)), 4)
    (0.0, 1.0, 0.5412)
    """
    difference = np.exp(0.5 * log_p.astype(np.float64)) - np.exp(0.5 * log_q.astype(np.float64))
    # Rounding must not give distributions without overlap a distance above 1.
    return np.asarray(np.minimum(1.0, np.sqrt(0.5 * np.square(difference).sum(-1))))


def distances(log_p: npt.NDArray[Any], reference: npt.NDArray[Any]) -> Floats:
    """The distance of each row of distributions [batch, positions, vocabulary] from the reference; [batch].

    It is the mean over the tokens of a target. One row at a time, to save memory: the rows become double precision.
    """
    return np.array([hellinger(row, reference).mean() for row in log_p])
