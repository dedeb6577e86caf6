"""The types of a result are checked where it is built."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reagent
from reagent.errors import InputError
from reagent.explanation import Explanation, Token
from reagent.testing import ScriptedModel


@pytest.fixture(scope="module")
def why() -> Explanation:
    model = ScriptedModel(["a", "b", "c"], lambda context: 5.0 * (context[:, :1] == np.arange(3)))
    return reagent.explain(model, "c a b", max_new_tokens=1)


def numbers_of_numpy(token: Token) -> Token:
    return Token(
        tuple(np.array(token.ids)), token.text, np.int64(token.start), np.int32(token.end), np.bool_(token.protected)
    )  # type: ignore[arg-type]


def test_numbers_of_numpy_become_plain_ones(why: Explanation, tmp_path: Path) -> None:
    scores = tuple(tuple(np.float32(value) for value in row) for row in why.scores)
    strange = replace(
        why,
        input=tuple(map(numbers_of_numpy, why.input)),
        scores=scores,
        seed=np.uint8(why.seed),
        method={**why.method, "ratio": np.float64(0.5), "shares": np.array([0.1, 0.2])},
    )
    assert strange.input == why.input
    first = strange.input[0]
    numbers: list[Any] = [*first.ids, first.start, first.end, strange.seed]
    assert {type(number) for number in numbers} == {int}
    assert type(strange.scores[0][0]) is float
    assert strange.method["shares"] == [0.1, 0.2]
    json.dumps(strange.input[0].start)
    assert reagent.load(strange.save(tmp_path / "why.json")) == strange


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("seed", 1.5, "seed must be a whole number, got 1.5"),
        ("seed", True, "seed must be a whole number, got True"),
        ("prompt", b"c a b", "prompt must be text"),
        ("scores", None, "scores must be a sequence, got None"),
        ("attributes", "answer", "attributes must be one of context, prompt, got 'answer'"),
        ("cost", {}, "cost must be a Cost"),
    ],
)
def test_other_types_are_refused(why: Explanation, field: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(why, **{field: value})


def test_lone_surrogates_become_replacement_characters(why: Explanation, tmp_path: Path) -> None:
    broken = replace(why, prompt="c \ud800 b", display_unit=None)
    assert broken.prompt == "c \ufffd b"
    assert reagent.load(broken.save(tmp_path / "why.json")) == broken


def test_provenance_of_any_type_is_kept_as_text(why: Explanation, tmp_path: Path) -> None:
    odd = {**why.method, "limit": float("inf"), "kind": Path, "text": "\ud800", 3: {1, 2}}
    kept = replace(why, method=odd)
    assert kept.method["limit"] == "inf"
    assert kept.method["3"] == "{1, 2}"
    assert reagent.load(kept.save(tmp_path / "why.json")).method == kept.method
