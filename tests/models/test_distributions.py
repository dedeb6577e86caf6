"""Whole distributions of real networks, after tokens and after embeddings."""

import numpy as np
import pytest
import torch

import tiny
from reagent.errors import CapabilityError
from reagent.models.base import (
    HasDistributions,
    HasEmbeddings,
    capability_error,
    find_distributions,
    find_embeddings,
)
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.scripted import ScriptedModel

TEXT = "The river runs through the old town, and the children play"


def model_of(family: str, **limits: int) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family), **limits)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_embeddings_say_what_their_tokens_say(family: str) -> None:
    model = model_of(family)
    case = model.case(TEXT, max_new_tokens=4)
    reader = find_embeddings(model)
    assert isinstance(reader, HasEmbeddings)
    read = reader.after_embeddings(reader.embed(case.ids)[None], case.positions)
    from_tokens = reader.after_tokens(case.ids[None], case.positions)
    assert read.shape == (1, 4, len(tiny.tokenizer_of(family)))
    np.testing.assert_allclose(read, from_tokens, atol=1e-4)
    np.testing.assert_allclose(np.exp(from_tokens).sum(-1), 1, atol=1e-5)
    asked = model.score(case.ids[None], case.positions, case.targets).logprob[0]
    np.testing.assert_allclose(from_tokens[0, np.arange(4), case.targets], asked, atol=1e-4)


@pytest.mark.parametrize("family", ["gpt2", "gptj", "opt", "gemma3"])  # with and without logits_to_keep
@pytest.mark.parametrize("limits", [{"tokens_at_once": 20}, {"logits_at_once": 500}])
def test_limits_change_batches_and_nothing_else(family: str, limits: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    sequences = rng.integers(5, 300, size=(9, 12))
    positions = np.array([7, 11])
    small, large = model_of(family, **limits), model_of(family)
    found = [find_distributions(model).after_tokens(sequences, positions) for model in (small, large)]
    np.testing.assert_allclose(*found, atol=1e-4)
    embeddings = np.stack([find_embeddings(large).embed(row) for row in sequences])
    found = [find_embeddings(model).after_embeddings(embeddings, positions) for model in (small, large)]
    np.testing.assert_allclose(*found, atol=1e-4)
    assert small.meter == large.meter
    assert small.meter.forward_passes == 18
    assert small.meter.tokens == 18 * 11


def test_a_batch_is_bounded_by_tokens_and_by_logits() -> None:
    vocabulary = len(tiny.tokenizer_of("llama"))
    assert find_distributions(model_of("llama", tokens_at_once=100)).rows_at_once(10, 1) == 10
    assert find_distributions(model_of("llama", logits_at_once=6 * vocabulary)).rows_at_once(10, 2) == 3
    assert find_distributions(model_of("llama", tokens_at_once=1)).rows_at_once(10, 1) == 1


def test_a_black_box_has_neither() -> None:
    model = ScriptedModel(["a", "b"], lambda context: np.zeros((len(context), 2)))
    assert find_distributions(model) is None
    assert find_embeddings(model) is None
    error = capability_error(model, HasEmbeddings, "metric 'soft_ns'")
    assert isinstance(error, CapabilityError)
    assert "soft_ns" in str(error)
    assert "'scripted'" in str(error)
    assert "reads embeddings and gives whole distributions" in str(error)


def test_a_network_that_takes_tokens_only_gives_distributions_all_the_same() -> None:
    network = tiny.network_of("gpt2")

    class TokensOnly(torch.nn.Module):
        config, dtype, device = network.config, network.dtype, network.device

        def forward(self, input_ids: torch.Tensor, use_cache: bool = False) -> object:
            return network(input_ids, use_cache=use_cache)

    model = HuggingFaceModel(TokensOnly(), tiny.tokenizer_of("gpt2"))  # type: ignore[arg-type]
    assert find_embeddings(model) is None
    distributions = find_distributions(model)
    assert isinstance(distributions, HasDistributions)
    ids = np.array([[5, 6, 7, 8]])
    expected = find_distributions(model_of("gpt2")).after_tokens(ids, np.array([2, 4]))
    np.testing.assert_allclose(distributions.after_tokens(ids, np.array([2, 4])), expected, atol=1e-5)
