"""The preset `fast`: facts stated once or several times, groups, sufficiency, and the number of probes.

The planted models look for words anywhere in the context, because deletion moves words to other positions.
"""

import json
from collections.abc import Callable

import numpy as np
import pytest

from reagent import explain
from reagent.case import Floats, Ids
from reagent.errors import CapabilityError, InputError, UnknownNameError
from reagent.explanation import Explanation
from reagent.methods import ReagentFast
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.planted import WORDS, mentions
from reagent.testing.scripted import ScriptedModel

FILLER = [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18]


def text(*words: int) -> str:
    return " ".join(f"w{i}" for i in words)


def planted(rule: Callable[[Callable[[int], Floats]], Floats]) -> ScriptedModel:
    """Predicts "w0" where `rule` holds; it is given a function that tells whether a word is in the context."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 19] = 2.0
        table[:, 0] = 6.0 * rule(lambda word: (context == word).any(-1))
        return table

    return ScriptedModel(WORDS, logits)


def top(why: Explanation, count: int) -> set[int]:
    return {unit.position for unit in why.top(count)}


@pytest.mark.parametrize("places", [(3,), (3, 12), (2, 7, 14)])
def test_all_mentions_of_a_fact_are_found_and_grouped(places: tuple[int, ...]) -> None:
    words = FILLER.copy()
    for place in places:
        words[place] = 5
    why = explain(mentions("w5", strength=6.0), text(*words), target=" w0")
    assert top(why, len(places)) == set(places)
    redundant = [group.units for group in why[0].groups if group.kind == "redundant"]
    assert redundant == ([] if len(places) == 1 else [places])
    assert why[0].sufficiency.passed
    assert why.cost.stopped == ("settled",)


def test_two_words_that_say_the_same_are_one_group() -> None:
    words = FILLER.copy()
    words[2], words[9] = 5, 7
    why = explain(planted(lambda has: has(5) | has(7)), text(*words), target=" w0")
    (group,) = why[0].groups
    assert (group.units, group.kind) == ((2, 9), "redundant")
    assert group.effect == pytest.approx(2 - np.log1p(np.exp(2)) + 6 - 2, abs=1.5)
    assert abs(group.single) < 0.1
    assert top(why, 2) == {2, 9}


def test_words_that_are_needed_together_are_complementary() -> None:
    words = FILLER.copy()
    words[2], words[9] = 5, 7
    why = explain(planted(lambda has: has(5) & has(7)), text(*words), target=" w0")
    assert top(why, 2) == {2, 9}
    assert [(group.units, group.kind) for group in why[0].groups] == [((2, 9), "complementary")]
    assert why[0].groups[0].single == pytest.approx(2 * why[0].groups[0].effect, rel=0.05)


def test_either_of_two_pairs() -> None:
    words = FILLER.copy()
    words[1], words[5], words[8], words[13] = 5, 7, 15, 19
    model = planted(lambda has: (has(5) & has(7)) | (has(15) & has(18)))
    words[13] = 18
    words[14] = 3
    why = explain(model, text(*words), target=" w0")
    assert top(why, 4) == {1, 5, 8, 13}


def test_a_fact_of_several_words_twice() -> None:
    """The model needs w5 and then w7 in it; both are stated twice."""
    words = [1, 5, 7, 3, 4, 6, 8, 9, 5, 7, 10, 11, 12, 13, 14]
    why = explain(planted(lambda has: has(5) & has(7)), text(*words), target=" w0")
    assert top(why, 4) == {1, 2, 8, 9}
    assert {group.units for group in why[0].groups if group.kind == "redundant"} >= {(1, 8), (2, 9)}


def test_an_explanation_that_fails_its_own_test_says_so() -> None:
    """Every word counts a little, so that no small set of words is sufficient."""
    words = list(range(1, 19)) * 2

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 1:] = 30.0
        table[:, 0] = context.shape[1]
        return table

    why = explain(ScriptedModel(WORDS, logits), text(*words), target=" w0", max_probes=130)
    assert not why[0].sufficiency.passed
    assert why.cost.stopped == ("insufficient",)
    assert any("depends on more" in line or "sufficient" in line for line in why.warnings)


@pytest.mark.parametrize("probes", [1, 2, 7, 40, 128])
@pytest.mark.parametrize("tokens", [1, 3])
def test_exactly_so_many_probes(tiny_model: HuggingFaceModel, probes: int, tokens: int) -> None:
    why = explain(
        tiny_model,
        "The river runs through the old town and under seven bridges to the sea",
        max_new_tokens=tokens,
        probes=probes,
    )
    assert why.cost.probes == probes
    assert why.cost.forward_passes == probes + 1


@pytest.mark.parametrize(("units", "probes"), [(8, 254), (9, 500), (3, 6)])
def test_exactly_so_many_probes_of_a_few_units(units: int, probes: int) -> None:
    why = explain(mentions("w5"), text(*range(4, 4 + units)), target=" w0", probes=probes)
    assert why.cost.probes == probes


@pytest.mark.parametrize("seed", range(6))
def test_one_unit_is_no_group(seed: int) -> None:
    model, options = planted(lambda has: has(5)), {"removal": "replace", "replacer": "random"}
    why = explain(model, "w5", target=" w0 w0 w0", seed=seed, **options)
    assert all(len(group.units) > 1 for groups in why.groups for group in groups)


def test_groups_are_found_for_every_one_of_many_outputs() -> None:
    words = FILLER.copy()
    words[3] = words[12] = 5
    why = explain(mentions("w5", strength=6.0), text(*words), target=" w0" * 25)
    assert all(any({3, 12} <= set(group.units) for group in groups) for groups in why.groups)


def test_few_probes_leave_room_for_every_stage() -> None:
    words = FILLER.copy()
    words[3] = 5
    why = explain(mentions("w5", strength=6.0), text(*words), target=" w0", max_probes=30)
    assert why[0].sufficiency.passed
    assert why.effects[0][3] > 3
    barely = explain(mentions("w5", strength=6.0), text(*words), target=" w0", max_probes=3)
    assert barely.cost.stopped != ("settled",)


def test_a_failed_test_of_a_few_units_takes_more_random_probes() -> None:
    """No small set of ten units is sufficient: further probes improve the Shapley values."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 1:] = 30.0
        table[:, 0] = 3.0 * context.shape[1]
        return table

    why = explain(ScriptedModel(WORDS, logits), text(*range(1, 11)), target=" w0", max_probes=200)
    assert why.cost.stopped == ("insufficient",)
    assert why.scores[0] == pytest.approx(np.full(10, 0.1), abs=0.02)


