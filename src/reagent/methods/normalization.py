"""Normalization: from signed effects to scores, a distribution over the units of a row."""

import numpy as np

from reagent.case import Floats, Mask
from reagent.validation import check_name

NORMALIZATIONS = {
    "positive": "positive effects over their sum",
    "absolute": "absolute effects over their sum",
    "softmax": "softmax of the effects",
}


def check_normalization(name: str) -> None:
    """Raise an error for a name that is not in `NORMALIZATIONS`."""
    check_name("normalization of effects", name, NORMALIZATIONS)


def normalize(effects: Floats, protected: Mask, normalization: str = "positive") -> tuple[Floats, bool]:
    """The scores of one row of effects, and whether the row is flat.

    Protected units score 0. A row is flat if no effect is positive ("positive") or all are 0 ("absolute"); its scores
    are uniform. `protected` may be longer than the row: only its beginning is used.

    >>> normalize(np.array([9.0, 3.0, -2.0, 1.0]), np.array([True, False, False, False]))
    (array([0.  , 0.75, 0.  , 0.25]), False)
    >>> normalize(np.array([0.0, -1.0]), np.array([False, False]))
    (array([0.5, 0.5]), True)
    """
    check_normalization(normalization)
    free = ~protected[: len(effects)]
    weights = np.where(free, effects, 0.0)
    flat = False
    if normalization == "softmax":
        weights = np.where(free, np.exp(weights - weights[free].max(initial=-np.inf)), 0.0)
    else:
        weights = np.maximum(weights, 0.0) if normalization == "positive" else np.abs(weights)
        largest = weights.max(initial=0.0)
        flat = not largest > 0
        # Dividing by the largest first keeps the sum of tiny effects above 0.
        weights = free.astype(np.float64) if flat else weights / largest
    return np.asarray(weights / weights.sum()), flat
