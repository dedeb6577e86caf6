"""Values, gradients and attention of every family. The network itself is not changed."""

import copy
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, MambaConfig

import reagent
import tiny
from architectures import build
from reagent.case import Case
from reagent.errors import CapabilityError
from reagent.explanation import Token
from reagent.models.base import Differentiable, HasAttention, Singles
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.internals import score_targets
from reagent.models.network import Network
from reagent.testing.scripted import ScriptedModel

PROMPT = "The river runs through the old town"


@pytest.fixture(params=tiny.FAMILIES)
def model(request: pytest.FixtureRequest) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(request.param), tiny.tokenizer_of(request.param))


@pytest.fixture
def gpt2() -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of("gpt2"), tiny.tokenizer_of("gpt2"))


def read(model: HuggingFaceModel, case: Case) -> Singles:
    """The embeddings of all that is read, as one point."""
    found = model.embed(case.ids[: case.positions.max()])
    assert found is not None
    return found[None]


def test_a_local_model_gives_gradients_and_attention_and_a_scripted_one_does_not(gpt2: HuggingFaceModel) -> None:
    scripted = ScriptedModel(["a"], lambda context: np.zeros((len(context), 1)))
    for capability in (Differentiable, HasAttention):
        assert isinstance(gpt2, capability)
        assert not isinstance(scripted, capability)


# --- values ---


def test_embeddings_say_what_their_tokens_say(model: HuggingFaceModel) -> None:
    case = model.case(PROMPT, max_new_tokens=4).with_logprobs(model)
    np.testing.assert_allclose(model.values(case, read(model, case))[0], case.values, atol=1e-5)


def test_phrases_and_contrasts_have_the_values_of_the_case(model: HuggingFaceModel) -> None:
    tokens = model.case(PROMPT, target=" and the old town")
    contrast = Token((7,), "", 0, 0)
    phrase = tokens.with_phrase(tokens.output[1].start, tokens.output[2].end)
    assert [len(unit.ids) for unit in phrase.output[:2]] == [1, 2]
    for case in (phrase, tokens.contrasted_with(contrast, 2)):
        expected = case.score_outputs(model, case.ids[None]).value
        np.testing.assert_allclose(model.values(case, read(model, case)), expected, atol=1e-5)


# --- gradients ---


def test_gradients_are_those_of_finite_differences(model: HuggingFaceModel) -> None:
    model = HuggingFaceModel(
        copy.deepcopy(model.network).double(), model.tokenizer
    )  # small steps, past few kinks of a ReLU
    case = model.case(PROMPT, max_new_tokens=2)
    text = read(model, case)
    gradients = model.gradients(case, text, [0, 1])[0]  # [targets, length, width]
    assert gradients.shape == (2, *text.shape[1:])
    step = 2e-4
    for position in (0, 3, text.shape[1] - 2):
        direction = np.zeros_like(text)
        direction[0, position] = np.random.default_rng(position).normal(size=text.shape[2])
        ahead, behind = (model.values(case, text + sign * step * direction)[0] for sign in (1, -1))
        slope = (ahead - behind) / (2 * step)
        np.testing.assert_allclose((gradients * direction).sum((-1, -2)), slope, rtol=0.01, atol=0.01)


def test_nothing_that_stands_behind_a_target_has_a_gradient(model: HuggingFaceModel) -> None:
    case = model.case(PROMPT, max_new_tokens=3)
    gradients = model.gradients(case, read(model, case), [0, 2])[0]
    begin = case.unit_starts[len(case.input)]
    assert not gradients[0, begin:].any()
    assert gradients[1, begin:].any()


def test_how_batches_are_cut_changes_nothing(model: HuggingFaceModel) -> None:
    case = model.case(PROMPT, max_new_tokens=3)
    points = np.concatenate([share * read(model, case) for share in (1.0, 0.8, 0.6)])
    cut = HuggingFaceModel(model.network, model.tokenizer, tokens_at_once=1, logits_at_once=1)
    for other, batch in ((model, 1), (model, 2), (cut, None)):
        np.testing.assert_allclose(other.values(case, points, batch), model.values(case, points), atol=1e-5)
        expected = model.gradients(case, points, [2, 0])
        np.testing.assert_allclose(other.gradients(case, points, [2, 0], batch), expected, atol=1e-4)


def test_a_forward_pass_is_counted_for_each_point(gpt2: HuggingFaceModel) -> None:
    case = gpt2.case(PROMPT, max_new_tokens=3)
    points = np.repeat(read(gpt2, case), 5, axis=0)
    before = copy.copy(gpt2.meter)
    gpt2.gradients(case, points, [0, 1, 2], batch=2)
    assert gpt2.meter.forward_passes - before.forward_passes == 5
    assert gpt2.meter.tokens - before.tokens == 5 * points.shape[1]
    gpt2.values(case, points)
    assert gpt2.meter.forward_passes - before.forward_passes == 10


def test_gradients_come_out_of_inference_mode_and_leave_none_on_the_weights(gpt2: HuggingFaceModel) -> None:
    case = gpt2.case(PROMPT, max_new_tokens=1)
    with torch.inference_mode():
        assert gpt2.gradients(case, read(gpt2, case), [0]).any()
    assert all(weight.grad is None for weight in gpt2.network.parameters())


