"""Substituted effects: what a target loses when a unit is replaced by another unit of the same text.

Without a word such as "the" or "," the text often stays grammatical, so that deleting the word costs little. With
another word in its place the sentence breaks. Both effects tell how much a target depends on a unit. Units of the text
itself need no replacer, and every model can score them.
"""

from collections.abc import Sequence

import numpy as np

from reagent.case import Case, Floats, Ids
from reagent.models.base import Model
from reagent.models.ragged import score_ragged


def measure_substitutions(
    model: Model, case: Case, free: Ids, units: Sequence[int], rng: np.random.Generator
) -> tuple[list[int], Floats]:
    """The units that can be replaced by another free unit, and the drops of all targets, [units, targets].

    `units` are positions in `free`. A unit cannot be replaced if all free units are equal to it.
    """
    starts, found, sequences, positions = case.unit_starts, [], [], []
    for unit in units:
        start, end = starts[free[unit]], starts[free[unit] + 1]
        texts = [case.ids[starts[other] : starts[other + 1]] for other in free]
        texts = [text for text in texts if not np.array_equal(text, case.ids[start:end])]
        if not texts:
            continue
        text = texts[rng.integers(len(texts))]
        found.append(unit)
        sequences.append(np.concatenate([case.ids[:start], text, case.ids[end:]]))
        positions.append(case.positions + np.where(case.positions >= end, len(text) - (end - start), 0))
    if not found:
        return [], np.empty((0, len(case.output)))
    scores = score_ragged(model, sequences, np.array(positions), case.targets)
    return found, case.values - case.output_scores(scores).value
