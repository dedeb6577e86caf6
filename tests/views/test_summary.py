from dataclasses import replace

import pytest

from reagent.explanation import STOP_REASONS, Explanation, Token
from reagent.views.summary import (
    PLURAL_STOP_REASONS,
    context_noun,
    describe_probability,
    effect_heading,
    effect_note,
    facts,
    open_ranks,
    percent,
    plain_text,
    question_caption,
    rank_intervals,
    top_units_by_level,
    what_if_captions,
)
from views.samples import (
    NEEDLE,
    by_sentence,
    contested,
    contrast,
    grouped,
    long_prompt,
    make,
    measured_order,
    phrase,
    with_what_if,
)


def test_every_warning_has_a_form_for_many_tokens() -> None:
    assert set(PLURAL_STOP_REASONS) == {reason for reason, text in STOP_REASONS.items() if text}


def test_rank_intervals_are_those_that_the_errors_allow() -> None:
    assert rank_intervals(contested(), 0) == [(1, 2), (1, 2), (3, 3), (4, 5), (4, 5)]
    assert open_ranks(contested(), 0) == ["1–2", "1–2", "", "4–5", "4–5"]


def test_a_large_error_reaches_beyond_the_neighbours() -> None:
    why = replace(contested(), stderr=((0.01, 0.01, 9.0, 0.01, 0.01),))
    assert rank_intervals(why, 0) == [(1, 2), (2, 3), (1, 5), (3, 4), (4, 5)]


def test_a_rank_is_open_wherever_it_is_not_settled() -> None:
    for why in (contested(), make(stderr=True), by_sentence()):
        settled = why.settled(0)
        assert settled is not None
        assert all(ranks or is_settled for ranks, is_settled in zip(open_ranks(why, 0), settled, strict=True))


def test_equal_scores_share_their_ranks() -> None:
    why = replace(contested(), scores=((0.2,) * 5,), effects=((-1.0, -2.0, -4.0, -8.0, -16.0),))
    assert rank_intervals(why, 0) == [(1, 5)] * 5


def test_protected_tokens_have_no_rank_and_without_errors_no_token_has_one() -> None:
    begin = Token((1,), "<s>", 0, 0, protected=True)
    why = make("a", "!", input=[begin, Token((2,), "a", 0, 1)], stderr=True)
    assert rank_intervals(why, 0) == [None, (1, 1)]
    assert rank_intervals(make(effects=True), 0) == []
    assert set(open_ranks(make(effects=True), 0)) == {""}


def test_a_ranking_that_does_not_follow_the_effects_has_plain_ranks() -> None:
    assert rank_intervals(measured_order((0.5,) * 5), 0) == []
    assert set(open_ranks(measured_order((0.5,) * 5), 0)) == {""}


def test_the_heading_names_errors_only_where_there_are_any() -> None:
    why = measured_order()
    assert effect_heading(why, [0.0, 0.5]) == "effect ± stderr (nats)"
    assert effect_heading(why, [0.0, 0.0]) == effect_heading(why, [None]) == "effect (nats)"
    assert effect_heading(replace(why, effect_unit=None), [0.0]) == "effect"


def test_the_note_says_alone_where_scores_rest_on_joint_removals() -> None:
    assert "removing the token makes the answer" in plain_text(effect_note(contested(), 0))
    assert "removing the token alone makes the answer" in plain_text(effect_note(grouped(), 0))
    assert "scores also count joint removals" in plain_text(effect_note(grouped(), 0))


def test_the_removal_is_part_of_the_provenance() -> None:
    assert ("removal", "delete") in facts(make(method={"id": "reagent", "preset": "fast", "removal": "delete"}))
    assert "removal" not in dict(facts(make()))


def test_the_question_names_the_target() -> None:
    assert plain_text(question_caption(make(), 0)) == "Why ·Tokyo?"
    assert plain_text(question_caption(phrase(), 1)) == "Why “downtown Tokyo”?"
    assert plain_text(question_caption(contrast(), 1)) == "Why ·Tokyo and not ·Osaka?"
    assert plain_text(question_caption(contrast(), 0)) == "Why ·in?"


def test_a_contrast_has_two_probabilities_where_they_are_known() -> None:
    why = contrast()
    assert describe_probability(why, 1) == "probability 54.7% against 4.5%"
    assert describe_probability(why, 0) == "probability 54.7%"
    assert (
        describe_probability(replace(why, target={"kind": "contrast", "index": 1, "text": " Osaka"}), 1)
        == "probability 54.7%"
    )
    assert (
        describe_probability(replace(why, output=tuple(replace(token, logprob=None) for token in why.output)), 1) == ""
    )


def test_the_effect_note_explains_the_unit() -> None:
    def note(why: Explanation, target: int = 0) -> str:
        return plain_text(effect_note(why, target))

    assert "removing the token makes the answer e^effect times less likely" in note(contrast())
    assert "removing the token makes the odds of ·Tokyo over ·Osaka e^effect times lower" in note(contrast(), 1)
    assert "removing the sentence makes the answer" in note(by_sentence())
    assert note(make()) == ""


def test_other_units_have_other_names() -> None:
    assert context_noun(by_sentence()) == "sentence"
    assert context_noun(long_prompt()) == "part"
    assert context_noun(make(unit="<b>")) == "unit"
    assert ("unit", "sentence") in facts(by_sentence())
    assert "unit" not in dict(facts(make()))
    assert ("target", "contrast Osaka") in facts(contrast())


def test_each_level_has_its_best_units() -> None:
    [(first, coarse), (second, middle)] = top_units_by_level(long_prompt(), 0)
    assert (first, second) == ("paragraph", "sentence")
    assert [len(coarse), len(middle)] == [3, 3]
    assert NEEDLE in coarse[0].token.text
    assert middle[0].token.text.strip() == NEEDLE
    assert middle[0].effect is not None
    assert list(top_units_by_level(make(), 0)) == []


def test_what_if_captions_belong_to_the_chosen_token() -> None:
    def captions(target: int) -> list[tuple[int, str]]:
        return [(at, plain_text(line)) for at, line in what_if_captions(with_what_if(), target)]

    assert captions(0) == [
        (4, "with ·Italy instead of ·Japan: ·Rome 31.0%, ·Milan 9.0%, … (·Tokyo 0.4%)"),
        (28, "without ·capital: ·Kyoto 25.0%, … (·Tokyo 20.0%)"),
    ]
    assert captions(1) == []
    assert [text for _, text in captions(2)] == ["with ·Peru instead of ·Japan: ·and 50.0%, …"]


@pytest.mark.parametrize(("share", "shown"), [(0.0, "<0.1%"), (0.0006, "0.1%"), (1.0, "100.0%")])
def test_percentages(share: float, shown: str) -> None:
    assert percent(share) == shown
