"""Numbers for pieces of a text, as an Explanation of a model's tokens."""

from typing import Any

import numpy as np
import pytest

from reagent.errors import InputError
from reagent.exchange.attributions import Attributions
from reagent.models.huggingface import HuggingFaceModel
from tiny import network_of, tokenizer_of

PROMPT = "My aunt moved to Japan 😀. She rents a flat in the capital,"
WORDS = ["My", "aunt", "moved", "to", "Japan", "😀", ".", "She", "rents", "a", "flat", "in", "the", "capital", ","]


def tiny(family: str = "llama") -> HuggingFaceModel:
    return HuggingFaceModel(network_of(family), tokenizer_of(family))


def made(**changes: Any) -> Attributions:
    given: dict[str, Any] = {
        "method": {"id": "other", "preset": None},
        "prompt": PROMPT,
        "completion": " Tokyo.",
        "inputs": WORDS,
        "outputs": [" Tokyo", "."],
        "values": np.array([np.arange(15.0), -np.arange(15.0)]),
        "unit": "points",
    }
    return Attributions(**given | changes)


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_no_number_is_divided_or_lost(family: str) -> None:
    why = made().explain(tiny(family))
    assert [unit.text.strip() for unit in why.input if not unit.protected] == WORDS
    values = why.to_numpy("effects")[:, : len(why.input)]
    free = [i for i, unit in enumerate(why.input) if not unit.protected]
    assert values[:, free].tolist() == made().values.tolist()
    assert why.effect_unit == "points"
    assert [token.logprob is not None for token in why.output] == [True] * len(why.output)
    assert why.cost.stopped == ("fixed", "flat")
    assert why.scores[0][-1] == pytest.approx(14 / sum(range(15)))


def test_pieces_of_one_token_are_one_unit() -> None:
    why = made(outputs=[" Tokyo."], values=np.arange(15.0)[None]).explain(tiny("gemma"))  # has the token " capital,"
    assert [unit.text.strip() for unit in why.input if not unit.protected] == [*WORDS[:13], "capital,"]
    assert why.to_numpy("effects")[0, len(why.input) - 1] == 13 + 14


def test_tokens_are_tokens() -> None:
    model = tiny()
    case = model.case(PROMPT, " Tokyo.")
    pieces = tokenizer_of("llama").convert_ids_to_tokens([token.ids[0] for token in case.input])
    outputs = [token.text for token in case.output]
    values = np.random.default_rng(0).normal(size=(len(outputs), len(pieces)))
    why = made(inputs=pieces, outputs=outputs, values=values).explain(model)
    assert why.unit == "span"  # the bytes of the emoji have one character, and share it
    assert why.to_numpy("effects")[:, : len(why.input)].sum(1) == pytest.approx(values.sum(1))
    short = "My aunt moved to Japan"
    ids = tokenizer_of("llama")(short)["input_ids"]
    pieces = tokenizer_of("llama").convert_ids_to_tokens(ids)
    why = made(prompt=short, inputs=pieces, outputs=outputs, values=values[:, : len(pieces)]).explain(model)
    assert (why.unit, why.display_unit) == ("token", "word")
    assert why.to_numpy("effects")[:, : len(pieces)].tolist() == values[:, : len(pieces)].tolist()


def test_earlier_output_has_numbers_where_the_tool_gives_them() -> None:
    values = np.full((2, 17), np.nan)
    values[0, :15], values[1, :16] = 1.0, 2.0
    why = made(values=values).explain(tiny())
    assert why.attributes == "context"
    assert len(why.output) == 2
    assert why.effects is not None
    assert why.effects[1][-1] == 2.0
    assert made().explain(tiny()).attributes == "prompt"


def test_text_without_a_piece_is_protected() -> None:
    why = made(inputs=["Japan", "flat"], values=np.array([[3.0, 1.0]] * 2), gaps=True).explain(tiny())
    assert [unit.text for unit in why.input if not unit.protected] == [" Japan", " flat"]
    assert sum(why.scores[0]) == pytest.approx(1)
    assert why.top(1)[0].token.text == " Japan"


def test_without_a_completion_it_is_the_continuation_of_the_model() -> None:
    model = tiny()
    output = model.case(PROMPT, None, 2).output
    why = made(completion=None, outputs=[token.text.strip() for token in output]).explain(model)
    assert why.completion == "".join(token.text for token in output)
    with pytest.raises(InputError, match=r"is not the explained one: give it as `completion`"):
        made(completion=None).explain(model)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": np.zeros((2, 14))}, "got 2 × 14 numbers"),
        ({"values": np.full((2, 15), np.nan)}, "some are NaN or infinite"),
        ({"values": np.full((2, 15), -np.inf)}, "some are NaN or infinite"),
        ({"prompt": " "}, "no prompt"),
        ({"completion": ""}, "`completion` must be a text"),
        ({"inputs": [None] * 15}, "must be texts"),
        ({"outputs": []}, "got 2 × 15 numbers"),
    ],
)
def test_damaged_attributions_are_one_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(**changes)


def test_another_prompt_is_one_error() -> None:
    with pytest.raises(InputError, match="piece 1 of the text, 'aunt', is not where it is expected"):
        made(prompt=PROMPT.replace("aunt", "uncle")).explain(tiny())
