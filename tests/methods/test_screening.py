"""Screening finds planted facts in long prompts, and proves that nothing was lost."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tiny
from reagent.case import Case, Floats, Ids, Mask, TargetScores
from reagent.errors import InputError
from reagent.methods.base import Progress
from reagent.methods.screening import MANY_UNITS, MOST_OF_FEW, Screen, screen
from reagent.models.huggingface import HuggingFaceModel
from reagent.removal import Delete
from reagent.testing import WORDS, ScriptedModel

LINE = 8  # words of a unit
UNITS = 60
QUESTION = 70  # words after the units, which are protected


class HidingModel(ScriptedModel):
    """A scripted model that can hide parts of its prompt: a hidden word becomes "w18", which says nothing."""

    def score_hidden(self, sequence: Ids, hidden: Mask, positions: Ids, targets: Ids) -> TargetScores:
        sequences = np.tile(sequence, (len(hidden), 1))
        sequences[:, : hidden.shape[1]][hidden] = 18
        return self.score(sequences, positions, targets)


def states(*alternatives: set[int], strength: float = 6.0) -> Callable[[Ids], Floats]:
    """Answers "w0" if all words of one of the alternatives are in the context."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 19] = strength / 2
        present = [np.all([(context == word).any(-1) for word in words], axis=0) for words in alternatives]
        table[:, 0] = strength * np.any(present, axis=0)
        return table

    return logits


