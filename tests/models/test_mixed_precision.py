"""Scores with products in bfloat16: close to float32, and everything else as in float32."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tiny
import tiny_seq2seq
from reagent import explain, load_model
from reagent.errors import InputError
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.mixed_precision import HalfProduct, with_half_products

PROMPT = "The river runs through the old town"


def pair(family: str) -> tuple[Any, Any]:
    return tiny.network_of(family), tiny.tokenizer_of(family)


@pytest.fixture(params=["llama", "gpt2", "gemma3"])
def models(request: pytest.FixtureRequest) -> tuple[HuggingFaceModel, HuggingFaceModel]:
    plain, mixed = load_model(pair(request.param)), load_model(pair(request.param), dtype="mixed")
    assert isinstance(plain, HuggingFaceModel)
    assert isinstance(mixed, HuggingFaceModel)
    return plain, mixed


def test_scores_are_close_and_not_equal(models: tuple[HuggingFaceModel, HuggingFaceModel]) -> None:
    plain, mixed = models
    case = plain.case(PROMPT, max_new_tokens=3)
    texts = np.tile(case.ids, (4, 1))
    texts[1:, 2] = plain.ordinary_ids[:3]
    found = [model.score(texts, case.positions, case.targets).logprob for model in models]
    ragged = mixed.score_ragged(list(texts), np.tile(case.positions, (4, 1)), case.targets).logprob
    np.testing.assert_allclose(found[1], found[0], atol=0.03)
    np.testing.assert_allclose(ragged, found[0], atol=0.03)
    assert (found[0] != found[1]).any()
    after = [model.after_tokens(texts, case.positions) for model in models]
    np.testing.assert_allclose(after[1], after[0], atol=0.1)


def test_all_else_is_computed_in_float32(models: tuple[HuggingFaceModel, HuggingFaceModel]) -> None:
    plain, mixed = models
    assert (plain.info["dtype"], mixed.info["dtype"]) == ("float32", "mixed")
    for method in ("input_x_gradient", "attention", "ifr"):
        scores = [explain(model, PROMPT, max_new_tokens=2, method=method).scores for model in models]
        assert scores[0] == scores[1]


def test_weights_are_shared_and_the_output_layer_is_whole() -> None:
    network, _ = pair("llama")
    twin = with_half_products(network)
    assert twin.lm_head.weight is network.lm_head.weight
    assert twin.model.norm.weight is network.model.norm.weight
    assert isinstance(twin.model.layers[0].mlp.up_proj, HalfProduct)
    assert not any(isinstance(part, HalfProduct) for part in network.modules())


def test_a_bias_is_added() -> None:
    layer = torch.nn.Linear(4, 3)
    text = torch.ones(2, 4)
    torch.testing.assert_close(HalfProduct(layer)(text), layer(text), atol=0.02, rtol=0)


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    del tmp_path
    network = tiny_seq2seq.network_of("t5")
    with pytest.raises(InputError, match="dtype 'mixed' is for causal models"):
        load_model((network, tiny_seq2seq.tokenizer_of("t5")), dtype="mixed")
