"""Removal: what a model reads when units are deleted, masked or replaced."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiny
from reagent.case import OVERTAKEN, Case, Ids, Mask, TargetScores
from reagent.errors import CapabilityError, InputError
from reagent.models.dry_run import DryRunModel
from reagent.models.huggingface import HuggingFaceModel
from reagent.removal import REMOVALS, check_removal, count_passes, make_remover, require_removal
from reagent.replacers import Proposals, make_replacer
from reagent.testing import ScriptedModel, mentions
from reagent.testing.planted import WORDS

PROMPT = "My aunt moved to Japan to teach music."


class Recorder:
    """A scripted model that records the texts before each target."""

    def __init__(self) -> None:
        self.model = mentions("w5")
        self.info, self.meter, self.case = self.model.info, self.model.meter, self.model.case
        self.texts: list[list[str]] = []

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        for row in sequences:
            self.texts.append([" ".join(WORDS[i] for i in row[:p]) for p in positions])
        return self.model.score(sequences, positions, targets)


def some_proposals(model: Any, case: Case) -> Proposals:
    return make_replacer("random").propose(model, case, np.random.default_rng(0))


def deleted(prompt: str, target: str, removed: list[int], protected: tuple[int, ...] = ()) -> list[str]:
    """What the model reads before each target when these free units are deleted."""
    model = Recorder()
    case = model.case(prompt, target)
    case = replace(case, input=tuple(replace(u, protected=i in protected) for i, u in enumerate(case.input)))
    remover = make_remover("delete", model, case, some_proposals(model.model, case))
    mask = np.zeros((1, len(remover.free)), dtype=bool)
    mask[0, removed] = True
    remover.score(mask)
    (texts,) = model.texts
    return texts


def test_deleted_units_are_left_out() -> None:
    assert deleted("w1 w2 w3 w4", " w7", [1, 2]) == ["w1 w4"]
    assert deleted("w1 w2 w3 w4", " w7", [3]) == ["w1 w2 w3"]


def test_a_deleted_output_unit_is_still_a_target() -> None:
    assert deleted("w1 w2", " w7 w8 w9", [2]) == ["w1 w2", "w1 w2", "w1 w2 w8"]
    assert deleted("w1 w2", " w7 w8 w9", [0, 3]) == ["w2", "w2 w7", "w2 w7"]


def test_the_last_token_of_the_prompt_stays_if_nothing_else_does() -> None:
    assert deleted("w1 w2", " w7 w8", [0, 1, 2]) == ["w2", "w2"]
    assert deleted("w1 w2", " w7 w8", [0, 1]) == ["w2", "w2 w7"]


def test_a_protected_unit_stays_and_is_enough() -> None:
    assert deleted("w1 w2 w3", " w7", [0, 1], protected=(0,)) == ["w1"]


@pytest.mark.parametrize("removal", REMOVALS)
def test_nothing_removed_is_the_original_text(removal: str) -> None:
    model = HuggingFaceModel(tiny.network_of("llama"), tiny.tokenizer_of("llama"))
    case = model.case(PROMPT, " She rents").with_logprobs(model)
    remover = make_remover(removal, model, case, some_proposals(model, case))
    nothing = np.zeros((2, len(remover.free)), dtype=bool)
    scores = remover.score(nothing, np.zeros(nothing.shape))
    expected = case.score_outputs(model, case.ids[None])
    np.testing.assert_allclose(scores.value, np.tile(expected.value, (2, 1)), atol=1e-4)
    np.testing.assert_array_equal(scores.rank, np.tile(expected.rank, (2, 1)))


@pytest.mark.parametrize("family", ["gpt2", "gemma3"])
def test_deletion_is_the_score_of_the_shorter_text(family: str) -> None:
    model = HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family))
    case = model.case(PROMPT, " She rents")
    remover = make_remover("delete", model, case, some_proposals(model, case))
    outputs = [u for u in remover.free if u >= len(case.input)]
    assert outputs, "the target has one token: this test would see no deleted output"
    removed = np.random.default_rng(0).random((20, len(remover.free))) < 0.5
    scores = remover.score(removed)
    for row, marks in enumerate(removed):
        gone = set(remover.free[marks].tolist())
        for t, position in enumerate(case.positions.tolist()):
            text = np.array([[i for k, i in enumerate(case.ids[:position].tolist()) if case.unit_of[k] not in gone]])
            if text.shape[1]:
                alone = model.score(text, np.array([text.shape[1]]), case.targets[[t]])
                assert scores.value[row, t] == pytest.approx(alone.logprob[0, 0], abs=1e-4)
                assert scores.rank[row, t] == alone.rank[0, 0]


def test_a_start_token_stays() -> None:
    model = HuggingFaceModel(tiny.network_of("gemma"), tiny.tokenizer_of("gemma"))
    case = model.case(PROMPT, " She")
    remover = make_remover("delete", model, case, some_proposals(model, case))
    assert case.input[0].protected
    assert 0 not in remover.free
    scores = remover.score(np.ones((1, len(remover.free)), dtype=bool))
    start = model.score(case.ids[None, :1], np.array([1]), case.targets[:1])
    assert scores.value[0, 0] == pytest.approx(start.logprob[0, 0], abs=1e-4)


def test_a_phrase_is_never_removed_and_counts_all_its_tokens() -> None:
    model = HuggingFaceModel(tiny.network_of("gpt2"), tiny.tokenizer_of("gpt2"))
    case = model.case(PROMPT, " She rents a flat")
    phrase = case.with_phrase(0, 10)
    assert len(phrase.output[0].ids) > 1
    remover = make_remover(
        "delete", model, phrase, some_proposals(model, case).grouped(phrase, np.random.default_rng(0))
    )
    assert len(phrase.input) not in remover.free
    assert len(phrase.input) + 1 in remover.free
    mask = np.zeros((1, len(remover.free)), dtype=bool)
    mask[0, 2] = True
    shorter = np.delete(case.ids, 2)
    expected = model.score(shorter[None], case.positions - 1, case.targets).logprob[0]
    assert remover.score(mask).value[0, 0] == pytest.approx(expected[: len(phrase.output[0].ids)].sum(), abs=1e-4)


def test_a_contrast_is_scored_in_the_shorter_text() -> None:
    model = mentions("w5")
    plain = model.case("w1 w5 w2", " w0 w3")
    case = plain.contrasted_with(model.case("w19").input[0], 0).with_logprobs(model)
    remover = make_remover("delete", model, case, some_proposals(model, plain))
    scores = remover.score(np.array([[False, False, False], [False, True, False]]))
    np.testing.assert_allclose(scores.value[:, 0], [1.5, -1.5])
    assert scores.rank[:, 0].tolist() == [0, OVERTAKEN]


def test_masking_removes_prompt_units_but_the_last() -> None:
    model = HuggingFaceModel(tiny.network_of("llama"), tiny.tokenizer_of("llama"))
    case = model.case(PROMPT, " She rents")
    remover = make_remover("mask", model, case, some_proposals(model, case))
    assert remover.free.tolist() == list(range(len(case.input) - 1))
    removed = np.random.default_rng(0).random((6, len(remover.free))) < 0.5
    keep = np.ones((6, len(case.ids)), dtype=bool)
    keep[:, remover.free] = ~removed
    expected = model.score_masked(np.tile(case.ids, (6, 1)), keep, case.positions, case.targets)
    np.testing.assert_allclose(remover.score(removed).value, expected.logprob, atol=1e-5)


def test_replacement_uses_the_numbers_that_it_is_given() -> None:
    model = mentions("w5")
    case = model.case("w1 w5 w2", " w0")
    proposals = some_proposals(model, case)
    remover = make_remover("replace", model, case, proposals)
    rng = np.random.default_rng(0)
    removed, uniform = rng.random((8, 3)) < 0.5, rng.random((8, 3))
    texts = proposals.apply(removed, proposals.choose(uniform, remover.free), remover.free)
    np.testing.assert_array_equal(remover.score(removed, uniform).value, case.score_outputs(model, texts).value)
    assert remover.is_random


@pytest.mark.parametrize("removal", ["delete", "mask"])
def test_identical_rows_are_scored_once(removal: str) -> None:
    model = HuggingFaceModel(tiny.network_of("gpt2"), tiny.tokenizer_of("gpt2"))
    case = model.case(PROMPT, " She")
    remover = make_remover(removal, model, case, some_proposals(model, case))
    different: Mask = np.random.default_rng(0).random((3, len(remover.free))) < 0.5
    before = model.meter.forward_passes
    order = [2, 0, 0, 1, 2]
    repeated = remover.score(different[order])
    assert model.meter.forward_passes - before == count_passes(remover, different[order]) == 3
    np.testing.assert_allclose(repeated.value, remover.score(different).value[order], atol=1e-5)
    assert not remover.is_random


@pytest.mark.parametrize("removal", REMOVALS)
def test_a_dry_run_counts_the_same_passes(removal: str) -> None:
    model = HuggingFaceModel(tiny.network_of("gpt2"), tiny.tokenizer_of("gpt2"))
    case = model.case(PROMPT, " She rents")
    passes = []
    for subject in (model, DryRunModel(model)):
        require_removal(subject, removal, "method 'x'")
        remover = make_remover(removal, subject, case, some_proposals(model, case))
        before = replace(subject.meter)
        removed = np.random.default_rng(0).random((9, len(remover.free))) < 0.5
        remover.score(removed, np.zeros(removed.shape))
        meter = subject.meter
        passes.append((meter.forward_passes - before.forward_passes, meter.tokens - before.tokens))
    assert passes[0] == passes[1]


def test_a_dry_run_masks_only_what_the_model_can_mask() -> None:
    with pytest.raises(CapabilityError, match="attention_mask"):
        require_removal(DryRunModel(mentions("w5")), "mask", "method 'x'")


def test_a_wrong_name_and_a_model_without_masks_are_reported() -> None:
    with pytest.raises(InputError, match=r"removal 'erase'.*delete, mask, replace"):
        check_removal("erase")
    model: ScriptedModel = mentions("w5")
    for removal in ("delete", "replace"):
        require_removal(model, removal, "method 'x'")
    with pytest.raises(CapabilityError, match=r"method 'x' with removal 'mask' needs .* attention mask"):
        require_removal(model, "mask", "method 'x'")