def test_a_network_that_takes_only_tokens_has_no_embeddings_to_give(gpt2: HuggingFaceModel) -> None:
    class TokensOnly(torch.nn.Module):
        def forward(self, input_ids: Any) -> Any:
            return gpt2.network(input_ids)

    assert Network(TokensOnly()).embed(np.array([1, 2])) is None  # type: ignore[arg-type]


# --- attention ---


def test_attention_of_every_family_is_causal_and_its_rows_sum_to_one(model: HuggingFaceModel) -> None:
    ids = model.case(PROMPT, max_new_tokens=2).ids
    layers = model.attentions(ids)
    assert layers is not None
    assert [layer.shape for layer in layers] == [(4, len(ids), len(ids))] * 2
    for layer in layers:
        np.testing.assert_allclose(layer.sum(-1), 1, atol=1e-5)
        assert not layer[:, *np.triu_indices(len(ids), 1)].any()


def test_a_window_that_slides_is_seen() -> None:
    model = HuggingFaceModel(tiny.network_of("gemma3"), tiny.tokenizer_of("gemma3"))
    layers = model.attentions(model.case(PROMPT, max_new_tokens=2).ids)
    assert layers is not None
    assert not layers[0][:, -1, :-6].any()
    assert layers[0][:, -1, -6:].all()


def test_the_network_keeps_its_implementation_and_shares_its_weights(model: HuggingFaceModel) -> None:
    network = model.network
    settings, weights = copy.deepcopy(network.config.to_dict()), [w.data_ptr() for w in network.parameters()]
    case = model.case(PROMPT, max_new_tokens=2)
    before = model.score(case.ids[None], case.positions, case.targets).logprob
    kind = network.config._attn_implementation
    assert model.attentions(case.ids) is not None
    assert network.config._attn_implementation == kind
    assert network.config.to_dict() == settings
    eager = model._adapter._eager
    assert eager.config._attn_implementation == "eager"
    assert [w.data_ptr() for w in network.parameters()] == weights
    assert [w.data_ptr() for w in eager.parameters()] == weights  # a copy would cost as much memory again
    np.testing.assert_array_equal(model.score(case.ids[None], case.positions, case.targets).logprob, before)


def test_a_network_without_attention_shows_none() -> None:
    torch.manual_seed(0)
    tokenizer = tiny.tokenizer_of("gpt2")
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, state_size=4)
    mamba = HuggingFaceModel(AutoModelForCausalLM.from_config(config), tokenizer)
    case = mamba.case(PROMPT, max_new_tokens=1)
    assert mamba.attentions(case.ids) is None
    assert mamba.gradients(case, read(mamba, case), [0]).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_numbers(model: HuggingFaceModel, dtype: torch.dtype) -> None:
    half = HuggingFaceModel(copy.deepcopy(model.network).to(dtype), model.tokenizer)
    case = model.case(PROMPT, max_new_tokens=2)
    exact = model.gradients(case, read(model, case), [0, 1])
    found = half.gradients(case, read(half, case), [0, 1])
    assert found.dtype == np.float32
    assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.9
    layers = half.attentions(case.ids)
    assert layers is not None
    assert all(np.isfinite(layer).all() for layer in layers)


def test_attention_of_some_layers_only_is_marked() -> None:
    for model_type, expected in (("qwen3_next", "partial"), ("gpt_oss", "partial"), ("llama", "fixed")):
        model = HuggingFaceModel(build(model_type), tiny.byte_level_tokenizer())
        why = reagent.explain(model, PROMPT, target=" and", method="attention")
        assert why.cost.stopped == (expected,), model_type


def test_attention_of_another_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = HuggingFaceModel(build("gpt2"), tiny.byte_level_tokenizer())
    other = copy.deepcopy(model.network)
    other.set_attn_implementation("eager")
    torch.nn.init.normal_(other.transformer.wpe.weight)
    monkeypatch.setattr(model._adapter, "_eager", other)
    with pytest.raises(CapabilityError, match="shows its attention"):
        reagent.explain(model, PROMPT, target=" and", method="attention")


def test_embeddings_are_not_changed_in_place() -> None:
    model = HuggingFaceModel(build("ctrl"), tiny.byte_level_tokenizer())
    case = model.case(PROMPT, " and the")
    text = read(model, case)
    before = text.copy()
    assert model.gradients(case, text, [0]).any()
    model.values(case, text)
    np.testing.assert_array_equal(text, before)


def test_scores_are_read_at_the_places_of_the_targets() -> None:
    logits = torch.randn(5, 4, 7, generator=torch.Generator().manual_seed(0))
    targets, places = torch.tensor([3, 6]), torch.tensor([[0, 1], [2, 3], [1, 1], [3, 0], [2, 2]])
    with patch("reagent.models.internals.LOGITS_IN_CACHE", 28):  # two rows at a time
        logprob, rank = score_targets(logits, targets, places)
    for row in range(5):
        for j, target in enumerate(targets):
            probabilities = logits[row, places[row, j]].softmax(-1)
            assert np.exp(logprob[row, j]) == pytest.approx(float(probabilities[target]), rel=1e-5)
            assert rank[row, j] == (probabilities > probabilities[target]).sum()
