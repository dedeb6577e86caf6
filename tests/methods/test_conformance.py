"""Properties that every method must have."""

import json
from typing import Any

import jsonschema
import numpy as np
import pytest

import tiny
from reagent import explain
from reagent.case import Ids
from reagent.errors import CapabilityError
from reagent.explanation import STOP_REASONS, Explanation
from reagent.methods import METHODS, make_method, uses_replacer
from reagent.models.huggingface import HuggingFaceModel
from reagent.schemas import read_schema
from reagent.testing.planted import WORDS, all_of, mentions

# Every preset once, with settings that take little time.
PERTURBATION: dict[str, dict[str, Any]] = {  # methods that need only probabilities
    "fast": {"preset": "fast", "probes": 48},
    "leave-one-out": {"preset": "leave-one-out", "probes": 48},
    "leave-one-out-g": {"preset": "leave-one-out", "probes": 48, "response": "g"},
    "paper": {"preset": "paper", "max_steps": 20},
    "lime": {"method": "lime", "samples": 64},
    "occlusion": {"method": "occlusion", "draws": 2},
    "occlusion-deletion": {"method": "occlusion", "preset": "deletion"},
    "shapley": {"method": "shapley", "permutations": 4},
    "greedy": {"method": "greedy", "draws": 1},
    "random": {"method": "random"},
}
INTERNALS: dict[str, dict[str, Any]] = {
    "greedy-masking": {"method": "greedy", "preset": "masking"},
    "input_x_gradient": {"method": "input_x_gradient"},
    "integrated_gradients": {"method": "integrated_gradients", "steps": 8},
    "gradient_shap": {"method": "gradient_shap", "n_samples": 4},
    "attention": {"method": "attention"},
    "attention_last": {"method": "attention_last"},
    "attention_rollout": {"method": "attention_rollout"},
    "ifr": {"method": "ifr"},
    "value_zeroing": {"method": "value_zeroing"},
    "attn_lrp": {"method": "attn_lrp"},
}
KNOWN_LAYERS = {"ifr", "value_zeroing", "attn_lrp"}  # methods that need decoder layers of a known form
OTHER_LAYERS = {"gptj", "opt"}  # families that have none
SETTINGS = PERTURBATION | INTERNALS
DETERMINISTIC = {"occlusion-deletion"} | set(INTERNALS) - {"gradient_shap"}
BLIND = {"random", "occlusion-deletion"}  # to a truth planted at a position: deletion shifts positions
PROMPT = "The river runs through the old town"


def with_replacer(settings: dict[str, Any]) -> dict[str, Any]:
    """Scripted models propose no plausible words, so methods that need a replacer use `random`."""
    options = {key: value for key, value in settings.items() if key not in ("method", "preset")}
    needed = uses_replacer(make_method(settings.get("method", "reagent"), settings.get("preset"), **options)[0])
    return settings | ({"replacer": "random"} if needed else {})


@pytest.fixture(params=PERTURBATION)
def perturbation(request: pytest.FixtureRequest) -> dict[str, Any]:
    return with_replacer(PERTURBATION[request.param])


@pytest.fixture(params=SETTINGS)
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SETTINGS[request.param]


@pytest.fixture
def why(tiny_model: HuggingFaceModel, settings: dict[str, Any]) -> Explanation:
    return explain(tiny_model, PROMPT, max_new_tokens=3, **settings)


def test_every_row_is_a_finite_distribution_over_the_preceding_units(why: Explanation) -> None:
    for t, row in enumerate(why.scores):
        assert len(row) == len(why.input) + t
        assert sum(row) == pytest.approx(1)
        assert min(row) >= 0
    for rows in (why.effects, why.stderr):
        assert rows is None or [len(row) for row in rows] == [len(row) for row in why.scores]
    assert (why.effects is None) == (why.effect_unit is None)


def test_the_record_is_complete(why: Explanation) -> None:
    schema = read_schema("explanation")
    jsonschema.validate(json.loads(why.to_json()), schema)
    assert set(why.cost.stopped) <= set(STOP_REASONS)
    assert why.cost.forward_passes == why.cost.probes + why.cost.stopping_tests + why.cost.proposals + 1
    assert why.cost.tokens >= why.cost.forward_passes


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_seed_is_bit_equal_and_another_differs(tiny_model: HuggingFaceModel, name: str) -> None:
    def scores(seed: int) -> object:
        return explain(tiny_model, PROMPT, max_new_tokens=2, seed=seed, **SETTINGS[name]).scores

    assert scores(1) == scores(1)
    assert (scores(1) == scores(2)) == (name in DETERMINISTIC)


def test_another_chunk_size_gives_the_same_scores(tiny_model: HuggingFaceModel, settings: dict[str, Any]) -> None:
    cut = HuggingFaceModel(tiny_model.network, tiny_model.tokenizer, tokens_at_once=30)
    a, b = (explain(model, PROMPT, max_new_tokens=3, **settings) for model in (tiny_model, cut))
    assert (a.cost.steps, a.cost.runs) == (b.cost.steps, b.cost.runs)
    for row, other in zip(a.scores, b.scores, strict=True):
        np.testing.assert_allclose(row, other, atol=1e-4)


