"""Attention methods: the rows of the positions that predict, and a rollout calculated on paper."""

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, MambaConfig

import tiny
from reagent.case import Case, Floats
from reagent.errors import CapabilityError
from reagent.explanation import Token
from reagent.methods.attention import Attention, last_layer, mean_of_layers, rollout
from reagent.methods.base import Attribution, Method
from reagent.models.base import Meter
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers.base import no_proposals
from reagent.testing.scripted import ScriptedModel

PROMPT = "The river runs through the old town"
METHODS: dict[str, Method] = {
    "attention": Attention(),
    "attention_last": Attention("last"),
    "attention_rollout": Attention("rollout"),
}

# Two layers of two heads over three tokens. The means over heads are
#     first  1 0 0 | .5 .5 0 | .25 .25 .5        second  1 0 0 | .25 .75 0 | 0 .5 .5
LAYERS = [
    np.array([[[1, 0, 0], [0.4, 0.6, 0], [0.5, 0, 0.5]], [[1, 0, 0], [0.6, 0.4, 0], [0, 0.5, 0.5]]], np.float32),
    np.array([[[1, 0, 0], [0.5, 0.5, 0], [0, 0.6, 0.4]], [[1, 0, 0], [0, 1, 0], [0, 0.4, 0.6]]], np.float32),
]


