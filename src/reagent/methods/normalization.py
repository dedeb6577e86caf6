"""From signed effects to the distribution that is shown: one map for every method, chosen by name and recorded."""

import numpy as np

from reagent.case import Floats, Mask
from reagent.errors import UnknownNameError

HOW = {
    "positive": "positive effects over their sum",
    "absolute": "absolute effects over their sum",
    "softmax": "softmax of the effects",
}


def check_how(how: str) -> None:
    """Stop at a name that is not one of `HOW`."""
    if how not in HOW:
        raise UnknownNameError("map from effects to scores", how, HOW)


def share(effects: Floats, protected: Mask, how: str = "positive") -> tuple[Floats, bool]:
    """The effects of one row as a distribution, and whether there was nothing to share.

    Protected units get 0. Where nothing is left to share (no effect is positive, or all are 0), every other
    unit gets the same. `protected` may be that of the whole case: a row sees its beginning.

    >>> share(np.array([9.0, 3.0, -2.0, 1.0]), np.array([True, False, False, False]))
    (array([0.  , 0.75, 0.  , 0.25]), False)
    >>> share(np.array([0.0, -1.0]), np.array([False, False]))
    (array([0.5, 0.5]), True)
    """
    check_how(how)
    free = ~protected[: len(effects)]
    weights = np.where(free, effects, 0.0)
    flat = False
    if how == "softmax":
        weights = np.where(free, np.exp(weights - weights[free].max(initial=-np.inf)), 0.0)
    else:
        weights = np.maximum(weights, 0.0) if how == "positive" else np.abs(weights)
        largest = weights.max(initial=0.0)
        flat = not largest > 0
        weights = (
            free.astype(np.float64) if flat else weights / largest
        )  # so that tiny effects still sum to more than 0
    return np.asarray(weights / weights.sum()), flat
