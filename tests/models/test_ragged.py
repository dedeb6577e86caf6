"""Sequences of different lengths: together they score what each scores alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, MambaConfig

import tiny
from reagent.case import Ids, TargetScores
from reagent.models.base import ScoresRagged
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.padding import pad_right, plan_ragged
from reagent.models.ragged import score_ragged
from reagent.testing import mentions

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the capital,"


def mamba() -> HuggingFaceModel:
    torch.manual_seed(0)
    config = MambaConfig(vocab_size=len(tiny.byte_level_tokenizer()), hidden_size=32, num_hidden_layers=2, state_size=4)
    return HuggingFaceModel(AutoModelForCausalLM.from_config(config), tiny.byte_level_tokenizer(), name="mamba")


def make_model(family: str, **options: int) -> HuggingFaceModel:
    if family == "mamba":
        return mamba()
    return HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family), name=family, **options)


def shortened_texts(model: HuggingFaceModel, kept_start: int, rows: int = 30) -> tuple[list[Ids], Ids, Ids]:
    """A prompt with random tokens left out, but for the first `kept_start` and the last two."""
    case, rng = model.case(PROMPT, target=" Tokyo."), np.random.default_rng(0)
    keep = rng.random((rows, len(case.ids))) < rng.choice([0.2, 0.5, 0.9], (rows, 1))
    keep[:, :kept_start] = keep[:, -2:] = True
    keep[:, case.positions[0] - 1] = True
    positions = np.cumsum(keep, axis=-1)[:, case.positions - 1]
    return [case.ids[row] for row in keep], positions, case.targets


def one_by_one(model: HuggingFaceModel, sequences: list[Ids], positions: Ids, targets: Ids) -> TargetScores:
    rows = []
    for sequence, own in zip(sequences, positions, strict=True):
        model.clear_cache()
        rows.append(model.score(sequence[None], own, targets))
    return TargetScores(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))


def assert_equal(one: TargetScores, other: TargetScores) -> None:
    np.testing.assert_allclose(one.logprob, other.logprob, atol=1e-4)
    np.testing.assert_allclose(one.rank, other.rank, atol=1)  # two logits may differ by rounding only


@pytest.mark.parametrize("kept_start", [0, 1, 9])
@pytest.mark.parametrize("family", [*tiny.FAMILIES, "mamba"])
def test_together_they_score_what_each_scores_alone(family: str, kept_start: int) -> None:
    model = make_model(family)
    texts = shortened_texts(model, kept_start)
    assert len({len(sequence) for sequence in texts[0]}) > 5
    together = model.score_ragged(*texts)
    assert_equal(together, one_by_one(model, *texts))
    assert np.ptp(together.logprob[:, 0]) > 0.01, "the model ignores its context: this test would see nothing"


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2"])
@pytest.mark.parametrize(
    "limits", [{"tokens_at_once": 1}, {"tokens_at_once": 60}, {"logits_at_once": 1}, {"logits_at_once": 2000}]
)
def test_the_size_of_batches_does_not_matter(family: str, limits: dict[str, int]) -> None:
    texts = shortened_texts(make_model(family), 5)
    assert_equal(make_model(family).score_ragged(*texts), make_model(family, **limits).score_ragged(*texts))


def test_the_tokens_from_a_position_on_do_not_matter() -> None:
    model = make_model("llama")
    sequences, positions, targets = shortened_texts(model, 3)
    scores = model.score_ragged(sequences, positions, targets)
    cut = [sequence[: own.max()] for sequence, own in zip(sequences, positions, strict=True)]
    longer = [np.append(sequence, [7, 8, 9]) for sequence in sequences]
    assert_equal(scores, model.score_ragged(cut, positions, targets))
    assert_equal(scores, model.score_ragged(longer, positions, targets))


def test_positions_may_be_in_any_order_and_repeat() -> None:
    model = make_model("gpt2")
    sequences, positions, targets = shortened_texts(model, 3)
    mixed = np.concatenate([positions[:, ::-1], positions[:, :1]], axis=1)
    wanted = np.append(targets[::-1], 9)
    assert_equal(model.score_ragged(sequences, mixed, wanted), one_by_one(model, sequences, mixed, wanted))


def test_the_meter_counts_each_sequence_without_padding() -> None:
    model = make_model("llama")
    sequences, positions, targets = shortened_texts(model, 3)
    model.score_ragged(sequences, positions, targets)
    assert model.meter.forward_passes == len(sequences)
    assert model.meter.tokens == positions.max(-1).sum()


@pytest.fixture
def tokens_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[HuggingFaceModel], list[tuple[int, ...]]]:
    """Records the shape of each batch that a network reads."""

    def watch(model: HuggingFaceModel) -> list[tuple[int, ...]]:
        shapes: list[tuple[int, ...]] = []
        original = model.network.forward

        def forward(input_ids: torch.Tensor, **more: Any) -> Any:
            shapes.append(tuple(input_ids.shape))
            return original(input_ids, **more)

        monkeypatch.setattr(model.network, "forward", forward)
        return shapes

    return watch


def test_a_start_that_all_texts_share_is_read_once(
    tokens_read: Callable[[HuggingFaceModel], list[tuple[int, ...]]],
) -> None:
    model = make_model("llama")
    texts = shortened_texts(model, 12)
    shapes = tokens_read(model)
    model.score_ragged(*texts)
    assert shapes[0] == (1, 12)
    assert sum(rows * length for rows, length in shapes) < 0.7 * texts[1].max(-1).sum()


def test_batches_stay_within_their_limits(
    tokens_read: Callable[[HuggingFaceModel], list[tuple[int, ...]]],
) -> None:
    model = make_model("llama", tokens_at_once=100)
    shapes = tokens_read(model)
    model.score_ragged(*shortened_texts(model, 5))
    assert max(rows * length for rows, length in shapes) <= 100


def test_texts_with_one_token_left_out_read_only_what_comes_after_it(
    tokens_read: Callable[[HuggingFaceModel], list[tuple[int, ...]]],
) -> None:
    model = make_model("llama")
    case = model.case(PROMPT * 4, target=" Tokyo")
    sequences = [np.delete(case.ids, i) for i in range(len(case.input) - 1)]
    positions = np.full((len(sequences), 1), case.positions[0] - 1)
    shapes = tokens_read(model)
    scores = model.score_ragged(sequences, positions, case.targets)
    assert sum(rows * length for rows, length in shapes) < 0.7 * positions.sum()
    assert_equal(scores, one_by_one(model, sequences, positions, case.targets))


def test_little_is_wasted_on_padding() -> None:
    rng = np.random.default_rng(0)
    lengths = np.concatenate([rng.integers(5, 15, 40), rng.integers(100, 120, 40)])
    rng.shuffle(lengths)
    padded = pad_right([rng.integers(0, 999, length) for length in lengths], lengths)
    plan = plan_ragged(padded, lengths[:, None], 2048, 10**6, pass_cost=128, sharing=True)
    read = sum(len(batch.rows) * lengths[batch.rows].max() for batch in plan)
    assert sorted(i for batch in plan for i in batch.rows) == list(range(80))
    assert read < 1.1 * lengths.sum()


def test_a_model_without_the_capability_scores_groups_of_equal_lengths() -> None:
    model = mentions("w5")
    assert not isinstance(model, ScoresRagged)
    assert isinstance(make_model("gpt2"), ScoresRagged)
    sequences = [np.array(row) for row in ([1, 5, 2], [1, 2], [5, 3, 0], [3, 3], [4, 4, 4])]
    positions = np.array([[1, 2], [1, 1], [1, 2], [1, 1], [2, 3]])
    scores = score_ragged(model, sequences, positions, np.array([0, 0]))
    mentioned = np.array([[0, 1], [0, 0], [1, 1], [0, 0], [0, 0]], dtype=bool)
    np.testing.assert_array_equal(scores.rank == 0, mentioned)
    assert model.meter.forward_passes == 5
