"""Masking: what is masked has no say, and what is not stays where it is."""

import numpy as np
import pytest
import torch

import tiny
from reagent.case import Ids
from reagent.errors import CapabilityError
from reagent.models.base import HasAttentionMask, require_attention_mask
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.planted import all_of

LENGTH = 12
KEEP = np.array([1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1], dtype=bool)
POSITIONS = np.array([10, 11])


@pytest.fixture(params=tiny.FAMILIES)
def model(request: pytest.FixtureRequest) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(request.param), tiny.tokenizer_of(request.param), name=request.param)


def texts(rows: int = 3, seed: int = 0) -> Ids:
    return np.random.default_rng(seed).integers(5, 300, (rows, LENGTH))


def test_nothing_masked_is_the_plain_question(model: HuggingFaceModel) -> None:
    sequences, targets = texts(), np.array([7, 9])
    plain = model.score(sequences, POSITIONS, targets)
    before = model.meter.forward_passes
    masked = require_attention_mask(model, "this test").score_masked(
        sequences, np.ones((3, LENGTH), bool), POSITIONS, targets
    )
    assert model.meter.forward_passes == before + 3
    np.testing.assert_allclose(masked.logprob, plain.logprob, atol=1e-4)
    np.testing.assert_array_equal(masked.rank, plain.rank)


def test_what_is_masked_has_no_say(model: HuggingFaceModel) -> None:
    sequences = texts()
    others = np.where(KEEP, sequences, texts(seed=1))
    ask = require_attention_mask(model, "this test").score_masked
    keep = np.tile(KEEP, (3, 1))
    a, b = (ask(s, keep, POSITIONS, np.array([7, 9])).logprob for s in (sequences, others))
    np.testing.assert_allclose(a, b, atol=1e-5)
    assert not np.allclose(a, ask(sequences, np.ones_like(keep), POSITIONS, np.array([7, 9])).logprob, atol=1e-2)


# A window that slides counts what is masked: there, leaving it out is another question.
@pytest.mark.parametrize("model", sorted(set(tiny.FAMILIES) - {"gemma3"}), indirect=True)
def test_what_is_left_keeps_its_position(model: HuggingFaceModel) -> None:
    sequences, left = texts(1), np.flatnonzero(KEEP)
    masked = require_attention_mask(model, "this test").score_masked(
        sequences, KEEP[None], np.array([11]), np.array([7])
    )
    short = torch.from_numpy(sequences[:, left[left < 11]])
    with torch.inference_mode():
        same, moved = (
            model.network(short, position_ids=torch.from_numpy(places)[None]).logits[0, -1].log_softmax(-1)[7]
            for places in (left[left < 11], np.arange(short.shape[1]))
        )
    assert masked.logprob[0, 0] == pytest.approx(float(same), abs=1e-4)
    assert masked.logprob[0, 0] != pytest.approx(float(moved), abs=1e-3)


def test_batches_do_not_matter(model: HuggingFaceModel) -> None:
    cut = HuggingFaceModel(model.network, model.tokenizer, tokens_at_once=13, logits_at_once=1)
    keep = np.tile(KEEP, (3, 1))
    keep[1] = True
    a, b = (
        require_attention_mask(m, "x").score_masked(texts(), keep, POSITIONS, np.array([7, 9])) for m in (model, cut)
    )
    np.testing.assert_allclose(a.logprob, b.logprob, atol=1e-4)


def test_a_model_that_cannot_is_named() -> None:
    with pytest.raises(CapabilityError, match=r"greedy search by masking needs .* 'scripted' .* attention_mask and"):
        require_attention_mask(all_of({}), "greedy search by masking")


def test_a_network_that_counts_by_the_mask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = HuggingFaceModel(tiny.network_of("gpt2"), tiny.tokenizer_of("gpt2"), name="alibi")
    assert isinstance(require_attention_mask(model, "x"), HasAttentionMask)
    monkeypatch.setattr(model.network.config, "alibi", True, raising=False)
    with pytest.raises(CapabilityError, match=r"'alibi' .* does not take position_ids"):
        require_attention_mask(model, "x")
