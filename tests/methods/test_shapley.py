"""Shapley values: exact sums, exact on additive models, equal to the definition on a small game."""

from itertools import permutations

import numpy as np
import pytest

import tiny
from methods.planted import WORDS, additive, both_needed
from methods.running import Question, question
from reagent.errors import InputError
from reagent.methods.base import Attribution, Progress
from reagent.methods.shapley import Shapley
from reagent.models.huggingface import HuggingFaceModel

PROMPT = "w1 w2 w3 w4 w5"
TEXT = "The river runs through the old town"


def total_effect(asked: Question, method: Shapley, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """What replacing everything costs each target, on average over the texts of a run that do so."""
    seen: list[np.ndarray] = []
    original = asked.model.score
    with monkeypatch.context() as patch:
        patch.setattr(asked.model, "score", lambda s, *rest: (seen.append(s), original(s, *rest))[1])
        asked.answer(method)
    texts = np.concatenate(seen)
    replaceable = asked.proposals.replaceable[asked.case.unit_of][: asked.case.unit_starts[-2]]
    everything = (texts != asked.case.ids)[:, : len(replaceable)][:, replaceable].all(1)
    assert everything.sum() == method.permutations / 2
    return asked.case.values - asked.case.score_outputs(asked.model, texts[everything]).value.mean(0)


def test_values_are_exact_where_effects_add_up() -> None:
    costs = np.repeat([[0.5], [0.0], [2.0], [-0.3], [1.0]], len(WORDS), axis=1)
    costs[np.arange(5), np.arange(1, 6)] = 0
    found = question(additive(costs), PROMPT, " w0").answer(Shapley(4))
    np.testing.assert_allclose(found.effects[0], [0.5, 0, 2, -0.3, 1], atol=1e-9)
    np.testing.assert_allclose(found.stderr[0], 0, atol=1e-9)
    assert (found.effect_unit, found.steps, found.stopped) == ("nats", [4], ["fixed"])
    assert found.probes == 2 * (2 * 5 - 1)


def test_values_come_near_the_mean_cost_of_replacements_that_differ() -> None:
    costs = np.random.default_rng(3).gamma(2, 0.5, (5, len(WORDS)))
    costs[np.arange(5), np.arange(1, 6)] = 0
    truth = costs.sum(1) / (len(WORDS) - 1)
    asked = question(additive(costs / 4), PROMPT, " w0", candidates=500)
    found = asked.answer(Shapley(64))
    np.testing.assert_allclose(found.effects[0], truth / 4, atol=0.08)
    assert (abs(found.effects[0] - truth / 4) < 3 * found.stderr[0]).all()


@pytest.mark.parametrize("kind", ["tokens", "words", "phrase", "contrast"])
def test_values_add_up_to_what_replacing_everything_costs(
    tiny_model: HuggingFaceModel, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = len(question(tiny_model, TEXT).case.input)
    asked = {
        "tokens": lambda: question(tiny_model, TEXT),
        "words": lambda: question(tiny_model, TEXT, groups=[i // 2 for i in range(tokens)]),
        "phrase": lambda: question(tiny_model, TEXT, " and the children", phrase=(4, 17)),
        "contrast": lambda: question(tiny_model, TEXT, " and the", contrast=" and play"),
    }[kind]()
    found = asked.answer(Shapley(6))
    sums = [row.sum() for row in found.effects]
    np.testing.assert_allclose(sums, total_effect(asked, Shapley(6), monkeypatch), atol=1e-4)
    assert [len(row) for row in found.effects] == [len(asked.case.input) + t for t in range(len(asked.case.output))]


def test_many_walks_give_the_values_of_the_definition() -> None:
    # One proposal each: the game is fixed, and its Shapley values are the mean over all 24 orders.
    asked = question(both_needed({0: 1, 2: 3}), "w1 w2 w3 w4", " w0", candidates=1)
    free = np.arange(4)
    columns = asked.proposals.choose(np.zeros((1, 4)), free)

    def value(replaced: list[int]) -> float:
        marks = np.isin(free, replaced)[None]
        return asked.case.score_outputs(asked.model, asked.proposals.apply(marks, columns, free)).value[0, 0]

    exact = np.zeros(4)
    for order in permutations(range(4)):
        for k, unit in enumerate(order):
            exact[unit] += (value(list(order[:k])) - value(list(order[: k + 1]))) / 24
    found = asked.answer(Shapley(400))
    np.testing.assert_allclose(found.effects[0], exact, atol=0.1)
    assert exact[0] == pytest.approx(exact[2])
    assert found.effects[0][1] == pytest.approx(0, abs=1e-9)


def test_walking_back_cancels_noise() -> None:
    # Two causes that act only together: who of them is replaced first pays it all, and back it is the other.
    asked = question(both_needed({0: 1, 2: 3}), "w1 w2 w3 w4", " w0", candidates=1)
    found = asked.answer(Shapley(2))
    assert found.effects[0][0] == pytest.approx(found.effects[0][2], abs=1e-9)
    assert found.stderr is None


def test_protected_tokens_stay_and_score_nothing() -> None:
    model = HuggingFaceModel(tiny.network_of("opt"), tiny.tokenizer_of("opt"))
    found = question(model, TEXT).answer(Shapley(2))
    assert [row[0] for row in found.scores] == [0, 0, 0]
    assert [row[0] for row in found.effects] == [0, 0, 0]


def test_one_position_scores_one() -> None:
    found = question(both_needed({0: 1}), "w1", " w0").answer(Shapley(4))
    assert found.scores[0].tolist() == [1.0]
    assert found.probes == 2


def test_batches_do_not_matter_and_seeds_do(tiny_model: HuggingFaceModel) -> None:
    cut = HuggingFaceModel(tiny_model.network, tiny_model.tokenizer, tokens_at_once=30)
    a, again, b = (question(model, TEXT).answer(Shapley(4)) for model in (tiny_model, tiny_model, cut))
    for row, same, other in zip(a.effects, again.effects, b.effects, strict=True):
        np.testing.assert_array_equal(row, same)
        np.testing.assert_allclose(row, other, atol=1e-4)
    assert not np.allclose(a.effects[0], question(tiny_model, TEXT).answer(Shapley(4), seed=1).effects[0])


def test_progress_hands_out_what_is_known(tiny_model: HuggingFaceModel) -> None:
    told: list[Progress] = []
    found = question(tiny_model, TEXT).answer(Shapley(8), report=told.append)
    assert told[-1].done == told[-1].total == found.probes
    partial = [now.partial for now in told if now.partial is not None]
    assert len(partial) == 4
    assert all(isinstance(p, Attribution) for p in partial)
    assert partial[0].stderr is None
    np.testing.assert_array_equal(partial[-1].effects[0], found.effects[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permutations": 5}, "permutations of method 'shapley' must be even, .* got 5, give 6"),
        ({"permutations": 0}, "permutations of method 'shapley' must be a whole number from 2"),
        ({"scores": "max"}, r"'max'.*positive, absolute, softmax"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Shapley(**options)