def make_case(model: ScriptedModel, facts: dict[int, int], units: int = UNITS, protected: int = QUESTION) -> Case:
    """Units of eight filler words; unit `i` contains the word `facts[i]`. Then a protected question."""
    words = np.random.default_rng(0).integers(10, 18, (units, LINE))
    for unit, word in facts.items():
        words[unit, 3] = word
    text = " ".join(WORDS[i] for i in [*words.ravel().tolist(), *[18] * protected])
    case = model.case(text, target=" w0")
    groups = [i // LINE if i < units * LINE else None for i in range(len(case.input))]
    return case.grouped(groups).without_output_removal().with_logprobs(model)


def kept_units(found: Screen) -> set[int]:
    return set(np.flatnonzero(found.kept).tolist())


def test_a_repeated_fact_that_needs_another_is_kept() -> None:
    """Neither mention of word 6 is needed, and none is enough alone."""
    model = HidingModel(WORDS, states({5, 6}))
    found = screen(model, make_case(model, {7: 5, 20: 6, 41: 6}))
    assert kept_units(found) >= {7, 20, 41}


def test_a_repeated_fact_beside_its_partner_does_not_hide_its_other_mention() -> None:
    """The block of both carries the answer, so that the other mention is found only with the partner alone."""
    model = ScriptedModel(WORDS, states({5, 6}))
    for units in (MANY_UNITS, UNITS):
        found = screen(model, make_case(model, {4: 5, 3: 6, 25: 6}, units=units))
        assert kept_units(found) >= {3, 4, 25}


def test_many_mentions_are_not_crowded_out() -> None:
    """Hiding shows nothing here, and noise must not take the places of the mentions."""
    model = HidingModel(WORDS, states({5}))
    found = screen(model, make_case(model, dict.fromkeys((4, 9, 22, 37, 50), 5)))
    assert kept_units(found) >= {4, 9, 22, 37, 50}


@pytest.mark.parametrize("kind", [HidingModel, ScriptedModel])
@pytest.mark.parametrize(
    ("alternatives", "facts"),
    [
        ([{5}], {41: 5}),  # one fact
        ([{5}], {3: 5, 41: 5}),  # one fact, stated twice
        ([{5, 6}], {7: 5, 41: 6}),  # two facts that need each other
        ([{5, 6, 7}], {7: 5, 41: 6, 55: 7}),  # three
        ([{5}, {6, 7}], {2: 5, 30: 6, 31: 7}),  # one fact, or two others together
    ],
)
def test_planted_facts_are_kept(
    kind: type[ScriptedModel], alternatives: Sequence[set[int]], facts: dict[int, int]
) -> None:
    model = kind(WORDS, states(*alternatives))
    case = make_case(model, facts)
    found = screen(model, case)
    sufficient = {unit for unit, word in facts.items() if any(word in some for some in alternatives[:1])}
    assert sufficient <= kept_units(found)
    assert found.kept.sum() <= MOST_OF_FEW
    assert found.joint[0] == pytest.approx(0.0)
    assert found.nothing[0] > 2
    assert (found.hidden is None) == (kind is ScriptedModel)


@pytest.mark.parametrize("kind", [HidingModel, ScriptedModel])
@pytest.mark.parametrize("units", [MANY_UNITS, 400])
def test_units_without_effect_are_not_kept(kind: type[ScriptedModel], units: int) -> None:
    """Also if that leaves less than the share to keep."""
    model = kind(WORDS, states({5}))
    assert kept_units(screen(model, make_case(model, {9: 5, 30: 5}, units=units))) == {9, 30}
    blank = screen(model, make_case(model, {}, units=units))
    assert blank.kept.sum() == 1  # none has an effect, and some text is needed to explain


def test_a_fact_in_two_neighbours_is_kept_beside_another_statement_of_it() -> None:
    """Neither of the neighbours has an effect alone, but the block of both has one."""
    model = HidingModel(WORDS, states({5}, {6, 7}))
    assert kept_units(screen(model, make_case(model, {2: 5, 45: 6, 46: 7}))) >= {2, 45, 46}


def test_neighbours_that_say_the_same_are_found_by_hiding_both() -> None:
    """Each needs a third unit to carry the answer, so that nothing is found by keeping one alone."""
    model = HidingModel(WORDS, states({5, 6}))
    found = screen(model, make_case(model, {9: 5, 45: 6, 46: 6}))
    assert found.hidden is not None
    assert min(found.hidden[[45, 46], 0]) > 0.5
    assert kept_units(found) >= {9, 45, 46}


def test_the_joint_drop_is_that_of_deleting_everything_discarded() -> None:
    model = HidingModel(WORDS, states({5}, {6}))
    case = make_case(model, {4: 5, 50: 6})
    found = screen(model, case)
    measured = case.values - Delete(model, case).score(~found.kept[None]).value[0]
    np.testing.assert_allclose(found.joint, measured)
    assert set(found.discarded) == set(found.units) - set(found.units[found.kept])


def test_alone_and_hidden_mirror_each_other() -> None:
    """A fact stated twice is sufficient twice and needed nowhere; two partners are needed and not sufficient."""
    twice = screen(model := HidingModel(WORDS, states({5})), make_case(model, {3: 5, 41: 5}))
    assert twice.hidden is not None
    assert np.flatnonzero(twice.alone[:, 0] > 1).tolist() == [3, 41]
    np.testing.assert_allclose(twice.hidden, 0.0)
    pair = screen(model := HidingModel(WORDS, states({5, 6})), make_case(model, {3: 5, 41: 6}))
    assert pair.hidden is not None
    assert np.flatnonzero(pair.hidden[:, 0] > 1).tolist() == [3, 41]
    np.testing.assert_allclose(pair.alone, 0.0)


def test_a_text_that_rests_on_everything_is_kept_whole() -> None:
    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = context.shape[1] / 20 - 40
        return table

    model = HidingModel(WORDS, logits)
    found = screen(model, make_case(model, {}))
    assert found.nothing[0] > 20
    assert found.joint[0] <= 0.1 * found.nothing[0] + 1e-9
    assert found.kept.mean() > 0.8


def test_targets_may_be_groups_of_output_units() -> None:
    """A token whose loss another token makes up for counts only if it is a target."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        last = context[:, -1]
        fact = (context == 5).any(-1)
        table[:, 0] = np.where(last == 18, 4.0 * fact, 4.0 * ~fact)
        return table

    model = HidingModel(WORDS, logits)
    words = make_case(model, {40: 5})
    case = model.case(words.prompt, target=" w0 w0")
    groups = [i // LINE if i < UNITS * LINE else None for i in range(len(case.input))]
    case = case.grouped(groups).without_output_removal().with_logprobs(model)
    assert 40 in kept_units(screen(model, case))
    together = screen(model, case, targets=[[0, 1]])
    assert abs(together.nothing.sum()) < 0.5 < together.nothing[0]


def test_few_units_cost_nothing() -> None:
    model = HidingModel(WORDS, states({5}))
    case = make_case(model, {2: 5}, units=MANY_UNITS - 1)
    before = model.meter.forward_passes
    found = screen(model, case)
    assert found.kept.all()
    assert model.meter.forward_passes == before
    assert found.passes == 0


def test_units_next_to_the_output_are_always_kept() -> None:
    model = HidingModel(WORDS, states({5}))
    found = screen(model, make_case(model, {2: 5}, protected=0))
    assert np.flatnonzero(found.near).tolist() == list(range(UNITS - 4, UNITS))
    assert kept_units(found) >= {2, *range(UNITS - 4, UNITS)}


def test_passes_are_counted_and_progress_reported() -> None:
    model, seen = HidingModel(WORDS, states({5})), list[Progress]()
    case = make_case(model, {2: 5})
    before = model.meter.forward_passes
    found = screen(model, case, on_progress=seen.append)
    assert found.passes == model.meter.forward_passes - before < UNITS
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert seen[-1].done == seen[-1].total == found.passes


def test_many_units_are_kept_in_blocks_if_the_model_cannot_hide() -> None:
    model = ScriptedModel(WORDS, states({5}))
    found = screen(model, make_case(model, {300: 5}, units=400), keep=0.02)
    assert 300 in kept_units(found)
    assert found.passes < 300


def test_keep_is_checked() -> None:
    model = ScriptedModel(WORDS, states({5}))
    with pytest.raises(InputError, match="keep"):
        screen(model, make_case(model, {2: 5}), keep=2)


def test_a_network_is_screened_the_same_however_batches_are_cut() -> None:
    network, tokenizer = tiny.network_of("llama"), tiny.tokenizer_of("llama")
    text = " ".join([*tiny.TEXT, *tiny.TEXT[:2]])

    def run(tokens_at_once: int) -> Screen:
        model = HuggingFaceModel(network, tokenizer, tokens_at_once=tokens_at_once)
        case = model.case(text, target=" Tokyo")
        groups = [i if i < len(case.input) - 64 else None for i in range(len(case.input))]
        case = case.grouped(groups).without_output_removal().with_logprobs(model)
        return screen(model, case, keep=0.1)

    one, other = run(2048), run(40)
    assert one.hidden is not None
    assert other.hidden is not None
    np.testing.assert_allclose(one.alone, other.alone, atol=1e-4)
    np.testing.assert_allclose(one.hidden, other.hidden, atol=1e-4)
    np.testing.assert_array_equal(one.kept, other.kept)
