"""Every format of a response is parsed into the same result; anything else is one clear line."""

from typing import Any

import pytest

from reagent.errors import ServerError
from reagent.models.http.responses import TokenLogprob, parse_response, parse_with_logprobs


def completion(**logprobs: Any) -> dict[str, Any]:
    return {"choices": [{"text": " b", "logprobs": logprobs or None}]}


def test_the_form_of_completions() -> None:
    response = parse_response(
        completion(
            tokens=["a", " b"],
            token_logprobs=[None, -0.5],
            top_logprobs=[None, {" c": -2.0, " b": -0.5}],
            text_offset=[0, 1],
        )
    )
    first, second = response.positions
    assert (first.text, first.actual, first.top) == ("a", None, ())
    assert second.actual == TokenLogprob(" b", -0.5)
    assert [entry.text for entry in second.top] == [" b", " c"]
    assert second.offset == 1


def test_tokens_named_by_their_ids() -> None:
    response = parse_response(
        completion(tokens=["token_id:7"], token_logprobs=[-0.5], top_logprobs=[{"token_id:7": -0.5}])
    )
    assert response.positions[0].top == (TokenLogprob("", -0.5, 7),)


def test_the_form_of_llama_cpp_and_of_chats() -> None:
    entry = {"token": " b", "logprob": -0.5, "id": 3, "bytes": [32, 98]}
    end = {"token": "", "logprob": -1.5, "id": 2, "bytes": []}
    data = {
        "choices": [{"message": {"content": " b"}, "logprobs": {"content": [entry | {"top_logprobs": [entry, end]}]}}]
    }
    (place,) = parse_response(data).positions
    assert place.actual == TokenLogprob(" b", -0.5, 3, b" b")
    assert [e.is_special for e in place.top] == [False, True]


def test_the_form_of_vllm_prompt_logprobs() -> None:
    entries = {"9": {"logprob": -3.0, "rank": 4, "decoded_token": " x"}, "3": {"logprob": -0.1, "rank": 1}}
    data = {"choices": [{"text": "", "prompt_logprobs": [None, entries]}]}
    nothing, place = parse_with_logprobs(data).prompt_positions
    assert nothing.actual is None
    assert (place.actual, place.rank) == (TokenLogprob(" x", -3.0, 9), 3)
    assert [entry.id for entry in place.top] == [3, 9]


def test_what_is_marked_as_unlikely_has_no_number() -> None:
    response = parse_response(
        completion(tokens=["x"], token_logprobs=[-9999.0], top_logprobs=[{"y": -1.0, "z": float("-inf")}])
    )
    assert response.positions[0].actual is None
    assert [entry.text for entry in response.positions[0].top] == ["y"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"choices": []}, "returned 0 choices where 1 was requested"),
        ({"choices": [{}, {}]}, "returned 2 choices"),
        ({}, "is not that of"),
        ([], "is not that of"),
        (None, "is not that of"),
        ({"choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": []}}]}, "is not that of"),
        ({"choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": ["b"]}}]}, "is not that of"),
        (completion(tokens=["a"], token_logprobs=[float("nan")]), "returned nan as a log-probability"),
        (completion(tokens=["a"], token_logprobs=[1.5]), "returned 1.5 as a log-probability"),
        (completion(), "returned no log-probabilities"),
    ],
)
def test_what_is_no_reply(data: Any, message: str) -> None:
    with pytest.raises(ServerError, match=message) as caught:
        parse_with_logprobs(data)
    assert "\n" not in str(caught.value)
