from dataclasses import replace

import pytest

from reagent.explanation import STOP_REASONS, Explanation, Token
from reagent.views.summary import (
    IN_BRIEF,
    Line,
    chances,
    context_noun,
    facts,
    open_places,
    outline,
    percent,
    places,
    question,
    unit_note,
    what_if,
)
from views.samples import NEEDLE, by_sentence, contested, contrast, long_prompt, make, phrase, with_what_if


def plain(line: Line) -> str:
    return "".join(text for text, _ in line)


def test_every_warning_has_a_form_for_many_tokens() -> None:
    assert set(IN_BRIEF) == {reason for reason, text in STOP_REASONS.items() if text}


def test_places_are_those_that_the_errors_allow() -> None:
    assert places(contested(), 0) == [(1, 2), (1, 2), (3, 3), (4, 5), (4, 5)]
    assert open_places(contested(), 0) == ["1–2", "1–2", "", "4–5", "4–5"]


def test_a_large_error_reaches_beyond_the_neighbours() -> None:
    why = replace(contested(), stderr=((0.01, 0.01, 9.0, 0.01, 0.01),))
    assert places(why, 0) == [(1, 2), (2, 3), (1, 5), (3, 4), (4, 5)]


def test_a_place_is_open_wherever_it_is_not_settled() -> None:
    for why in (contested(), make(stderr=True), by_sentence()):
        settled = why.settled(0)
        assert settled is not None
        assert all(place or sure for place, sure in zip(open_places(why, 0), settled, strict=True))


def test_equal_scores_share_their_places() -> None:
    why = replace(contested(), scores=((0.2,) * 5,), effects=((-1.0, -2.0, -4.0, -8.0, -16.0),))
    assert places(why, 0) == [(1, 5)] * 5


def test_protected_tokens_have_no_place_and_without_errors_nobody_has() -> None:
    begin = Token((1,), "<s>", 0, 0, protected=True)
    why = make("a", "!", input=[begin, Token((2,), "a", 0, 1)], stderr=True)
    assert places(why, 0) == [None, (1, 1)]
    assert places(make(effects=True), 0) == []
    assert set(open_places(make(effects=True), 0)) == {""}


def test_the_question_names_what_was_asked() -> None:
    assert plain(question(make(), 0)) == "Why ·Tokyo?"
    assert plain(question(phrase(), 1)) == "Why downtown Tokyo?"
    assert plain(question(contrast(), 1)) == "Why ·Tokyo and not ·Osaka?"
    assert plain(question(contrast(), 0)) == "Why ·in?"


def test_a_contrast_has_two_probabilities_where_they_are_known() -> None:
    why = contrast()
    assert chances(why, 1) == "probability 54.7% against 4.5%"
    assert chances(why, 0) == "probability 54.7%"
    assert chances(replace(why, target={"kind": "contrast", "index": 1, "text": " Osaka"}), 1) == "probability 54.7%"
    assert chances(replace(why, output=tuple(replace(token, logprob=None) for token in why.output)), 1) == ""


def test_the_unit_note_says_what_an_effect_does() -> None:
    def note(why: Explanation, target: int = 0) -> str:
        return plain(unit_note(why, target))

    assert "without the token, the answer is e^effect times less likely" in note(contrast())
    assert "without the token, the odds of ·Tokyo over ·Osaka fall e^effect times" in note(contrast(), 1)
    assert "without the sentence, the answer" in note(by_sentence())
    assert note(make()) == ""


def test_other_units_have_other_names() -> None:
    assert context_noun(by_sentence()) == "sentence"
    assert context_noun(long_prompt()) == "part"
    assert context_noun(make(unit="<b>")) == "unit"
    assert ("unit", "sentence") in facts(by_sentence())
    assert "unit" not in dict(facts(make()))
    assert ("target", "contrast Osaka") in facts(contrast())


def test_the_outline_has_the_best_of_each_level() -> None:
    [(first, coarse), (second, middle)] = outline(long_prompt(), 0)
    assert (first, second) == ("paragraph", "sentence")
    assert [len(coarse), len(middle)] == [3, 3]
    assert NEEDLE in coarse[0].token.text
    assert middle[0].token.text.strip() == NEEDLE
    assert middle[0].effect is not None
    assert list(outline(make(), 0)) == []


def test_what_if_is_told_for_the_chosen_token_alone() -> None:
    def told(target: int) -> list[tuple[int, str]]:
        return [(at, plain(line)) for at, line in what_if(with_what_if(), target)]

    assert told(0) == [
        (4, "with ·Italy instead of ·Japan: ·Rome 31.0%, ·Milan 9.0%, … (·Tokyo 0.4%)"),
        (28, "without ·capital: ·Kyoto 25.0%, … (·Tokyo 20.0%)"),
    ]
    assert told(1) == []
    assert [text for _, text in told(2)] == ["with ·Peru instead of ·Japan: ·and 50.0%, …"]


@pytest.mark.parametrize(("share", "shown"), [(0.0, "<0.1%"), (0.0006, "0.1%"), (1.0, "100.0%")])
def test_percentages(share: float, shown: str) -> None:
    assert percent(share) == shown
