"""Hypotheses about redundant groups: substitutes of a word, and words that only follow one another."""

from collections.abc import Callable

import numpy as np
import pytest

from reagent import explain
from reagent.case import Floats, Ids
from reagent.methods.base import no_progress
from reagent.methods.probe_set import ProbeSet
from reagent.methods.redundancy import RedundancySearch, find_question, repetitions
from reagent.methods.surrogate import SPARSE
from reagent.removal import Delete
from reagent.testing.scripted import ScriptedModel

UNITS = 30
WORDS = [*(f"w{i}" for i in range(UNITS + 2)), "fact.", "stop.", "same"]
FACT, SAME, OTHER = WORDS.index("fact."), WORDS.index("same"), UNITS + 1


def reader(value: Callable[[Callable[[int], Floats]], Floats]) -> ScriptedModel:
    """A model with this logit of "w0"; it is given a function that tells whether a word is in the context."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, OTHER] = 20.0  # so likely that the log-probability of w0 grows with its logit
        table[:, 0] = value(lambda word: (context == word).any(-1).astype(np.float64))
        return table

    return ScriptedModel(WORDS, logits)


def prompt(**places: int) -> str:
    """Words w1, w2, … with others at some places."""
    words = [f"w{i}" for i in range(1, UNITS + 1)]
    for word, place in places.items():
        words[place] = f"{word}." if word in ("fact", "stop") else word
    return " ".join(words)


def random_probes(model: ScriptedModel, text: str, count: int = 48) -> ProbeSet:
    case = model.case(text, " w0").with_logprobs(model)
    probes = ProbeSet(Delete(model, case), case, count, np.random.default_rng(0), no_progress)
    probes.measure(np.random.default_rng(1).random((count, UNITS)) < 0.6)
    return probes


def search(probes: ProbeSet, single: Floats) -> RedundancySearch:
    return RedundancySearch(probes, 0, single, (single, single), np.arange(0), np.arange(0), SPARSE)


def test_a_substitute_is_found_where_the_word_is_missing() -> None:
    """The fact counts more than its paraphrase, and other words matter too."""
    model = reader(lambda has: np.maximum(8 * has(FACT), 5 * has(SAME)) + 2 * has(20) + 2 * has(25))
    probes = random_probes(model, prompt(fact=3, same=14))
    single = np.zeros(UNITS)
    single[[3, 19, 24]] = 3.0, 2.0, 2.0
    assert search(probes, single).substitutes([3])[0] == 14


def test_a_word_that_is_rarely_missing_has_no_substitutes() -> None:
    model = reader(lambda has: 6 * has(FACT))
    probes = random_probes(model, prompt(fact=3), 10)
    assert search(probes, np.zeros(UNITS)).substitutes([3]) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_weaker_paraphrase_is_in_the_group(seed: int) -> None:
    """Without the fact its paraphrase still carries most of the answer, so that the fact alone has an effect."""
    model = reader(lambda has: np.maximum(9 * has(FACT), 6 * has(SAME)) + 3 * has(29) + 3 * has(30))
    why = explain(model, prompt(same=3, fact=14), target=" w0", probes=128, seed=seed)
    assert [group.units for group in why[0].groups if group.kind == "redundant"] == [(3, 14)]


@pytest.mark.parametrize(("places", "groups"), [((8, 9), [(8, 9)]), ((9, 8), []), ((8, 16), [(8, 16)])])
def test_words_that_follow_one_another_in_a_sentence_are_no_group(
    places: tuple[int, int], groups: list[tuple[int, ...]]
) -> None:
    """A full stop after the first word makes two statements; without it, the two are one phrase."""
    model = reader(lambda has: 8 * np.maximum(has(FACT), has(SAME)))
    fact, same = places
    why = explain(model, prompt(fact=fact, same=same, stop=24), target=" w0")
    assert [group.units for group in why[0].groups if group.kind == "redundant"] == groups


@pytest.mark.parametrize(("stop", "groups"), [(24, [(7, 17)]), (10, []), (2, [])])
def test_words_that_ask_for_the_answer_are_no_group(stop: int, groups: list[tuple[int, ...]]) -> None:
    """Either of two words is enough: a group, unless one of them is in the sentence that leads to the output."""
    model = reader(lambda has: 8 * np.maximum(has(8), has(18)) + 4 * has(12))
    why = explain(model, prompt(stop=stop), target=" w0", probes=128)
    assert [group.units for group in why[0].groups if group.kind == "redundant"] == groups


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("It is cold. He lives in the", " He lives in the"),
        ("It is cold. Where is he?", " Where is he?"),
        ("Where is he? It is cold.", ""),
        ('He lives. "It is cold."', ""),
        ("He lives in the", ""),
    ],
)
def test_the_question_is_the_last_sentence_that_is_not_complete(text: str, asks: str) -> None:
    model = ScriptedModel(
        ["It", "is", "cold.", "He", "lives", "in", "the", "Where", "he?", "lives.", '"It', 'cold."'],
        lambda c: np.zeros((len(c), 12)),
    )
    case = model.case(text, " cold.")
    units = find_question(case, np.arange(len(case.input)))
    assert "".join(case.input[i].text for i in units) == asks


def test_a_name_of_several_words_is_repeated_as_a_whole() -> None:
    words = ["I", "saw", "Los", "Angeles", "and", "we", "left", "w0"]
    model = ScriptedModel(words, lambda context: np.zeros((len(context), len(words))))
    case = model.case("I saw Los Angeles and we left Los Angeles and we", " w0")
    free = np.arange(len(case.input))
    found = repetitions(case, [[i] for i in range(len(free))], free, np.ones(len(free)))
    assert [[2, 3], [7, 8]] in found
    assert [[4], [9]] in found


def test_a_name_with_many_mentions_is_repeated_word_by_word() -> None:
    words = ["Los", "Angeles", "and"]
    model = ScriptedModel(words, lambda context: np.zeros((len(context), len(words))))
    case = model.case(" and ".join(["Los Angeles"] * 7), " and")
    free = np.arange(len(case.input))
    found = repetitions(case, [[i] for i in range(len(free))], free, np.ones(len(free)))
    assert {len(some) for some in found} == {7, 6}


def test_the_tokens_of_an_answer_inherit_a_repeated_word() -> None:
    """Each mention has an effect of its own, and both together more."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, OTHER] = 20.0
        table[:, 0] = np.array([0.0, 7.0, 10.0])[np.minimum((context == SAME).sum(-1), 2)]
        return table

    model = ScriptedModel(WORDS, logits)
    text = prompt(same=3, stop=24).replace("w18", "same")
    why = explain(model, text, target=" w0 w0", probes=128)
    assert why.answer is not None
    assert [group.units for group in why.answer.groups] == [(3, 17)]
    assert [[group.units for group in row.groups] for row in why] == [[(3, 17)], [(3, 17)]]
