"""A case segmented into units, its phrases and its contrasts."""

import numpy as np
import pytest

import tiny
from reagent.case import OVERTAKEN, Case
from reagent.explanation import Token
from reagent.models.base import Model
from reagent.models.huggingface import HuggingFaceModel

PROMPT = "My aunt moved to Japan to teach music."


@pytest.fixture(params=["gpt2", "opt"])
def model(request: pytest.FixtureRequest) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(request.param), tiny.tokenizer_of(request.param))


@pytest.fixture
def case(model: HuggingFaceModel) -> Case:
    return model.case(PROMPT, target=" She rents a flat").with_logprobs(model)


def test_units_keep_every_token_and_every_character(case: Case) -> None:
    groups = [i // 3 for i in range(len(case.input))]
    grouped = case.grouped(groups)
    assert grouped.ids.tolist() == case.ids.tolist()
    assert [i for unit in grouped.input for i in unit.ids] == [i for token in case.input for i in token.ids]
    inside = [unit for unit in grouped.input if unit.end > unit.start]
    assert "".join(unit.text for unit in inside) == PROMPT
    assert all(PROMPT[unit.start : unit.end] == unit.text for unit in inside)
    assert grouped.unit_of.tolist() == [u for u, unit in enumerate(grouped.units) for _ in unit.ids]
    assert (grouped.protected == [unit.protected for unit in grouped.units]).all()
    # A start token is outside the text and not part of the first unit.
    assert [unit.protected for unit in grouped.input].count(True) == [t.protected for t in case.input].count(True)


def test_grouping_by_tokens_changes_nothing(case: Case) -> None:
    assert case.grouped(range(len(case.input))) == case


def test_a_unit_without_a_group_is_protected(case: Case) -> None:
    n = len(case.input)
    grouped = case.grouped([0 if i < n // 2 else None for i in range(n)])
    assert [unit.protected for unit in grouped.input][-2:] == [False, True]


def test_a_phrase_is_as_likely_as_its_tokens_together(model: HuggingFaceModel, case: Case) -> None:
    words = case.completion
    phrase = case.with_phrase(words.index("rents"), words.index("rents") + len("rents a"))
    joined = next(unit for unit in phrase.output if len(unit.ids) > 1)
    assert joined.text == " rents a"
    parts = [token for token in case.output if joined.start <= token.start < joined.end]
    assert joined.logprob == pytest.approx(sum(token.logprob or 0 for token in parts))
    scores = phrase.score_outputs(model, phrase.ids[None])
    np.testing.assert_allclose(scores.value[0], phrase.values, atol=1e-5)
    singles = case.score_outputs(model, case.ids[None])
    first = case.output.index(parts[0])
    assert scores.rank[0, first] == singles.rank[0, first : first + len(parts)].max()


def test_a_contrast_has_log_odds_at_its_position(model: HuggingFaceModel, case: Case) -> None:
    other = Token((7,), "?", 0, 1)
    contrast = case.contrasted_with(other, 1).with_logprobs(model)
    assert len(contrast.output) == 2
    assert contrast.completion == case.completion[: case.output[1].end]
    place = len(case.input) + 1
    both = model.score(case.ids[None], np.array([place, place]), np.array([case.ids[place], 7])).logprob[0]
    assert contrast.values[1] == pytest.approx(both[0] - both[1], abs=1e-5)
    scores = contrast.score_outputs(model, contrast.ids[None])
    assert scores.value[0, 1] == pytest.approx(both[0] - both[1], abs=1e-5)
    assert scores.rank[0, 1] == (0 if both[0] > both[1] else OVERTAKEN)
    chance = contrast.probability(scores.value)[0, 1]
    assert chance == pytest.approx(np.exp(both[0]) / np.exp(both).sum(), abs=1e-5)
    # The other outputs do not change.
    assert scores.value[0, 0] == pytest.approx(case.values[0], abs=1e-5)


def test_one_output_alone_has_the_others_as_its_input(model: HuggingFaceModel, case: Case) -> None:
    for t in range(len(case.output)):
        alone = case.for_target(t)
        assert alone.ids.tolist() == case.ids[: len(case.input) + t + 1].tolist()
        assert alone.prompt + alone.completion == (PROMPT + case.completion)[: len(PROMPT) + case.output[t].end]
        np.testing.assert_allclose(alone.score_outputs(model, alone.ids[None]).value[0], case.values[t], atol=1e-5)


def test_proposals_of_a_unit_replace_it_whole_and_nothing_else(model: Model, case: Case) -> None:
    from reagent.replacers import make_replacer

    proposals = make_replacer("random", candidates=4).propose(model, case, np.random.default_rng(0))
    grouped = case.grouped([i // 4 for i in range(len(case.input))])
    table = proposals.grouped(grouped, np.random.default_rng(1))
    assert table.replaceable.tolist() == (~grouped.protected).tolist()
    unit = 1 if not grouped.input[1].protected else 2
    for column in range(table.weights.shape[1]):
        replaced = np.arange(len(grouped.units))[None] == unit
        row = table.apply(replaced, np.full(replaced.shape, column))[0]
        differs = row != case.ids
        assert differs[grouped.unit_starts[unit] : grouped.unit_starts[unit + 1]].all()
        assert not differs[grouped.unit_of != unit].any()
    # Every candidate of every token is used equally often.
    inside = range(grouped.unit_starts[unit], grouped.unit_starts[unit + 1])
    assert all(sorted(table.ids[i]) == sorted(16 * proposals.ids[i].tolist()) for i in inside)
    # The alternatives are a sample of 64, made of candidates that are themselves samples of 4.
    assert table.sampling_variance[unit] == pytest.approx(1 / 64 + 1 / 4)
