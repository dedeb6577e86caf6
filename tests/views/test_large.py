"""Views of long explanations, whose work must grow linearly with the numbers in them."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reagent.explanation import Answer, Cost, Explanation, Message, Token, WhatIf
from reagent.views.html import to_view_data
from reagent.views.summary import MAX_RANKED, rank_intervals


def make_long(units: int, outputs: int = 1, word: str = "tok ") -> Explanation:
    prompt, completion = word * units, " out" * outputs
    size = len(word)
    spans = [(i * size, (i + 1) * size) for i in range(units)]
    rows = [range(units + t) for t in range(outputs)]
    return Explanation(
        prompt=prompt,
        completion=completion,
        model={"id": "m", "revision": None, "dtype": None, "backend": "b"},
        method={"id": "reagent", "preset": "fast"},
        replacer=None,
        seed=0,
        input=tuple(Token((1,), prompt[start:end], start, end) for start, end in spans),
        output=tuple(Token((2,), " out", 4 * t, 4 * t + 4) for t in range(outputs)),
        scores=tuple(tuple(2 * (i + 1) / (len(row) * (len(row) + 1)) for i in row) for row in rows),
        effects=tuple(tuple(0.1 * (i + 1) for i in row) for row in rows),
        stderr=tuple(tuple(0.01 for _ in row) for row in rows),
        effect_unit="nats",
        cost=Cost(1, 1, 1.0, 1, 0, 0, (0,) * outputs, ("fixed",) * outputs),
    )


def count_calls(act: Callable[[], Any]) -> int:
    """The number of function calls, which unlike the time is the same on every machine."""
    count = 0

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def with_many_messages(units: int) -> Explanation:
    """A chat with one message for each unit."""
    why = make_long(units)
    return replace(why, unit="message", messages=tuple(Message("user", t.start, t.end) for t in why.input))


def with_many_what_ifs(units: int) -> Explanation:
    """A prompt that is one long word, and a counterfactual for each of its tokens."""
    what_ifs = tuple(WhatIf(0, i, "x", 0.5, (Answer("a", 0.5),)) for i in range(units))
    return replace(make_long(units, word="x"), display_unit="word", what_if=what_ifs)


@pytest.mark.parametrize("make", [make_long, with_many_messages, with_many_what_ifs])
def test_twice_the_units_are_twice_the_work(make: Callable[[int], Explanation]) -> None:
    to_view_data(make(2))  # warm caches
    small, large = (make(units) for units in (100, 200))
    assert count_calls(lambda: to_view_data(large)) < 2.5 * count_calls(lambda: to_view_data(small))


def test_work_grows_with_the_numbers_of_the_rows_and_not_faster() -> None:
    """Four times the numbers: twice the output tokens, and rows twice as long."""
    small, large = make_long(50, 50), make_long(100, 100)
    assert count_calls(lambda: to_view_data(large)) < 4.5 * count_calls(lambda: to_view_data(small))
    small, large = (replace(why, attributes="prompt") for why in (small, large))
    assert count_calls(lambda: to_view_data(large)) < 4.5 * count_calls(lambda: to_view_data(small))


def test_a_long_name_is_not_copied_for_every_counterfactual() -> None:
    shown = to_view_data(with_many_what_ifs(400))
    assert max(len(part.text) for _, caption in shown["rows"][0]["whatIf"] for part in caption) < 100


def test_only_the_highest_scores_have_rank_intervals() -> None:
    why = make_long(MAX_RANKED + 5)
    ranked = [i for i, ranks in enumerate(rank_intervals(why, 0)) if ranks is not None]
    assert ranked == list(range(5, MAX_RANKED + 5))