class FixedAttention:
    """A model with fixed attention."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.info = {"id": "fixed-attention", "backend": "test"}

    def attentions(self, ids: Any) -> list[Any]:
        self.meter.add(1, len(ids))
        return LAYERS


def model_of(family: str) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family))


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> Method:
    return METHODS[request.param]


@pytest.fixture(params=tiny.FAMILIES)
def model(request: pytest.FixtureRequest) -> HuggingFaceModel:
    return model_of(request.param)


def run(method: Method, model: Any, case: Case) -> Attribution:
    return method.attribute(model, case, no_proposals(case), np.random.default_rng(0))


def effects(method: Method, model: Any, case: Case) -> list[Floats]:
    result = run(method, model, case).effects
    assert result is not None
    return result


def tokens(count: int, protected: bool = False) -> tuple[Token, ...]:
    return tuple(Token((i,), "x", i, i + 1, protected and i == 0) for i in range(count))


# --- calculated on paper ---


def test_means_equal_the_calculation() -> None:
    np.testing.assert_allclose(mean_of_layers(LAYERS), [[1, 0, 0], [0.375, 0.625, 0], [0.125, 0.375, 0.5]], atol=1e-7)
    np.testing.assert_allclose(last_layer(LAYERS), [[1, 0, 0], [0.25, 0.75, 0], [0, 0.5, 0.5]], atol=1e-7)


def test_rollout_equals_the_calculation() -> None:
    # Half of each layer is the identity:
    #     first  1 0 0 | .25 .75 0 | .125 .125 .75       second  1 0 0 | .125 .875 0 | 0 .25 .75
    # and the second applied to the first is, in its last row,
    #     .25 · (.25 .75 0) + .75 · (.125 .125 .75) = .0625 + .09375, .1875 + .09375, .5625
    expected = [[1, 0, 0], [0.125 + 0.875 * 0.25, 0.875 * 0.75, 0], [0.15625, 0.28125, 0.5625]]
    np.testing.assert_allclose(rollout(LAYERS), expected, atol=1e-7)


def test_a_target_has_the_row_of_the_position_before_it() -> None:
    # Three tokens are read; the targets are at positions 2 and 3.
    case = Case("xx", "xx", tokens(2), tokens(2))
    result = run(Attention("rollout"), FixedAttention(), case)
    assert result.effects is not None
    np.testing.assert_allclose(result.effects[0], [0.34375, 0.65625], atol=1e-7)
    np.testing.assert_allclose(result.effects[1], [0.15625, 0.28125, 0.5625], atol=1e-7)
    assert result.effect_unit == "attention"


def test_a_phrase_has_the_mean_of_its_rows_over_the_units_before_it() -> None:
    case = Case("xx", "xx", tokens(2), (Token((0, 1), "xx", 0, 2),))
    expected = [(0.34375 + 0.15625) / 2, (0.65625 + 0.28125) / 2]
    np.testing.assert_allclose(effects(Attention("rollout"), FixedAttention(), case)[0], expected, atol=1e-7)


def test_a_protected_unit_keeps_its_attention_and_scores_zero() -> None:
    result = run(Attention("last"), FixedAttention(), Case("xx", "xx", tokens(2, protected=True), tokens(2)))
    assert result.effects is not None
    np.testing.assert_allclose(result.effects[0], [0.25, 0.75], atol=1e-7)
    np.testing.assert_allclose(result.scores[0], [0, 1])
    np.testing.assert_allclose(result.scores[1], [0, 0.5, 0.5])


def test_units_sum_their_tokens() -> None:
    case = Case("xxx", "x", (Token((0,), "x", 0, 1), Token((1, 2), "xx", 1, 3)), tokens(1))
    np.testing.assert_allclose(effects(Attention(), FixedAttention(), case)[0], [0.125, 0.875], atol=1e-7)


def test_nothing_but_protected_attention_leaves_scores_flat() -> None:
    # The second token attends only to the first, which is protected.
    model = FixedAttention()
    model.attentions = lambda ids: [np.array([[[1, 0], [1, 0]]], np.float32)]  # type: ignore[method-assign]  # noqa: ARG005
    result = run(Attention(), model, Case("xx", "x", tokens(2, protected=True), tokens(1)))
    assert result.stopped == ["flat"]
    np.testing.assert_allclose(result.scores[0], [0, 1])


# --- on networks ---


def test_rows_of_every_family_are_distributions(model: HuggingFaceModel, method: Method) -> None:
    case = model.case(PROMPT, max_new_tokens=3)
    result = run(method, model, case)
    assert result.effects is not None
    for t in range(3):
        assert len(result.effects[t]) == len(result.scores[t]) == len(case.input) + t
        assert result.effects[t].sum() == pytest.approx(1, abs=1e-5)
        assert result.scores[t].sum() == pytest.approx(1)
        assert result.scores[t].min() >= 0
        assert not result.scores[t][case.protected[: len(result.scores[t])]].any()
    assert result.stopped == ["fixed"] * 3


def test_one_forward_pass_serves_all_targets(method: Method) -> None:
    model = model_of("gpt2")
    case = model.case(PROMPT, max_new_tokens=5)
    before = copy.copy(model.meter)
    result = run(method, model, case)
    assert result.probes == model.meter.forward_passes - before.forward_passes == 1
    assert model.meter.tokens - before.tokens == len(case.ids) - 1


def test_later_tokens_change_nothing(model: HuggingFaceModel, method: Method) -> None:
    case = model.case(PROMPT, max_new_tokens=3)
    for t, row in enumerate(effects(method, model, case)):
        np.testing.assert_allclose(effects(method, model, case.for_target(t))[0], row, atol=1e-6)


def test_a_contrast_has_the_row_of_its_position(model: HuggingFaceModel, method: Method) -> None:
    case = model.case(PROMPT, max_new_tokens=3)
    contrast = case.contrasted_with(Token((7,), "", 0, 0), 1)
    for row, same in zip(effects(method, model, contrast), effects(method, model, case), strict=False):
        np.testing.assert_allclose(row, same, atol=1e-6)


def test_units_of_a_network_are_sums_of_tokens(method: Method) -> None:
    model = model_of("gpt2")
    case = model.case(PROMPT, max_new_tokens=2)
    groups = [i // 2 for i in range(len(case.input))]
    single, units = effects(method, model, case), effects(method, model, case.grouped(groups))
    np.testing.assert_allclose(units[0], np.bincount(groups, single[0]), atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_distributions(model: HuggingFaceModel, method: Method, dtype: torch.dtype) -> None:
    half = HuggingFaceModel(copy.deepcopy(model.network).to(dtype), model.tokenizer)
    result = run(method, half, half.case(PROMPT, max_new_tokens=2))
    assert result.effects is not None
    for effect, score in zip(result.effects, result.scores, strict=True):
        assert effect.sum() == pytest.approx(1, abs=0.02)
        assert score.sum() == pytest.approx(1)


def test_nothing_is_printed(method: Method, capfd: pytest.CaptureFixture[str]) -> None:
    for family in ("gpt2", "gptj"):  # GPT-J has only one attention implementation
        model = model_of(family)
        case = model.case(PROMPT, max_new_tokens=2)
        capfd.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(method, model, case)
        assert capfd.readouterr() == ("", "")


# --- missing capabilities ---


def test_a_model_without_attention_is_named_before_any_work(method: Method) -> None:
    scripted = ScriptedModel(["a", "b"], lambda context: np.zeros((len(context), 2)))
    name = next(name for name, one in METHODS.items() if one == method)
    with pytest.raises(CapabilityError, match=f"{name}'.*shows its attention.*'scripted'"):
        run(method, scripted, scripted.case("a b", target=" a"))
    assert scripted.meter.forward_passes == 0


def test_a_network_without_attention_is_named(method: Method) -> None:
    tokenizer = tiny.tokenizer_of("gpt2")
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, state_size=4)
    mamba = HuggingFaceModel(AutoModelForCausalLM.from_config(config), tokenizer, name="a-mamba")
    with pytest.raises(CapabilityError, match=r"attention.*shows its attention.*'a-mamba'"):
        run(method, mamba, mamba.case(PROMPT, max_new_tokens=1))
