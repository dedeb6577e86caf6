"""Random scores: a seeded distribution that asks the model nothing."""

import numpy as np
import pytest

import tiny
from methods.planted import both_needed
from methods.running import question
from reagent.methods.random import RandomScores
from reagent.models.huggingface import HuggingFaceModel


def test_every_row_is_a_distribution_and_costs_no_pass(tiny_model: HuggingFaceModel) -> None:
    asked = question(tiny_model, "The river runs through")
    before = tiny_model.meter.forward_passes
    found = asked.answer(RandomScores())
    assert tiny_model.meter.forward_passes == before
    assert (found.probes, found.steps, found.stopped) == (0, [0] * 3, ["fixed"] * 3)
    assert found.effects is None
    for t, row in enumerate(found.scores):
        assert len(row) == len(asked.case.input) + t
        assert row.sum() == pytest.approx(1)
        assert row.min() > 0


def test_the_seed_decides() -> None:
    asked = question(both_needed({}), "w1 w2 w3", " w0")
    a, b, c = (asked.answer(RandomScores(), seed).scores[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)


def test_no_position_is_preferred() -> None:
    asked = question(both_needed({}), "w1 w2 w3 w4", " w0")
    mean = np.mean([asked.answer(RandomScores(), seed).scores[0] for seed in range(500)], axis=0)
    np.testing.assert_allclose(mean, 0.25, atol=0.02)


def test_protected_units_score_nothing() -> None:
    model = HuggingFaceModel(tiny.network_of("opt"), tiny.tokenizer_of("opt"))
    for row in question(model, "The river").answer(RandomScores()).scores:
        assert row[0] == 0
        assert row[1:].min() > 0


def test_one_position_scores_one() -> None:
    assert question(both_needed({}), "w1", " w0").answer(RandomScores()).scores[0].tolist() == [1.0]