def test_protected_tokens_are_never_replaced_and_score_zero(settings: dict[str, Any]) -> None:
    family = "gemma3" if settings.get("method") in KNOWN_LAYERS else "opt"
    model = HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family))
    seen: list[Ids] = []
    original = model.score
    model.score = lambda sequences, *rest: (seen.append(sequences), original(sequences, *rest))[1]  # type: ignore[method-assign]
    why = explain(model, PROMPT, max_new_tokens=2, **settings)
    assert why.input[0].protected
    assert [row[0] for row in why.scores] == [0, 0]
    assert all((batch[:, 0] == why.input[0].ids[0]).all() for batch in seen)


def test_one_position_scores_one(perturbation: dict[str, Any]) -> None:
    why = explain(all_of({0: 1}), "w1", target=" w0", **perturbation)
    assert why.scores == ((1.0,),)


def test_a_certain_model_never_gives_nan(perturbation: dict[str, Any]) -> None:
    # The prediction depends on one word only: the drop in probability is 1, where the published logit is infinite.
    why = explain(all_of({1: 7}, strength=1e4), "w1 w7 w3", target=" w0", **perturbation)
    assert np.isfinite(why.scores[0]).all()


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_family_of_models_can_be_explained(family: str, settings: dict[str, Any]) -> None:
    model = HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family), name=family)
    if family in OTHER_LAYERS and settings.get("method") in KNOWN_LAYERS:
        with pytest.raises(CapabilityError, match=f"has decoder layers of a known form, which '{family}'"):
            explain(model, PROMPT, max_new_tokens=2, **settings)
        assert model.meter.forward_passes == 0
        return
    why = explain(model, PROMPT, max_new_tokens=2, **settings)
    assert [sum(row) for row in why.scores] == pytest.approx([1, 1])


def test_a_model_that_ignores_its_prompt_gives_a_distribution(perturbation: dict[str, Any]) -> None:
    from reagent.testing.scripted import ScriptedModel

    constant = ScriptedModel(WORDS, lambda context: np.tile(np.arange(20.0), (len(context), 1)))
    why = explain(constant, "w1 w2 w3", target=" w19", **perturbation)
    assert sum(why.scores[0]) == pytest.approx(1)


@pytest.mark.parametrize("name", sorted(set(PERTURBATION) - BLIND))
def test_a_planted_cause_is_found(name: str) -> None:
    settings = with_replacer(PERTURBATION[name] | ({"max_steps": 300, "top_k": 1} if name == "paper" else {}))
    model = mentions("w5") if name == "fast" else all_of({2: 5})  # deletion moves words to other positions
    why = explain(model, "w1 w2 w5 w4 w6 w7", target=" w0", **settings)
    assert why.top(1)[0].position == 2


def test_units_are_scored_whole(tiny_model: HuggingFaceModel, settings: dict[str, Any]) -> None:
    why = explain(tiny_model, PROMPT, max_new_tokens=2, units="word", **settings)
    assert [unit.text for unit in why.input] == ["The", " river", " runs", " through", " the", " old", " town"]
    assert [len(row) for row in why.scores] == [7, 8]
    assert [sum(row) for row in why.scores] == pytest.approx([1, 1])


def test_phrases_and_contrasts_can_be_explained(tiny_model: HuggingFaceModel, settings: dict[str, Any]) -> None:
    phrase = explain(tiny_model, PROMPT, target=" and the old", target_span="the old", **settings)
    assert sum(phrase.scores[phrase.focus]) == pytest.approx(1)
    contrast = explain(tiny_model, PROMPT, target=" and", contrast=" the", **settings)
    assert sum(contrast.scores[contrast.focus]) == pytest.approx(1)


@pytest.mark.parametrize("name", INTERNALS)
def test_a_missing_capability_is_an_error_before_any_work(name: str) -> None:
    model = all_of({0: 1})
    with pytest.raises(CapabilityError, match=f"{INTERNALS[name]['method']}.* needs a model that .*'scripted'"):
        explain(model, "w1 w2", target=" w0", **with_replacer(INTERNALS[name]))
    assert model.meter.forward_passes == 0


def test_every_method_and_preset_is_in_this_suite() -> None:
    named = {(settings.get("method", "reagent"), settings.get("preset")) for settings in SETTINGS.values()}
    # A method that takes few units only is checked by `check_method` in testing/test_conformance.py.
    assert {method for method, _ in named} == {name for name, info in METHODS.items() if info.max_units is None}


def test_with_a_stride_explained_rows_are_the_same_and_the_others_are_uniform(
    tiny_model: HuggingFaceModel, settings: dict[str, Any], why: Explanation
) -> None:
    some = explain(tiny_model, PROMPT, max_new_tokens=3, stride=2, **settings)
    for t in (0, 2):
        if some.method["preset"] in ("fast", "leave-one-out"):  # adaptive probes depend on the explained rows
            gap, error = (np.array(some.effects[t]) - why.effects[t]), np.hypot(some.stderr[t], why.stderr[t])
            assert (abs(gap) <= 3 * error + 1e-5).all()
        else:
            assert some.scores[t] == pytest.approx(why.scores[t], abs=1e-5)
        if some.method["preset"] != "fast":  # the same for its test of sufficiency
            assert some.cost.stopped[t] == why.cost.stopped[t]
    free = sum(not token.protected for token in some.context(1))
    assert set(some.scores[1]) <= {0.0, 1 / free}
    assert (some.cost.stopped[1], some.cost.steps[1]) == ("unasked", 0)
    assert some.cost.forward_passes <= why.cost.forward_passes
