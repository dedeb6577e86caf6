"""Random scores: a seeded distribution without forward passes."""

import numpy as np
import pytest

import tiny
from methods.problem import make_problem
from reagent.methods.random import RandomScores
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.planted import all_of


def test_every_row_is_a_distribution_and_costs_no_pass(tiny_model: HuggingFaceModel) -> None:
    problem = make_problem(tiny_model, "The river runs through")
    before = tiny_model.meter.forward_passes
    result = problem.run(RandomScores())
    assert tiny_model.meter.forward_passes == before
    assert (result.probes, result.steps, result.stopped) == (0, [0] * 3, ["fixed"] * 3)
    assert result.effects is None
    for t, row in enumerate(result.scores):
        assert len(row) == len(problem.case.input) + t
        assert row.sum() == pytest.approx(1)
        assert row.min() > 0


def test_the_seed_decides() -> None:
    problem = make_problem(all_of({}), "w1 w2 w3", " w0")
    a, b, c = (problem.run(RandomScores(), seed).scores[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)


def test_no_position_is_preferred() -> None:
    problem = make_problem(all_of({}), "w1 w2 w3 w4", " w0")
    mean = np.mean([problem.run(RandomScores(), seed).scores[0] for seed in range(500)], axis=0)
    np.testing.assert_allclose(mean, 0.25, atol=0.02)


def test_protected_units_score_nothing() -> None:
    model = HuggingFaceModel(tiny.network_of("opt"), tiny.tokenizer_of("opt"))
    for row in make_problem(model, "The river").run(RandomScores()).scores:
        assert row[0] == 0
        assert row[1:].min() > 0


def test_one_position_scores_one() -> None:
    assert make_problem(all_of({}), "w1", " w0").run(RandomScores()).scores[0].tolist() == [1.0]
