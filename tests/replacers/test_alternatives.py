"""Slots with known alternatives: values of other lengths, their effects, and what is refused."""

from typing import Any

import numpy as np
import pytest

import reagent
from reagent.case import Floats, Ids
from reagent.errors import InputError
from reagent.testing import ScriptedModel

WORDS = ["In", "Paris", "Rome", "New", "York", "Ann", "Bob", "says", "yes", "and"]
GAINS = {"Paris": 3.0, "Rome": 2.0, "York": 0.5, "Ann": 1.0}
VALUES = {"city": ["Paris", "Rome", "New York"], "name": ["Ann", "Bob"]}
PROMPT = "In {{city}} and {{ name }} says"


def planted() -> ScriptedModel:
    def logits(context: Ids) -> Floats:
        table = np.zeros((len(context), len(WORDS)))
        table[:, WORDS.index("yes")] = [sum(GAINS.get(WORDS[i], 0.0) for i in row) - 30 for row in context.tolist()]
        return table  # the log-probability of "yes" changes by the gains

    return ScriptedModel(WORDS, logits)


@pytest.mark.parametrize(("method", "options"), [("exact", {}), ("reagent", {}), ("occlusion", {"draws": 64})])
def test_each_slot_is_replaced_by_its_other_values(method: str, options: dict[str, Any]) -> None:
    why = reagent.explain(planted(), PROMPT, target=" yes", alternatives=VALUES, method=method, **options)
    assert why.prompt == "In Paris and Ann says"
    effects = {token.text.strip(): effect for token, effect in zip(why.input, why.effects[0], strict=True)}
    assert effects["Ann"] == pytest.approx(1.0, abs=1e-6)
    assert effects["Paris"] == pytest.approx(3.0 - (2.0 + 0.5) / 2, abs=0.8)
    assert {name for name, effect in effects.items() if effect} == {"Paris", "Ann"}
    assert why.replacer == {"id": "alternatives", "slots": {"city": ["Rome", "New York"], "name": ["Bob"]}}


def test_a_network_scores_values_of_other_lengths(tiny_model: Any) -> None:
    values = {"city": ["Paris", "the very old town of Rome"]}
    why = reagent.explain(tiny_model, "She lives in {{city}} now", target=" and", alternatives=values, method="exact")
    whole = tiny_model.case("She lives in Paris now", " and").with_logprobs(tiny_model).values
    other = tiny_model.case("She lives in the very old town of Rome now", " and").with_logprobs(tiny_model).values
    assert max(map(abs, why.effects[0])) == pytest.approx(abs(float(whole[0] - other[0])), abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alternatives": {"town": ["a", "b"]}}, "unknown slot 'town'.*Known: city, name"),
        ({"alternatives": {"city": ["Paris", "Rome"]}}, "slot 'name' of the prompt has no value"),
        ({"alternatives": VALUES | {"name": ["Ann"]}}, "at least two different values"),
        ({"alternatives": VALUES | {"name": "Ann"}}, "list of texts"),
        ({"alternatives": VALUES, "units": "word"}, "leave out `prompt_spans`, `units` and `replacer`"),
        ({"alternatives": VALUES, "replacer": "random"}, "leave out `prompt_spans`, `units` and `replacer`"),
        ({"alternatives": VALUES, "preset": "leave-one-out"}, "may be longer or shorter"),
        ({"alternatives": VALUES, "prompt": [{"role": "user", "content": PROMPT}]}, "plain prompt"),
        ({"alternatives": VALUES, "prompt": "In {{city}}{{name}} says"}, "."),
    ],
)
def test_each_bad_use_is_one_clear_line(changes: dict[str, Any], message: str) -> None:
    arguments = {"prompt": PROMPT, "target": " yes", **changes}
    with pytest.raises(InputError, match=message):
        reagent.explain(planted(), **arguments)
