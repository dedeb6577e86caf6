"""A long prompt is explained in the short text that screening found, with the units of the whole prompt."""

import numpy as np
import pytest

from reagent import Explanation, explain
from reagent.case import Floats, Ids
from reagent.explanation import Screening
from reagent.testing import WORDS, ScriptedModel

SENTENCES = 60
VOCABULARY = [*WORDS, *(f"{word}." for word in WORDS)]
QUESTION = " ".join(["w18"] * 40)


def needs(*alternatives: set[int], strength: float = 6.0) -> ScriptedModel:
    """Answers "w0" if all words of one of the alternatives are in the context."""

    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(VOCABULARY)))
        table[:, 19] = strength / 2
        present = [np.all([(context == word).any(-1) for word in words], axis=0) for words in alternatives]
        table[:, 0] = strength * np.any(present, axis=0)
        return table

    return ScriptedModel(VOCABULARY, logits)


def write(facts: dict[int, int]) -> str:
    """Sentences of eight words; sentence `i` contains the word `facts[i]`."""
    words = np.random.default_rng(0).integers(10, 18, (SENTENCES, 8))
    for sentence, word in facts.items():
        words[sentence, 3] = word
    return " ".join(" ".join(WORDS[i] for i in line) + "." for line in words) + " "


def explained(model: ScriptedModel, facts: dict[int, int], **options: object) -> Explanation:
    text = write(facts)
    return explain(
        model, text + QUESTION, target=" w0", prompt_spans=[(0, len(text) - 1)], units=["sentence", "token"], **options
    )  # type: ignore[call-overload, no-any-return]


def best(why: Explanation, count: int) -> set[str]:
    return {row.token.text.strip() for row in why.top(count)}


@pytest.mark.parametrize(
    ("model", "facts", "top"),
    [
        (needs({5}), {41: 5}, {"w5"}),
        (needs({5, 6}), {3: 5, 41: 6}, {"w5", "w6"}),
        (needs({5}), {3: 5, 41: 5}, {"w5"}),
    ],
)
def test_the_same_words_are_first_with_and_without_screening(
    model: ScriptedModel, facts: dict[int, int], top: set[str]
) -> None:
    short, whole = explained(model, facts), explained(model, facts, screen=False)
    assert best(short, len(facts)) == best(whole, len(facts)) == top
    assert whole.screening is None
    assert isinstance(short.screening, Screening)
    assert short.cost.tokens < whole.cost.tokens / 2


def test_the_units_are_those_of_the_whole_prompt() -> None:
    why = explained(needs({5}), {41: 5})
    assert "".join(unit.text for unit in why.input) == why.prompt
    (level,) = why.levels
    assert "".join(unit.text for unit in level.units) == why.prompt
    assert why.screening is not None
    assert 41 not in why.screening.discarded
    assert sum(level.scores[0][i] for i in why.screening.discarded) == 0
    assert why.screening.units == SENTENCES
    assert why.effects is not None
    fact = next(i for i, unit in enumerate(why.input) if unit.text == " w5")
    assert why.effects[0][fact] == pytest.approx(max(why.effects[0]))
    assert why.sufficiency is not None
    assert why.sufficiency[0] is not None
    assert fact in why.sufficiency[0].units


def test_groups_refer_to_the_whole_prompt() -> None:
    why = explained(needs({5}), {3: 5, 41: 5})
    texts = [{why.input[i].text.strip() for i in group.units} for group in why.groups[0] if group.kind == "redundant"]
    assert texts == [{"w5"}]


def test_the_effect_of_what_was_set_aside_is_told() -> None:
    why = explained(needs({5}), {41: 5})
    assert why.screening is not None
    assert why.screening.effect == pytest.approx(0.0)
    assert why.screening.finest_effect == pytest.approx(0.0)
    assert Explanation.from_dict(why.to_dict()).screening == why.screening


def test_short_prompts_and_other_methods_are_not_screened() -> None:
    model = needs({5})
    assert explain(model, "w1 w5 w2. w3 w4. w1.", target=" w0", units="sentence").screening is None
    text = write({41: 5}) + QUESTION
    assert explain(model, text, target=" w0", units="sentence", method="occlusion", removal="delete").screening is None
