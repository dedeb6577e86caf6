"""Ante and No.D: against what people have marked."""

from dataclasses import replace
from itertools import combinations
from math import comb

import pytest

from metrics.planted import PROMPT, STRENGTHS, Planted, explanation
from reagent.api.evaluate import evaluate
from reagent.errors import InputError
from reagent.explanation import Token
from reagent.metrics.rationale import Annotation, share_with_overlap, units_in_spans


def values(
    scores: list[float], annotation: Annotation, measure: str = "found", **more: object
) -> dict[str, tuple[float, float]]:
    model = Planted()
    why = explanation(model, scores)
    if "method" in more:
        why = replace(why, method=more.pop("method"), cost=replace(why.cost, steps=more.pop("steps")))
    found = evaluate(model, why, list(annotation.metrics), annotation=annotation, **more)
    return {r.metric: (r.value, r.random) for r in found.results if r.measure == measure}


def test_the_rationale_is_the_best_units() -> None:
    marked = Annotation.of_texts(PROMPT, "w2", "w8")
    found = values(STRENGTHS, marked, rationale=2)
    assert found["ante"] == (1, pytest.approx(2 / 8))
    assert found["no_d"] == (1, pytest.approx(6 / 8))
    assert values(STRENGTHS[::-1], marked, rationale=1)["ante"][0] == 0
    assert values([0.1] * 7 + [1.0], marked, rationale=1) == {"ante": (0, 1 / 8), "no_d": (0, 7 / 8)}


def test_random_is_the_share_of_all_choices() -> None:
    marked = Annotation(antecedent=((3, 8),), distractor=((9, 20),))  # w2 w3; w4 w5 w6 w7
    found = values(STRENGTHS, marked, rationale=3)
    assert found["ante"][1] == pytest.approx(1 - comb(6, 3) / comb(8, 3))
    assert found["no_d"][1] == pytest.approx(comb(4, 3) / comb(8, 3))


# --- several mentions ---

TWICE = Annotation(antecedent=((3, 5), (9, 14)))  # w2; w4 w5


def test_one_mention_of_two_is_found_but_not_all() -> None:
    one = [0.0, 1.0, *[0.0] * 6]
    assert values(one, TWICE, "found", rationale=2)["ante"] == (1, 3 / 8)  # one unit has a score
    assert values(one, TWICE, "all", rationale=2)["ante"] == (0, 0)
    both = [0.0, 1.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0]
    assert values(both, TWICE, "all", rationale=2)["ante"] == (1, pytest.approx(2 / comb(8, 2)))
    assert values(both, TWICE, "all", rationale=1)["ante"][0] == 0, "a member below the size does not count"
    neither = [1.0, *[0.0] * 7]
    assert values(neither, TWICE, "found")["ante"][0] == values(neither, TWICE, "all")["ante"][0] == 0


def test_with_one_mention_both_measures_are_equal() -> None:
    for text in PROMPT.split():
        marked = Annotation.of_texts(PROMPT, text)
        assert values(STRENGTHS, marked, "found", rationale=3) == values(STRENGTHS, marked, "all", rationale=3)


def test_one_unit_may_cover_two_mentions() -> None:
    halves = Annotation(antecedent=((3, 4), (4, 5)))  # "w" and "2" of w2
    assert values([0.0, 1.0, *[0.0] * 6], halves, "all", rationale=1)["ante"] == (1, 1 / 8)


def test_a_mention_that_cannot_be_scored_is_not_required() -> None:
    model = Planted()
    why = explanation(model, [0.0, 1.0, *[0.0] * 6], protected=[0])
    both = Annotation(antecedent=((0, 2), (3, 5)))  # w1, which is protected, and w2
    assert evaluate(model, why, ["ante"], annotation=both).result("ante", "all").value == 1


@pytest.mark.parametrize(
    "mentions",
    [
        [{0}, {5}],
        [{0, 1}, {2}, {6, 7}],
        [{0, 1, 2}, {2, 3}, {3, 4, 5}],  # they overlap
        [{1, 2}, {1, 2}, {2}],  # one contains another
        [{0, 4}, {1, 4}, {2, 4}, {0, 1, 2}],
    ],
)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8])
def test_the_random_share_is_that_of_all_choices(mentions: list[set[int]], size: int) -> None:
    choices = [set(choice) for choice in combinations(range(8), size)]
    hits = sum(all(choice & mention for mention in mentions) for choice in choices)
    assert share_with_overlap([frozenset(m) for m in mentions], 8, size) == pytest.approx(hits / len(choices))


def test_many_mentions_take_no_time() -> None:
    """2 to the power of 200 unions would not finish."""
    mentions = [frozenset({3 * i, 3 * i + 1}) for i in range(200)]
    assert share_with_overlap(mentions, 600, 5) == 0
    assert 0 < share_with_overlap(mentions, 600, 500) < 1


def test_by_default_five_units_or_what_greedy_found() -> None:
    marked = Annotation.of_texts(PROMPT, "w3")  # sixth of eight by strength
    assert values(STRENGTHS, marked)["ante"][0] == 1
    assert values(STRENGTHS, marked, rationale=4)["ante"][0] == 0
    assert values(STRENGTHS, marked, method={"id": "greedy"}, steps=(2,))["ante"][0] == 0


def test_units_without_a_score_are_no_rationale() -> None:
    marked = Annotation.of_texts(PROMPT, "w2", "w8")
    found = values([1.0, *[0.0] * 7], marked)
    assert found["ante"] == (0, 1 / 8)
    assert found["no_d"] == (1, 7 / 8)


def test_white_space_around_a_word_is_not_part_of_it() -> None:
    text = "a (b) c"
    units = [Token((i,), text[s:e], s, e) for i, (s, e) in enumerate([(0, 1), (1, 3), (3, 5), (5, 7)])]
    special = Token((9,), "<start>", 0, 0)
    assert units_in_spans([special, *units], [(2, 6)]).tolist() == [False, False, True, True, False]
    assert units_in_spans(units, [(0, 2)]).tolist() == [True, False, False, False]


@pytest.mark.parametrize("text", ["w99", "w", ""])
def test_a_text_must_occur_in_the_prompt_once(text: str) -> None:
    with pytest.raises(InputError, match="occurs exactly once"):
        Annotation.of_texts(PROMPT, text)


def test_an_annotation_is_needed_and_must_touch_something() -> None:
    model = Planted()
    why = explanation(model, STRENGTHS)
    with pytest.raises(InputError, match=r"'ante' needs an annotation: .* antecedent"):
        evaluate(model, why, ["ante"])
    with pytest.raises(InputError, match="'no_d' needs an annotation"):
        evaluate(model, why, ["no_d"], annotation=Annotation.of_texts(PROMPT, "w2"))
    with pytest.raises(InputError, match="no unit of the prompt"):
        evaluate(model, why, ["ante"], annotation=Annotation(antecedent=((500, 510),)))
    protected = explanation(model, [0.0, *STRENGTHS[1:]], protected=[0])
    with pytest.raises(InputError, match="no unit of the prompt"):
        evaluate(model, protected, ["ante"], annotation=Annotation.of_texts(PROMPT, "w1"))
