"""The Hellinger distance between two distributions over the whole vocabulary."""

from typing import Any

import numpy as np
import numpy.typing as npt

from reagent.case import Floats


def hellinger(log_p: npt.NDArray[Any], log_q: npt.NDArray[Any]) -> Floats:
    """H = √(½ Σ (√p − √q)²), from log-probabilities over the last axis: the textbook one, in [0, 1].

    Differences of roots are summed, not 1 − Σ √(pq): near 0, where that one rounds to noise, this one does not.

    >>> half, sure = np.log([0.5, 0.5]), np.array([0.0, -np.inf])
    >>> float(hellinger(half, half)), float(hellinger(sure, sure[::-1])), round(float(hellinger(half, sure)), 4)
    (0.0, 1.0, 0.5412)
    """
    apart = np.exp(0.5 * log_p.astype(np.float64)) - np.exp(0.5 * log_q.astype(np.float64))
    # Rounding must not carry two distributions without overlap beyond 1.
    return np.asarray(np.minimum(1.0, np.sqrt(0.5 * np.square(apart).sum(-1))))


def distances(log_p: npt.NDArray[Any], reference: npt.NDArray[Any]) -> Floats:
    """How far each row of distributions [batch, positions, vocabulary] is from the reference; [batch].

    Where a target has several tokens, the mean over them. Row by row: a batch in double precision may be too much.
    """
    return np.array([hellinger(row, reference).mean() for row in log_p])
