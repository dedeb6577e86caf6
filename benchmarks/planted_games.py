"""Functions of subsets whose Shapley values are known: a few units are causes, all others have no effect."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from peers import Value

from reagent.case import Floats, Ids, Mask
from reagent.methods.exact import all_subsets, shapley_values

STRENGTH, BEST = 3.0, -0.1  # log-probabilities: BEST if the function is 1, BEST − STRENGTH if it is 0
SIZES, NOISES = (10, 40), (0.0, 0.3)

Function = Callable[[Mask], Mask]  # [subsets, causes] → [subsets]
FUNCTIONS: dict[str, tuple[int, Function]] = {  # number of causes, and the function
    "OR of 2": (2, lambda kept: kept.any(1)),
    "OR of 3": (3, lambda kept: kept.any(1)),
    "AND of 2": (2, lambda kept: kept.all(1)),
    "AND of 3": (3, lambda kept: kept.all(1)),
    "XOR of 3": (3, lambda kept: kept.sum(1) % 2 == 1),  # of 2, all Shapley values are 0
    "2 of 3": (3, lambda kept: kept.sum(1) >= 2),
    "OR of ANDs": (4, lambda kept: kept[:, :2].all(1) | kept[:, 2:].all(1)),
}


def planted_games(seeds: Iterable[int]) -> Iterator[tuple[str, str, int, Value, Floats]]:
    """Name, kind, number of units, function and Shapley values; each seed has other causes."""
    for seed in seeds:
        for units in SIZES:
            for noise in NOISES:
                for name, (count, function) in FUNCTIONS.items():
                    causes = np.random.default_rng([seed, units]).permutation(units)[:count]
                    truth = np.zeros(units)
                    truth[causes] = STRENGTH * shapley_values(function(all_subsets(count)).astype(float))
                    kind = f"planted, {units} units" + (", noise" if noise else "")
                    yield f"{name}, seed {seed}", kind, units, _value(causes, function, noise), truth


def _value(causes: Ids, function: Function, noise: float) -> Value:
    def value(kept: Mask) -> Floats:
        clean = BEST - STRENGTH * (1.0 - function(kept[:, causes]))
        return np.minimum(clean + noise * _noise(kept), -0.01)

    return value


def _noise(kept: Mask) -> Floats:
    """A standard normal number for each subset, always the same; none for the unchanged text."""
    numbers = [np.random.default_rng(np.packbits(row)).standard_normal() for row in kept]
    return np.array(numbers) * ~kept.all(1)
