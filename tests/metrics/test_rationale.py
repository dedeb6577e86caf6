"""Ante and No.D: against what people have marked."""

from dataclasses import replace
from math import comb

import pytest

from metrics.planted import PROMPT, STRENGTHS, Planted, explanation
from reagent.api.evaluate import evaluate
from reagent.errors import InputError
from reagent.explanation import Token
from reagent.metrics.rationale import Annotation, units_in_spans


def values(scores: list[float], annotation: Annotation, **more: object) -> dict[str, tuple[float, float]]:
    model = Planted()
    why = explanation(model, scores)
    if "method" in more:
        why = replace(why, method=more.pop("method"), cost=replace(why.cost, steps=more.pop("steps")))
    found = evaluate(model, why, list(annotation.metrics), annotation=annotation, **more)
    return {r.metric: (r.value, r.random) for r in found.results}


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
