"""Shapley values: exact sums, exact on additive models, equal to the definition on a small game."""

from itertools import permutations

import numpy as np
import pytest

import tiny
from methods.problem import Problem, make_problem
from reagent.errors import InputError
from reagent.methods.base import Attribution, Progress
from reagent.methods.shapley import Shapley
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.planted import WORDS, additive, all_of

PROMPT = "w1 w2 w3 w4 w5"
TEXT = "The river runs through the old town"


def total_effect(problem: Problem, method: Shapley, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Mean effect on each target of the texts of a run in which everything is replaced."""
    seen: list[np.ndarray] = []
    original = problem.model.score
    with monkeypatch.context() as patch:
        patch.setattr(problem.model, "score", lambda s, *rest: (seen.append(s), original(s, *rest))[1])
        problem.run(method)
    texts = np.concatenate(seen)
    replaceable = problem.proposals.replaceable[problem.case.unit_of][: problem.case.unit_starts[-2]]
    everything = (texts != problem.case.ids)[:, : len(replaceable)][:, replaceable].all(1)
    assert everything.sum() == method.permutations / 2
    return problem.case.values - problem.case.score_outputs(problem.model, texts[everything]).value.mean(0)


def test_values_are_exact_where_effects_add_up() -> None:
    costs = np.repeat([[0.5], [0.0], [2.0], [-0.3], [1.0]], len(WORDS), axis=1)
    costs[np.arange(5), np.arange(1, 6)] = 0
    result = make_problem(additive(costs), PROMPT, " w0").run(Shapley(4))
    np.testing.assert_allclose(result.effects[0], [0.5, 0, 2, -0.3, 1], atol=1e-9)
    np.testing.assert_allclose(result.stderr[0], 0, atol=1e-9)
    assert (result.effect_unit, result.steps, result.stopped) == ("nats", [4], ["fixed"])
    assert result.probes == 2 * (2 * 5 - 1)


def test_values_are_close_to_the_mean_cost_of_replacements_that_differ() -> None:
    costs = np.random.default_rng(3).gamma(2, 0.5, (5, len(WORDS)))
    costs[np.arange(5), np.arange(1, 6)] = 0
    truth = costs.sum(1) / (len(WORDS) - 1)
    problem = make_problem(additive(costs / 4), PROMPT, " w0", candidates=500)
    result = problem.run(Shapley(64))
    np.testing.assert_allclose(result.effects[0], truth / 4, atol=0.08)
    assert (abs(result.effects[0] - truth / 4) < 3 * result.stderr[0]).all()


@pytest.mark.parametrize("kind", ["tokens", "words", "phrase", "contrast"])
def test_values_add_up_to_what_replacing_everything_costs(
    tiny_model: HuggingFaceModel, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = len(make_problem(tiny_model, TEXT).case.input)
    problem = {
        "tokens": lambda: make_problem(tiny_model, TEXT),
        "words": lambda: make_problem(tiny_model, TEXT, groups=[i // 2 for i in range(tokens)]),
        "phrase": lambda: make_problem(tiny_model, TEXT, " and the children", phrase=(4, 17)),
        "contrast": lambda: make_problem(tiny_model, TEXT, " and the", contrast=" and play"),
    }[kind]()
    result = problem.run(Shapley(6))
    sums = [row.sum() for row in result.effects]
    np.testing.assert_allclose(sums, total_effect(problem, Shapley(6), monkeypatch), atol=1e-4)
    assert [len(row) for row in result.effects] == [
        len(problem.case.input) + t for t in range(len(problem.case.output))
    ]


def test_many_permutations_give_the_values_of_the_definition() -> None:
    # One proposal each: the game is fixed, and its Shapley values are the mean over all 24 orders.
    problem = make_problem(all_of({0: 1, 2: 3}), "w1 w2 w3 w4", " w0", candidates=1)
    free = np.arange(4)
    columns = problem.proposals.choose(np.zeros((1, 4)), free)

    def value(replaced: list[int]) -> float:
        marks = np.isin(free, replaced)[None]
        return problem.case.score_outputs(problem.model, problem.proposals.apply(marks, columns, free)).value[0, 0]

    exact = np.zeros(4)
    for order in permutations(range(4)):
        for k, unit in enumerate(order):
            exact[unit] += (value(list(order[:k])) - value(list(order[: k + 1]))) / 24
    result = problem.run(Shapley(400))
    np.testing.assert_allclose(result.effects[0], exact, atol=0.1)
    assert exact[0] == pytest.approx(exact[2])
    assert result.effects[0][1] == pytest.approx(0, abs=1e-9)


def test_reversed_permutations_cancel_noise() -> None:
    # Two causes that act only together: the first one replaced gets the whole effect, in reverse the other one.
    problem = make_problem(all_of({0: 1, 2: 3}), "w1 w2 w3 w4", " w0", candidates=1)
    result = problem.run(Shapley(2))
    assert result.effects[0][0] == pytest.approx(result.effects[0][2], abs=1e-9)
    assert result.stderr is None


def test_protected_tokens_stay_and_score_nothing() -> None:
    model = HuggingFaceModel(tiny.network_of("opt"), tiny.tokenizer_of("opt"))
    result = make_problem(model, TEXT).run(Shapley(2))
    assert [row[0] for row in result.scores] == [0, 0, 0]
    assert [row[0] for row in result.effects] == [0, 0, 0]


def test_one_position_scores_one() -> None:
    result = make_problem(all_of({0: 1}), "w1", " w0").run(Shapley(4))
    assert result.scores[0].tolist() == [1.0]
    assert result.probes == 2


def test_batches_do_not_matter_and_seeds_do(tiny_model: HuggingFaceModel) -> None:
    cut = HuggingFaceModel(tiny_model.network, tiny_model.tokenizer, tokens_at_once=30)
    a, again, b = (make_problem(model, TEXT).run(Shapley(4)) for model in (tiny_model, tiny_model, cut))
    for row, same, other in zip(a.effects, again.effects, b.effects, strict=True):
        np.testing.assert_array_equal(row, same)
        np.testing.assert_allclose(row, other, atol=1e-4)
    assert not np.allclose(a.effects[0], make_problem(tiny_model, TEXT).run(Shapley(4), seed=1).effects[0])


def test_progress_has_partial_results(tiny_model: HuggingFaceModel) -> None:
    progress: list[Progress] = []
    result = make_problem(tiny_model, TEXT).run(Shapley(8), on_progress=progress.append)
    assert progress[-1].done == progress[-1].total == result.probes
    partial = [p.partial for p in progress if p.partial is not None]
    assert len(partial) == 4
    assert all(isinstance(p, Attribution) for p in partial)
    assert partial[0].stderr is None
    np.testing.assert_array_equal(partial[-1].effects[0], result.effects[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permutations": 5}, "`permutations` of method 'shapley' must be even, .* got 5, give 6"),
        ({"permutations": 0}, "`permutations` of method 'shapley' must be a whole number from 2"),
        ({"scores": "max"}, r"'max'.*positive, absolute, softmax"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Shapley(**options)
