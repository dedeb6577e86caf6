"""Scaled rotary positions: scores with shared prefixes, against plain passes, below, across and beyond each limit."""

from typing import Any

import numpy as np
import pytest

import reagent
import tiny
from architectures import make_network, shrink
from reagent.errors import CapabilityError, InputError
from sweep import CHECKS, PROMPT, TARGET, PlainModel, Subject

LENGTH = len(tiny.byte_level_tokenizer()(PROMPT + TARGET)["input_ids"])
SHORT, LONG = [1.0] * 4, [8.0] * 4  # factors, one for each pair of dimensions
LAYERS = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "sliding_window": None}


def long_rope(model_type: str, limit: int) -> Any:
    """A network whose keys have the long factors in texts of more than `limit` tokens."""
    options = {"max_position_embeddings": 128, "original_max_position_embeddings": limit, **LAYERS}
    rope = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "rope_theta": 100.0}
    if model_type == "phimoe":
        rope |= {"short_mscale": 1.0, "long_mscale": 1.2}
    rope["original_max_position_embeddings"] = limit
    return make_network(shrink(model_type, **options, rope_parameters=rope))


LIMITS = [LENGTH, LENGTH - 2, LENGTH - 3, 9]  # beyond all that is read, between the targets, before them


@pytest.mark.parametrize(("model_type", "limit"), [*(("phi3", limit) for limit in LIMITS), ("phimoe", LENGTH - 2)])
def test_two_lists_of_factors(model_type: str, limit: int) -> None:
    subject = Subject(long_rope(model_type, limit))
    assert subject.model._adapter.rope_switch == limit
    for name, check in CHECKS.items():
        if name == "attention" and limit < LENGTH:
            with pytest.raises(CapabilityError, match="attention"):
                check(subject)
        else:
            check(subject)


def test_the_two_lists_differ() -> None:
    """Otherwise the test above would see nothing."""
    values = []
    for limit in (LENGTH + 9, 9):
        model = PlainModel(long_rope("phi3", limit), tiny.byte_level_tokenizer())
        case = model.case(PROMPT, TARGET)
        values.append(model.score(case.ids[None], case.positions, case.targets).logprob)
    assert np.abs(values[0] - values[1]).max() > 0.1


def test_a_prefix_of_a_short_text_is_not_continued_in_a_long_one() -> None:
    limit = LENGTH - 6
    subject = Subject(long_rope("phi3", limit))
    short = np.repeat(subject.case.ids[None, :limit], 3, axis=0)
    short[1:, -2] = 50, 60
    at = np.array([limit - 1])
    for _ in range(2):  # the second time after a long text
        found = subject.model.score(short, at, subject.case.targets[:1]).logprob
        np.testing.assert_allclose(found, subject.plain.score(short, at, subject.case.targets[:1]).logprob, atol=1e-4)
        CHECKS["scores"](subject)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        {
            "rope_type": "llama3",
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
        {"rope_type": "dynamic", "factor": 4.0},
    ],
    ids=lambda rope: str(rope["rope_type"]),
)
def test_one_set_of_factors_for_all_lengths(rope: dict[str, Any]) -> None:
    options = {"max_position_embeddings": 64, "rope_parameters": {**rope, "rope_theta": 100.0}}
    subject = Subject(make_network(shrink("llama", **options)))
    for name in ("scores", "batches", "generation"):
        CHECKS[name](subject)


def test_dynamic_factors_are_not_used() -> None:
    """Beyond the trained length they depend on the length of the text, and on the longest text that was read before."""
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0}
    network = make_network(shrink("llama", max_position_embeddings=16, rope_parameters=rope))
    with pytest.raises(InputError, match="reads at most 16"):
        reagent.explain((network, tiny.byte_level_tokenizer()), PROMPT, target=TARGET)


def test_units_are_hidden_in_a_text_that_ends_shortly_before_the_limit() -> None:
    """The copies that are read together are longer than the limit; their positions are not."""
    model = reagent.load_model((long_rope("phi3", LENGTH), tiny.byte_level_tokenizer()))
    case = model.case(PROMPT, TARGET)
    hidden = np.eye(len(case.input) - 2, dtype=np.bool_)
    together = model.score_hidden(case.ids, hidden, case.positions, case.targets)
    alone = [model.score_hidden(case.ids, row[None], case.positions, case.targets).logprob for row in hidden]
    np.testing.assert_allclose(together.logprob, np.concatenate(alone), atol=1e-5)
