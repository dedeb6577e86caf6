"""LLMAttributionResult of captum: round trips, and what captum itself computes."""

from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import (
    FeatureAblation,
    LayerIntegratedGradients,
    LLMAttribution,
    LLMGradientAttribution,
    TextTemplateInput,
    TextTokenInput,
)
from captum.attr._core.llm_attr import LLMAttributionResult

import reagent
from exchange.test_attributions import PROMPT, tiny
from reagent.errors import InputError
from tiny import network_of, tokenizer_of

TARGET = " Tokyo."


def ablation() -> LLMAttribution:
    return LLMAttribution(FeatureAblation(network_of("llama")), tokenizer_of("llama"))


def test_a_round_trip_keeps_units_and_numbers() -> None:
    why = reagent.explain(tiny(), PROMPT, target=TARGET, method="occlusion", units="word")
    exported = why.to_captum()
    assert exported.plot_token_attr() is not None
    assert exported.seq_attr.tolist() == pytest.approx(why.whole().to_numpy("effects")[0, : len(why.input)], abs=1e-6)
    assert exported.output_probs.log().tolist() == pytest.approx([token.logprob for token in why.output], abs=1e-5)
    again = reagent.from_captum(tiny(), exported, method="captum FeatureAblation")
    assert [unit.text for unit in again.input] == [unit.text for unit in why.input]
    inputs = len(why.input)
    assert again.to_numpy("effects")[:, :inputs] == pytest.approx(why.to_numpy("effects")[:, :inputs], abs=1e-6)
    assert again.method["id"] == "captum FeatureAblation"


def test_what_captum_computes_for_tokens_is_imported() -> None:
    tokens = TextTokenInput(PROMPT, tokenizer_of("llama"))
    result = ablation().attribute(tokens, target=TARGET)
    with pytest.raises(InputError, match=r"is not the explained one: give it as `completion`"):
        reagent.from_captum(tiny(), result)  # it has "Tokyo" without the space
    imported = reagent.from_captum(tiny(), result, completion=TARGET)
    assert (imported.prompt, imported.completion) == (PROMPT, TARGET)
    effects = imported.to_numpy("effects")[:, : len(imported.input)]
    assert effects.sum(1) == pytest.approx(result.token_attr.sum(1).tolist(), abs=1e-4)
    assert reagent.evaluate(tiny(), imported, ["lds"], probes=8, replacer="random").results


def test_gradients_are_imported() -> None:
    network = network_of("llama")
    method = LayerIntegratedGradients(network, network.get_input_embeddings())
    result = LLMGradientAttribution(method, tokenizer_of("llama")).attribute(
        TextTokenInput("My aunt moved to Japan", tokenizer_of("llama")), target=TARGET, n_steps=4
    )
    imported = reagent.from_captum(
        tiny(), result, method="captum LayerIntegratedGradients", completion=TARGET, unit="attribution"
    )
    assert imported.prompt == "My aunt moved to Japan"
    assert imported.unit == "token"
    assert imported.effect_unit == "attribution"
    assert imported.to_numpy("effects")[:, : len(imported.input)] == pytest.approx(result.token_attr.numpy(), abs=1e-6)


@pytest.mark.parametrize("named", [False, True])
def test_the_text_around_the_values_of_a_template_is_protected(named: bool) -> None:
    if named:  # in another order than in the text
        source = TextTemplateInput("My {who} moved to {where},", {"where": "Japan", "who": "aunt"})
    else:
        source = TextTemplateInput("My {} moved to {},", ["aunt", "Japan"])
    result = ablation().attribute(source, target=TARGET)
    imported = reagent.from_captum(tiny(), result, completion=TARGET)
    assert imported.prompt == "My aunt moved to Japan,"
    assert [unit.text for unit in imported.input if not unit.protected] == [" aunt", " Japan"]
    values = dict(zip(source.values, result.token_attr[0].tolist(), strict=True))
    assert imported.effects is not None
    measured = {u.text.strip(): e for u, e in zip(imported.input, imported.effects[0], strict=True) if not u.protected}
    assert measured == pytest.approx(values, abs=1e-6)


def test_skipped_tokens_are_protected() -> None:
    source = TextTokenInput("My aunt moved", tokenizer_of("llama"), skip_tokens=["My"])
    imported = reagent.from_captum(tiny(), ablation().attribute(source, target=TARGET), completion=TARGET)
    assert [unit.text for unit in imported.input if unit.protected] == ["My"]


def made(**changes: Any) -> Any:
    given: dict[str, Any] = {"input_tokens": ["My", " aunt"], "output_tokens": [" Tokyo"], "seq_attr": [1.0, 2.0]}
    return LLMAttributionResult(**given | changes)


@pytest.mark.parametrize(
    ("result", "options", "message"),
    [
        (np.zeros(3), {}, "needs an LLMAttributionResult of captum, got a ndarray"),
        (made(seq_attr=torch.tensor([1.0, torch.nan])), {}, "NaN or infinite"),
        (made(), {"prompt": "My uncle"}, "' aunt', is not where it is expected"),
        (made(inp=TextTemplateInput("{a} {a} {b}", {"a": "My", "b": "aunt"})), {}, "template once"),
    ],
)
def test_damaged_results_are_one_error(result: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        reagent.from_captum(tiny(), result, **options)


def test_a_result_for_the_whole_output_is_one_row() -> None:
    imported = reagent.from_captum(tiny(), made(output_tokens=[" Tokyo", "."]))
    assert [unit.text for unit in imported.output] == [" Tokyo."]
    assert imported.effects == ((1.0, 2.0),)
