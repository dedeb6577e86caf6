"""Units that seem unimportant are removed in blocks; their effects have honest standard errors."""

import numpy as np
import pytest

from reagent import explain
from reagent.case import Floats, Ids
from reagent.methods.single_effects import count_blocks
from reagent.testing import ScriptedModel

UNITS = 60
WORDS = tuple(f"w{i}" for i in range(UNITS + 2))


def noisy_model(effects: Floats) -> ScriptedModel:
    """Word i adds effects[i] to the logit of w0; one word adds much."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = sum(effect * (context == i + 1).any(-1) for i, effect in enumerate(effects))
        table[:, -1] = 30.0
        return table

    return ScriptedModel(WORDS, logits)


def test_number_of_blocks() -> None:
    assert [count_blocks(n) for n in (0, 1, 4, 5, 48, 400)] == [0, 1, 1, 2, 12, 12]


def test_intervals_cover_the_effects_of_units_that_were_not_removed_alone() -> None:
    covered, estimated = [], 0
    for seed in range(12):
        effects = np.random.default_rng(seed).normal(0, 0.2, UNITS)
        effects[7] = 8.0
        prompt = " ".join(f"w{i}" for i in range(1, UNITS + 1))
        why = explain(noisy_model(effects), prompt, target=" w0", seed=seed)
        effect, error = np.array(why.effects[0]), np.array(why.stderr[0])
        assert effect[7] == pytest.approx(8.0, abs=0.05)
        assert error[7] == 0
        estimated += (error > 0).sum()
        covered += (np.abs(effect - effects) <= 1.96 * error + 0.01)[error > 0].tolist()
    assert estimated > 0.5 * 12 * UNITS
    assert 0.88 <= np.mean(covered) <= 0.99
