"""From an explanation back to its case, on the model that evaluates it."""

from dataclasses import replace

import numpy as np
import pytest

import reagent
import tiny
from metrics.planted import STRENGTHS, Planted, explanation
from reagent.api.evaluate import evaluate, evaluate_together
from reagent.errors import InputError
from reagent.metrics.config import EvaluationConfig
from reagent.metrics.context import make_context
from reagent.metrics.explained_case import case_of, reread
from reagent.metrics.soft import SOFT_METRICS
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing.scripted import ScriptedModel

TEXT = "The river runs through the old town, and the children play"
SETTINGS = {"probes": 8, "replacer": "random"}
QUICK = {"draws": 3, "probes": 8, "replacer": "random"}


def model_of(family: str, **limits: int) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family), **limits)


@pytest.mark.parametrize(
    "question",
    [
        {"max_new_tokens": 6},
        {"max_new_tokens": 4, "units": "word"},
        {"max_new_tokens": 4, "units": "sentence"},
        {"target": " on its banks in summer", "target_span": "its banks"},
        {"target": " on", "contrast": " in"},
        {"target": " on its", "prompt_spans": [(4, 9), (21, 24)]},
        {"max_new_tokens": 2, "units": ["sentence", "token"]},
    ],
    ids=lambda question: next(iter([*question.keys() - {"max_new_tokens", "target"}, "tokens"])),
)
@pytest.mark.parametrize("family", ["gpt2", "gemma3"])  # without and with a start token
def test_every_kind_of_question_can_be_evaluated(family: str, question: dict[str, object]) -> None:
    model = model_of(family)
    why = reagent.explain(model, TEXT, **question, **SETTINGS)
    case = case_of(why)
    prompt = model.case(TEXT, " on").ids[: case.unit_starts[len(case.input)]]
    np.testing.assert_array_equal(case.ids[: len(prompt)], prompt)
    np.testing.assert_allclose(case.with_logprobs(model).values, case.values, atol=1e-4)
    context = make_context(model, [why], EvaluationConfig())
    assert all(len(token.ids) == 1 for token in context.tokens.units)
    np.testing.assert_array_equal(context.tokens.ids, case.ids)
    kept = np.repeat(case.protected, np.diff(case.unit_starts))
    np.testing.assert_array_equal(context.tokens.protected, kept)
    evaluation = evaluate(model, why, **QUICK)
    one_target = {"target_span", "contrast"} & question.keys() or len(why.output) < 6
    assert evaluation.level == ("token" if one_target else "sequence")
    assert len(evaluation.results) == 10
    assert evaluation.warnings == why.warnings


def test_a_chat_can_be_evaluated(smollm2: HuggingFaceModel) -> None:
    messages = [{"role": "user", "content": "Name a colour."}]
    why = reagent.explain(smollm2, messages, max_new_tokens=1, **SETTINGS)
    context = make_context(smollm2, [why], EvaluationConfig())
    inputs = len(why.input)
    assert context.tokens.protected[:inputs].sum() == sum(t.protected for t in why.input) > 5
    assert context.tokens.protected[inputs:].all()  # only the prompt was removed
    assert context.case.output[0].logprob == pytest.approx(why.output[0].logprob, abs=1e-3)
    assert evaluate(smollm2, why, ["soft_nc", "comprehensiveness"], draws=2).result("soft_nc").value > 0


def test_a_template_that_has_moved_on_is_still_the_same_chat(smollm2: HuggingFaceModel) -> None:
    """Some templates write the date: the tokens around the message differ, those of the message do not."""
    messages = [{"role": "user", "content": "Name a colour."}]
    case = smollm2.chat(messages, "Red")
    assert reread(smollm2, case) is not None
    other = tuple(replace(t, ids=(99,)) if t.protected else t for t in case.input)
    assert reread(smollm2, replace(case, input=other)) is None
    wrong = tuple(t if t.protected else replace(t, ids=(99,)) for t in case.input)
    with pytest.raises(InputError, match="not those of 'smollm2'"):
        reread(smollm2, replace(case, input=wrong))


