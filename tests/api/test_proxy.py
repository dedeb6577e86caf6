"""A small model explains the answer of a large one, if both agree."""

from typing import Any

import numpy as np
import pytest

import reagent
from reagent.case import Floats, Ids
from reagent.errors import ProxyError
from reagent.testing import ScriptedModel

WORDS = [f"w{i}" for i in range(20)]
PROMPT = " ".join(WORDS[:18])
FACTS = {3: 4.0, 7: 2.5, 11: 1.0}


def additive(weights: dict[int, float], seed: int = 0, noise: float = 0.1) -> ScriptedModel:
    """The last word of the vocabulary follows the more likely, the more of the known words are there."""
    small = np.random.default_rng(seed).normal(0, noise, len(WORDS))
    values = small + np.array([weights.get(i, 0.0) for i in range(len(WORDS))])

    def logits(context: Ids) -> Floats:
        present = (context[:, :, None] == np.arange(len(WORDS))).any(1)
        table = np.zeros((len(context), len(WORDS)))
        table[:, -1] = present[:, :18] @ values[:18] - 4.0
        return table

    return ScriptedModel(WORDS, logits)


def explain(model: Any, proxy: Any, **arguments: Any) -> reagent.Explanation:
    return reagent.explain(model, PROMPT, proxy=proxy, max_new_tokens=1, **arguments)


def test_a_proxy_that_fits_explains_with_few_passes_of_the_model() -> None:
    large, small = additive(FACTS), additive({3: 3.0, 7: 2.0, 11: 1.0}, seed=1)
    why = explain(large, small)
    proxy = why.model["proxy"]
    assert [row.token.text.strip() for row in why.top(2)] == ["w3", "w7"]
    assert proxy["agreement"] > 0.8
    assert proxy["agreement_lower"] > 0.5
    assert proxy["top"] > proxy["others"]
    assert proxy["passes"] < 30
    assert why.effect_unit == "nats under the proxy"
    assert why.output[0].logprob is None


@pytest.mark.parametrize("seed", range(5))
def test_a_proxy_of_another_opinion_is_refused(seed: int) -> None:
    large = additive(FACTS)
    wrong = additive({int(i): 3.0 for i in np.random.default_rng(seed).choice([0, 1, 5, 9, 14, 16], 3, False)}, seed)
    with pytest.raises(ProxyError, match="does not behave like") as caught:
        explain(large, wrong)
    assert caught.value.exit_code == 1
    assert large.meter.forward_passes < 60


def test_more_texts_are_scored_where_the_agreement_is_unclear() -> None:
    large, other = additive(FACTS, noise=0.6), additive(FACTS, seed=2, noise=0.6)
    why = explain(large, other)
    assert why.model["proxy"]["checks"] > 20
    assert why.model["proxy"]["agreement_lower"] > 0.5


def test_a_proxy_stands_for_a_model_that_only_answers() -> None:
    def answer(prompt: str) -> str:
        return " w19" if {"w3", "w7"} <= set(prompt.split()) else " w0 w0"

    why = explain(answer, additive({3: 4.0, 7: 4.0}))
    assert {row.token.text.strip() for row in why.top(2)} == {"w3", "w7"}
    assert why.model["id"].startswith("python:")


def test_units_are_characters_so_that_tokenizers_may_differ() -> None:
    class Halves(ScriptedModel):
        """Two tokens for each word; the second one says nothing."""

        def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Any:
            from dataclasses import replace

            whole = super().case(prompt, target, max_new_tokens)
            parts = []
            for unit in whole.input:
                middle = unit.start + 2 if unit.start else 1
                first = replace(unit, text=unit.text[: middle - unit.start], end=middle)
                second = replace(unit, ids=(18,), text=unit.text[middle - unit.start :], start=middle)
                parts += [first, second]
            return replace(whole, input=tuple(parts))

    small = additive(FACTS, seed=1)
    why = explain(additive(FACTS), Halves(WORDS, small.logits))
    assert len(why.input) == 36
    assert why.model["proxy"]["agreement"] > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contrast": "w1"}, "leave out `contrast`"),
        ({"target_span": "w19"}, "leave out `target_span`"),
        ({"attribute_target": True}, "leave out `attribute_target`"),
    ],
)
def test_questions_about_parts_of_the_output_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(reagent.InputError, match=message):
        explain(additive(FACTS), additive(FACTS), **arguments)


def test_few_units_and_lists_need_no_proxy() -> None:
    model = additive(FACTS)
    with pytest.raises(reagent.InputError, match="at least 6 units"):
        reagent.explain(model, "w3 w7 w1", proxy=model, max_new_tokens=1)
    with pytest.raises(reagent.InputError, match="one prompt at a time"):
        reagent.explain(model, [PROMPT, PROMPT], proxy=model, max_new_tokens=1)
