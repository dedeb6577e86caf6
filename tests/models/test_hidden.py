"""Hidden parts of a prefix that was read once: only the text after it is read again."""

from typing import Any

import numpy as np
import pytest
import torch

import tiny
from reagent.case import Floats, Ids, Mask
from reagent.models.base import HidesPrefix
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.planted import all_of

PREFIX, LENGTH = 14, 20
POSITIONS, TARGETS = np.array([18, 19]), np.array([7, 9])


@pytest.fixture(params=sorted(set(tiny.FAMILIES) - {"gemma3"}))
def model(request: pytest.FixtureRequest) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(request.param), tiny.tokenizer_of(request.param), name=request.param)


def text() -> Ids:
    return np.random.default_rng(0).integers(5, 300, LENGTH)


def some_hidden() -> Mask:
    hidden = np.zeros((3, PREFIX), dtype=np.bool_)
    hidden[1, 3:6] = hidden[2, 8:13] = True
    return hidden


def score(model: HuggingFaceModel, hidden: Mask) -> Floats:
    scores = model.score_hidden(text(), hidden, POSITIONS, TARGETS)
    assert scores is not None
    return scores.logprob


def test_nothing_hidden_is_the_plain_text(model: HuggingFaceModel) -> None:
    plain = model.score(text()[None], POSITIONS, TARGETS)
    before = model.meter.forward_passes, model.meter.tokens
    scores = model.score_hidden(text(), some_hidden()[:1], POSITIONS, TARGETS)
    assert scores is not None
    np.testing.assert_allclose(scores.logprob, plain.logprob, atol=1e-4)
    np.testing.assert_array_equal(scores.rank, plain.rank)
    assert (model.meter.forward_passes, model.meter.tokens) == (before[0] + 2, before[1] + 19)


def test_only_the_tokens_after_the_prefix_do_not_see_what_is_hidden(model: HuggingFaceModel) -> None:
    found, length = score(model, some_hidden()), int(POSITIONS.max())
    for row, hidden in zip(found, some_hidden(), strict=True):
        sees = np.tril(np.ones((length, length), dtype=np.bool_))
        sees[PREFIX:, :PREFIX] &= ~hidden
        np.testing.assert_allclose(row, explicitly_masked(model.network, text()[:length], sees), atol=1e-4)
    assert not np.allclose(found[0], found[1], atol=1e-3)


def explicitly_masked(network: Any, ids: Ids, sees: Mask) -> Floats:
    """Log-probabilities with a mask for every pair of positions."""
    mask = torch.zeros(1, 1, *sees.shape).masked_fill(~torch.from_numpy(sees), torch.finfo(torch.float32).min)
    places = torch.arange(len(ids))[None]
    with torch.inference_mode():
        logits = network(torch.from_numpy(ids)[None], attention_mask=mask, position_ids=places).logits[0]
    return np.array(logits.log_softmax(-1)[POSITIONS - 1, TARGETS].double())


def test_a_long_text_that_was_just_read_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reagent.models.huggingface.LONG_TEXT", LENGTH - 1)
    model = HuggingFaceModel(tiny.network_of("llama"), tiny.tokenizer_of("llama"))
    expected = score(model, some_hidden())
    model.score(np.arange(5, 5 + LENGTH)[None], POSITIONS, TARGETS)  # another text
    plain, before = model.score(text()[None], POSITIONS, TARGETS), model.meter.tokens
    np.testing.assert_allclose(score(model, some_hidden()), expected, atol=1e-4)
    np.testing.assert_allclose(plain.logprob[0], expected[0], atol=1e-4)
    assert model.meter.tokens == before + 3 * (int(POSITIONS.max()) - PREFIX)


def test_a_network_with_windows_says_so() -> None:
    """Its layers see different parts of the prefix."""
    model = HuggingFaceModel(tiny.network_of("gemma3"), tiny.tokenizer_of("gemma3"))
    assert model.score_hidden(text(), some_hidden(), POSITIONS, TARGETS) is None


def test_batches_do_not_matter(model: HuggingFaceModel) -> None:
    cut = HuggingFaceModel(model.network, model.tokenizer, tokens_at_once=13, logits_at_once=1)
    np.testing.assert_allclose(score(model, some_hidden()), score(cut, some_hidden()), atol=1e-4)


def test_the_prefix_stays_as_it_was(model: HuggingFaceModel) -> None:
    first, _ = score(model, some_hidden()), model.score(text()[None], POSITIONS, TARGETS)
    np.testing.assert_allclose(score(model, some_hidden()), first, atol=1e-5)


def test_a_network_without_mask_or_plain_cache_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    model = HuggingFaceModel(tiny.network_of("gpt2"), tiny.tokenizer_of("gpt2"), name="alibi")
    assert isinstance(model, HidesPrefix)
    assert not isinstance(all_of({}), HidesPrefix)
    model._adapter.has_cache = False
    assert model.score_hidden(text(), some_hidden(), POSITIONS, TARGETS) is None
    model._adapter.has_cache = True
    monkeypatch.setattr(model.network.config, "alibi", True, raising=False)
    assert model.score_hidden(text(), some_hidden(), POSITIONS, TARGETS) is None
    assert model.meter.forward_passes == 0
