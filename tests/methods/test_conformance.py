"""What is true of every method, whatever it computes."""

import json
from importlib.resources import files
from typing import Any

import jsonschema
import numpy as np
import pytest

import tiny
from methods.planted import WORDS, both_needed
from reagent import explain
from reagent.explanation import STOPPED, Explanation
from reagent.models.case import Ids
from reagent.models.local import LocalModel

# Every preset once, with settings that end soon.
SETTINGS: dict[str, dict[str, Any]] = {
    "fast": {"preset": "fast", "probes": 48},
    "fast-g": {"preset": "fast", "probes": 48, "response": "g"},
    "paper": {"preset": "paper", "max_steps": 20},
}
PROMPT = "The river runs through the old town"


@pytest.fixture(params=SETTINGS)
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SETTINGS[request.param]


@pytest.fixture
def why(tiny_model: LocalModel, settings: dict[str, Any]) -> Explanation:
    return explain(tiny_model, PROMPT, max_new_tokens=3, **settings)


def test_every_row_is_a_finite_distribution_over_what_stands_before(why: Explanation) -> None:
    for t, row in enumerate(why.scores):
        assert len(row) == len(why.input) + t
        assert sum(row) == pytest.approx(1)
        assert min(row) >= 0
    for rows in (why.effects, why.stderr):
        assert rows is None or [len(row) for row in rows] == [len(row) for row in why.scores]
    assert (why.effects is None) == (why.effect_unit is None)


def test_the_record_is_complete(why: Explanation) -> None:
    schema = json.loads((files("reagent") / "explanation.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(why.to_json()), schema)
    assert set(why.cost.stopped) <= set(STOPPED)
    assert why.cost.forward_passes == why.cost.probes + why.cost.stopping_tests + why.cost.proposals + 1
    assert why.cost.tokens >= why.cost.forward_passes


def test_the_same_seed_is_bit_equal_and_another_differs(tiny_model: LocalModel, settings: dict[str, Any]) -> None:
    def scores(seed: int) -> object:
        return explain(tiny_model, PROMPT, max_new_tokens=2, seed=seed, **settings).scores

    assert scores(1) == scores(1)
    assert scores(1) != scores(2)


def test_another_chunk_size_gives_the_same_scores(tiny_model: LocalModel, settings: dict[str, Any]) -> None:
    cut = LocalModel(tiny_model.network, tiny_model.tokenizer, tokens_at_once=30)
    a, b = (explain(model, PROMPT, max_new_tokens=3, **settings) for model in (tiny_model, cut))
    assert (a.cost.steps, a.cost.runs) == (b.cost.steps, b.cost.runs)
    for row, other in zip(a.scores, b.scores, strict=True):
        np.testing.assert_allclose(row, other, atol=1e-4)


def test_protected_tokens_are_never_replaced_and_score_zero(settings: dict[str, Any]) -> None:
    model = LocalModel(tiny.network_of("opt"), tiny.tokenizer_of("opt"))
    seen: list[Ids] = []
    original = model.score
    model.score = lambda sequences, *rest: (seen.append(sequences), original(sequences, *rest))[1]  # type: ignore[method-assign]
    why = explain(model, PROMPT, max_new_tokens=2, **settings)
    assert why.input[0].protected
    assert [row[0] for row in why.scores] == [0, 0]
    assert all((batch[:, 0] == why.input[0].ids[0]).all() for batch in seen)


def test_one_position_scores_one(settings: dict[str, Any]) -> None:
    why = explain(both_needed({0: 1}), "w1", target=" w0", replacer="random", **settings)
    assert why.scores == ((1.0,),)


def test_a_certain_model_never_gives_nan(settings: dict[str, Any]) -> None:
    # The answer hangs wholly on one word: the drop in probability is 1, where the published logit is infinite.
    why = explain(both_needed({1: 7}, strength=1e4), "w1 w7 w3", target=" w0", replacer="random", **settings)
    assert np.isfinite(why.scores[0]).all()


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_family_of_models_can_be_explained(family: str, settings: dict[str, Any]) -> None:
    model = LocalModel(tiny.network_of(family), tiny.tokenizer_of(family))
    why = explain(model, PROMPT, max_new_tokens=2, **settings)
    assert [sum(row) for row in why.scores] == pytest.approx([1, 1])


def test_a_model_that_ignores_its_prompt_breaks_nothing(settings: dict[str, Any]) -> None:
    from reagent.models.scripted import ScriptedModel

    deaf = ScriptedModel(WORDS, lambda context: np.tile(np.arange(20.0), (len(context), 1)))
    why = explain(deaf, "w1 w2 w3", target=" w19", replacer="random", **settings)
    assert sum(why.scores[0]) == pytest.approx(1)