def test_all_subsets_of_a_few_units_give_exact_values() -> None:
    model, prompt = planted(lambda has: has(5) | (has(6) & has(7))), text(5, 6, 7, 8, 9)
    fast = explain(model, prompt, target=" w0")
    exact = explain(model, prompt, target=" w0", method="exact")
    assert fast.cost.probes == 2**5 - 1
    assert fast.scores[0] == pytest.approx(exact.scores[0], abs=1e-9)
    assert fast.effects[0] == pytest.approx(exact.effects[0], abs=1e-9)


def test_shapley_values_of_a_few_units_are_signed() -> None:
    """One word makes the target more likely and another less; their values sum to what all words do."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = 3.0 * (context == 1).any(-1) - 2.0 * (context == 3).any(-1)
        return table

    why = explain(ScriptedModel(WORDS, logits), "w1 w2 w3 w4", target=" w0 w0", units="word")
    again = Explanation.from_dict(json.loads(why.to_json()))
    exact = explain(ScriptedModel(WORDS, logits), "w1 w2 w3 w4", target=" w0", units="word", method="exact")
    for one in (why, again):
        assert one.answer is not None
        assert one.whole().shapley_values == (one.answer.shapley_values,)
        assert one.shapley_values is not None
        assert one.shapley_values[0] == pytest.approx(exact.shapley_values[0], abs=1e-3)
        assert one.to_numpy("shapley_values")[0, 2] < -1
        assert one[0].shapley_values == one.shapley_values[0]
        assert one.to_frame()["shapley_value"][2] == one.shapley_values[0][2]
    assert why.aggregate("sentence").shapley_values is None
    both = explain(ScriptedModel(WORDS, logits), "w1 w2 w3 w4", target=" w0 w0", units="word", method="exact")
    assert both.whole().shapley_values is not None
    assert both.whole().shapley_values[0] == pytest.approx(np.sum(both.to_numpy("shapley_values")[:, :4], axis=0))
    assert explain(ScriptedModel(WORDS, logits), " ".join(WORDS[1:16]), target=" w0").shapley_values is None


def test_ten_units_agree_with_exact_values() -> None:
    model, prompt = planted(lambda has: has(5) | (has(6) & has(7))), text(5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
    fast = explain(model, prompt, target=" w0", probes=128)
    exact = explain(model, prompt, target=" w0", method="exact")
    assert np.corrcoef(fast.scores[0], exact.scores[0])[0, 1] > 0.95


def test_a_long_prompt_takes_at_most_twice_the_probes_of_a_short_one() -> None:
    rng = np.random.default_rng(0)
    counts = []
    for length in (40, 400):
        words = rng.choice(FILLER, length)
        words[length // 3] = 5
        why = explain(mentions("w5", strength=6.0), text(*words), target=" w0")
        assert why.top(1)[0].position == length // 3
        counts.append(why.cost.probes)
    assert counts[1] <= 2 * counts[0]


def test_units_are_deleted_unless_a_replacer_is_named(tiny_model: HuggingFaceModel) -> None:
    prompt = "The river runs through the old town"
    deleted = explain(tiny_model, prompt, max_new_tokens=1, probes=30)
    replaced = explain(tiny_model, prompt, max_new_tokens=1, probes=30, replacer="random")
    assert (deleted.method["removal"], deleted.replacer) == ("delete", None)
    assert (replaced.method["removal"], replaced.replacer["id"]) == ("replace", "random")
    with pytest.raises(InputError, match="replaces nothing"):
        explain(tiny_model, prompt, max_new_tokens=1, removal="delete", replacer="random")


@pytest.mark.parametrize("removal", ["delete", "mask", "replace"])
def test_every_removal_explains_every_question(tiny_model: HuggingFaceModel, removal: str) -> None:
    prompt = "The river runs through the old town and under seven bridges"
    for question in ({"target_span": "sea"}, {"contrast": " lake"}, {"units": "word"}):
        target = " to the sea" if "contrast" not in question else " sea"
        why = explain(tiny_model, prompt, target=target, probes=40, removal=removal, **question)
        assert why.method["removal"] == removal
        for row in why.scores:
            assert sum(row) == pytest.approx(1)


def test_masking_needs_an_attention_mask() -> None:
    with pytest.raises(CapabilityError, match="mask"):
        explain(mentions("w5"), "w1 w5 w2", target=" w0", removal="mask")


def test_what_if_takes_a_replacer_also_with_deletion(tiny_model: HuggingFaceModel) -> None:
    why = explain(tiny_model, "The river runs through the town", max_new_tokens=1, what_if=True)
    assert why.method["removal"] == "delete"
    assert len(why.what_if) == 1


def test_levels_refine_what_matters() -> None:
    words = (FILLER * 4)[:60]
    words[22] = 5
    prompt = "\n\n".join(text(*words[i : i + 6]) for i in range(0, 60, 6))
    why = explain(mentions("w5", strength=6.0), prompt, target=" w0", units=["paragraph", "token"])
    assert why.top(1)[0].token.text.strip() == "w5"
    assert len(why.levels) == 1
    assert len(why.levels[0].units) == 10


def test_partial_results_and_progress_end_with_the_number_of_probes(tiny_model: HuggingFaceModel) -> None:
    seen = []
    why = explain(
        tiny_model, "The river runs through the old town and under seven bridges", max_new_tokens=2,
        on_progress=seen.append,
    )  # fmt: skip
    assert any(progress.partial is not None for progress in seen)
    assert (seen[-1].done, seen[-1].total) == (why.cost.probes, why.cost.probes)


def test_wrong_options_are_one_clear_error() -> None:
    with pytest.raises(UnknownNameError, match="removal"):
        ReagentFast(removal="burn")
    with pytest.raises(InputError, match="`probes` of preset 'fast'"):
        ReagentFast(probes=0)
