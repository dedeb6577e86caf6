"""Explanations of one text in common units."""

from dataclasses import replace

import pytest

import reagent
from exchange.test_attributions import made, tiny
from reagent.api.evaluate import evaluate_together
from reagent.comparison import Comparison
from reagent.errors import InputError
from reagent.exchange.common_units import align, over_the_prompt
from reagent.metrics.config import EvaluationConfig
from views.samples import make


def test_units_of_different_tools_are_joined() -> None:
    model, imported = tiny(), made().explain(tiny())
    why = reagent.explain(model, imported.prompt, target=" Tokyo.", method="occlusion", attribute_target=True)
    first, second = align([why, imported])
    assert [unit.text for unit in first.input] == [unit.text for unit in second.input]
    inputs = len(why.input)
    for before, after in ((why, first), (imported, second)):
        assert after.to_numpy("effects")[:, : len(after.input)].sum(1) == pytest.approx(
            before.to_numpy("effects")[:, : len(before.input)].sum(1)
        )
    assert inputs >= len(first.input)
    assert first.attributes == "prompt"
    assert [sum(row) for row in first.scores] == pytest.approx([1, 1])
    config = EvaluationConfig(metrics=["lds"], probes=8, replacer="random")
    assert len(evaluate_together(model, [first, second], config)) == 2
    assert "other" in Comparison([first, second]).to_html()


def test_equal_units_stay() -> None:
    why = make()
    assert align([why, why]) == [why, why]


def test_a_row_whose_scores_are_all_on_the_output_becomes_uniform() -> None:
    why = make(completion=" Tokyo is")
    inputs = len(why.input)
    why = replace(why, scores=(why.scores[0], (*(0.0 for _ in why.input), 1.0)))
    assert over_the_prompt(why).scores[1] == pytest.approx((*[1 / inputs] * inputs, 0.0))


def test_other_texts_are_refused() -> None:
    with pytest.raises(InputError, match=r"of one prompt and one output are compared, got .*' and '…"):
        align([make(), make(completion=" Kyoto")])