def test_another_models_explanation_is_refused() -> None:
    why = reagent.explain(model_of("gpt2"), TEXT, max_new_tokens=1, **SETTINGS)
    with pytest.raises(InputError, match=r"tokens are not those of .*: give the model that it was made on"):
        evaluate(model_of("gemma3"), why, **QUICK)
    scripted = ScriptedModel(["a", "b"], lambda context: np.zeros((len(context), 2)))
    with pytest.raises(InputError, match=r"tokens are not those of 'scripted'.*does not know the word"):
        evaluate(scripted, why, **QUICK)


def test_another_model_with_the_same_tokens_gives_a_warning() -> None:
    model = model_of("gpt2")
    why = reagent.explain(model, TEXT, max_new_tokens=1, **SETTINGS)
    elsewhere = replace(why, model=why.model | {"id": "big"}, output=(replace(why.output[0], logprob=-0.01),))
    warnings = evaluate(model, elsewhere, ["lds"], **QUICK).warnings
    assert any("made on 'big'" in line for line in warnings)
    assert any("had probability 0.990 when it was explained" in line for line in warnings)


def test_explanations_of_different_texts_are_not_evaluated_together() -> None:
    model = Planted()
    one = explanation(model, STRENGTHS)
    other = explanation(model, STRENGTHS[:4], prompt="w1 w2 w3 w4")
    with pytest.raises(InputError, match="of one text"):
        evaluate_together(model, [one, other])
    with pytest.raises(InputError, match="of one text"):
        evaluate_together(model, [one, explanation(model, STRENGTHS, protected=[0])])
    with pytest.raises(InputError, match="no explanation"):
        evaluate_together(model, [])


# --- the soft metrics on real networks ---


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_keeping_all_is_1_removing_all_is_1_and_no_score_is_0(family: str) -> None:
    model = model_of(family)
    why = reagent.explain(model, TEXT, max_new_tokens=1, **SETTINGS)
    ones = tuple(tuple(0.0 if t.protected else 1.0 for t in why.input) for _ in why.scores)
    zeros = tuple((0.0,) * len(why.input) for _ in why.scores)
    names = ["soft_ns", "soft_nc"]
    full, none = evaluate_together(
        model, [replace(why, scores=ones), replace(why, scores=zeros)], EvaluationConfig(metrics=names)
    )
    for name in names:
        assert full.result(name).value == pytest.approx(1, abs=1e-3)
        assert none.result(name).value == pytest.approx(0, abs=1e-3)


def test_limits_of_memory_do_not_change_the_numbers() -> None:
    why = reagent.explain(model_of("llama"), TEXT, max_new_tokens=3, **SETTINGS)
    limits = ({}, {"tokens_at_once": 30}, {"logits_at_once": 1000}, {"tokens_at_once": 1000})
    usual, *others = (evaluate(model_of("llama", **more), why, **QUICK, stride=2) for more in limits)
    for cut in others:
        for one, other in zip(usual.results, cut.results, strict=True):
            assert (one.metric, one.measure) == (other.metric, other.measure)
            assert other.value == pytest.approx(one.value, abs=1e-4)
            assert other.stderr == pytest.approx(one.stderr, abs=1e-4)
            assert other.random == pytest.approx(one.random, abs=1e-4)


def test_every_token_of_a_unit_has_its_score() -> None:
    """By words, and by tokens with each word's score: the same perturbed inputs, so the same numbers."""
    model, text = model_of("gpt2"), "The riverside runs through the oldest townhall"
    words = reagent.explain(model, text, target=" on", units="word", **SETTINGS)
    sizes = [len(unit.ids) for unit in words.input]
    assert max(sizes) > 1
    scores = tuple(float(s) for s in np.repeat(words.scores[0], sizes))
    tokens = reagent.explain(model, text, target=" on", **SETTINGS)
    spread = replace(tokens, scores=(scores,), effects=None, stderr=None)
    by_words, by_tokens = (evaluate(model, why, list(SOFT_METRICS), draws=6) for why in (words, spread))
    for name in SOFT_METRICS:
        assert by_words.result(name).value == pytest.approx(by_tokens.result(name).value, abs=1e-4)
