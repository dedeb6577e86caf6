"""Proposals never contain the original or change protected positions, and are sampled by their weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tiny
from reagent import explain
from reagent.case import Case
from reagent.errors import CapabilityError, InputError, UnknownNameError
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers import choose_automatic, make_replacer, registry
from reagent.replacers.base import Proposals
from reagent.testing.scripted import ScriptedModel


@pytest.fixture(params=["gpt2", "gemma"])
def model(request: pytest.FixtureRequest) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(request.param), tiny.tokenizer_of(request.param))


@pytest.fixture
def case(model: HuggingFaceModel) -> Case:
    return model.case("My aunt moved to Japan", target=" to teach music")


@pytest.mark.parametrize("name", ["self", "infill", "random"])
def test_proposals_omit_the_original_and_protected_positions(name: str, model: HuggingFaceModel, case: Case) -> None:
    proposals = make_replacer(name).propose(model, case, np.random.default_rng(0))
    used = proposals.weights > 0
    assert not (used & (proposals.ids == case.ids[:, None])).any()
    np.testing.assert_array_equal(proposals.replaceable, ~case.protected)
    drawn = proposals.draw(np.random.default_rng(1).random((200, len(case.ids))))
    assert (drawn[:, case.protected] == case.ids[case.protected]).all()
    assert (drawn[:, ~case.protected] != case.ids[~case.protected]).all()
    assert not set(drawn[:, ~case.protected].ravel()) & model.special_ids


def test_the_sampling_variance_is_that_of_sampled_candidates(model: HuggingFaceModel, case: Case) -> None:
    for name in ("self", "infill", "random"):
        table = make_replacer(name).propose(model, case, np.random.default_rng(0))
        sampled = np.array([name == "random" or i == 0 for i in range(len(case.ids))])
        np.testing.assert_allclose(
            table.sampling_variance, sampled * table.replaceable / np.maximum((table.weights > 0).sum(-1), 1)
        )


def test_auto_is_roberta_if_it_is_local_but_not_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    class Remote(ScriptedModel):
        @property
        def info(self) -> Mapping[str, Any]:
            return {**super().info, "backend": "http (next token)"}

    here, remote = (kind(["a", "b"], lambda context: np.zeros((len(context), 2))) for kind in (ScriptedModel, Remote))
    assert choose_automatic(here) == choose_automatic(remote) == choose_automatic() == "self"
    monkeypatch.setattr(registry, "is_available_offline", lambda _: True)
    assert (choose_automatic(here), choose_automatic(remote), choose_automatic()) == ("roberta", "self", "roberta")
    assert explain(remote, "a b", target=" a", preset="leave-one-out").replacer["id"] == "self"


def test_self_proposes_the_models_best_guesses(model: HuggingFaceModel, case: Case) -> None:
    proposals = make_replacer("self", candidates=3).propose(model, case, np.random.default_rng(0))
    best = model.predict(case.ids, 4).ids
    for i in range(1, len(case.ids)):
        expected = [token for token in best[i - 1] if token != case.ids[i]][:3]
        assert proposals.ids[i][proposals.weights[i] > 0].tolist() == ([] if case.protected[i] else expected)
    # The model predicts nothing for position 0: its candidates are ordinary tokens, unless it is a start token.
    first = proposals.ids[0][proposals.weights[0] > 0]
    assert set(first) <= set(model.ordinary_ids)
    assert (len(first) > 0) != case.protected[0]


def test_weighted_draws_follow_the_probabilities(model: HuggingFaceModel, case: Case) -> None:
    proposals = make_replacer("self", candidates=4, weighted=True).propose(model, case, np.random.default_rng(0))
    drawn = proposals.draw(np.random.default_rng(1).random((20_000, len(case.ids))))
    i = len(case.ids) - 1
    weights = proposals.weights[i] / proposals.weights[i].sum()
    for token, weight in zip(proposals.ids[i], weights, strict=True):
        assert (drawn[:, i] == token).mean() == pytest.approx(weight, abs=0.02)


def test_infill_is_bayes_over_the_candidates(model: HuggingFaceModel, case: Case) -> None:
    wide = {"candidates": 12, "considered": 40, "window": 100, "weighted": True}
    proposals = make_replacer("infill", **wide).propose(model, case, np.random.default_rng(0))
    predictions = model.predict(case.ids, 40)
    for i in (2, 5, len(case.ids) - 1):
        # The joint probability of the whole text with each candidate in place, one sequence at a time.
        joint = {}
        for candidate in predictions.ids[i - 1]:
            ids = case.ids.copy()
            ids[i] = candidate
            scored = model.score(ids[None], np.arange(i, len(ids)), ids[i:])
            joint[int(candidate)] = float(scored.logprob.sum())
        joint.pop(int(case.ids[i]), None)
        best = sorted(joint, key=lambda token: -joint[token])[:12]
        assert proposals.ids[i].tolist() == best
        expected = np.exp([joint[token] - joint[best[0]] for token in best])
        np.testing.assert_allclose(proposals.weights[i], expected, rtol=1e-3)


def test_infill_uses_the_text_to_the_right() -> None:
    # Each word is followed by one of the next two, so only "w2" or "w3" can be between "w1" and "w4".
    words = [f"w{i}" for i in range(12)]

    def logits(context: np.ndarray) -> np.ndarray:
        ahead = (np.arange(12) - context[:, -1:]) % 12
        return np.where((ahead == 1) | (ahead == 2), 8.0, 0.0)

    model = ScriptedModel(words, logits)
    case = model.case("w1 w2 w4 w5", " w6")
    proposals = make_replacer("infill", candidates=1, considered=12).propose(model, case, np.random.default_rng(0))
    assert proposals.ids[1].tolist() == [3], "the only other word that both sides allow"
    alone = make_replacer("self", candidates=1).propose(model, case, np.random.default_rng(0))
    assert alone.ids[2][alone.weights[2] > 0].tolist() == [3], "from the left, w3 follows w2 as well as w4"
    assert proposals.ids[2].tolist() == [3], "w5 may follow w3 too"


def test_random_is_uniform_over_the_vocabulary(model: HuggingFaceModel, case: Case) -> None:
    proposals = make_replacer("random", candidates=2000).propose(model, case, np.random.default_rng(0))
    values, counts = np.unique(proposals.ids[proposals.replaceable], return_counts=True)
    assert set(values) == set(model.ordinary_ids)
    expected = proposals.ids.size / len(model.ordinary_ids)
    assert abs(counts - expected).max() < 6 * np.sqrt(expected)


def test_draws_at_the_edges_stay_inside_the_table() -> None:
    table = Proposals(np.array([9, 9]), np.array([[1, 2, 3], [4, 5, 6]]), np.array([[0.1, 0.2, 0.0], [0.0, 0.0, 0.7]]))
    edges = np.array([[0.0, 0.0], [np.nextafter(1, 0), np.nextafter(1, 0)]])
    assert table.draw(edges).tolist() == [[1, 6], [2, 6]]


def test_draws_do_not_depend_on_how_they_are_cut(model: HuggingFaceModel, case: Case) -> None:
    proposals = make_replacer("self").propose(model, case, np.random.default_rng(0))
    uniform = np.random.default_rng(1).random((10, len(case.ids)))
    np.testing.assert_array_equal(
        proposals.draw(uniform), np.concatenate([proposals.draw(row[None]) for row in uniform])
    )


def test_wrong_names_and_options_are_reported() -> None:
    with pytest.raises(
        UnknownNameError,
        match=r"unknown replacer 'sefl', did you mean 'self'\? Known: auto, roberta, self, infill, pos, random",
    ):
        make_replacer("sefl")
    with pytest.raises(InputError, match=r"replacer 'random' has no option 'weighted'. It has: candidates"):
        make_replacer("random", weighted=True)
    with pytest.raises(InputError, match="`candidates` of the replacer must be a whole number from 1"):
        make_replacer("self", candidates=0)


def test_a_model_without_predictions_is_rejected_before_any_work() -> None:
    class OnlyScores:
        def __init__(self) -> None:
            self.inner = ScriptedModel(["a", "b"], lambda c: np.zeros((len(c), 2)))
            self.meter, self.info = self.inner.meter, self.inner.info
            self.case, self.score = self.inner.case, self.inner.score

    model = OnlyScores()
    with pytest.raises(CapabilityError, match=r"replacer 'self' needs a model that predicts next tokens.*'scripted'"):
        make_replacer("self").propose(model, model.case("a b", "b"), np.random.default_rng(0))
    assert model.meter.forward_passes == 0
