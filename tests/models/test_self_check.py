"""A network is tried on a short text when it is loaded: refused, or used without what does not work."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForImageTextToText

import reagent
import tiny
from architectures import build, make_network, shrink
from reagent.errors import CapabilityError, InputError
from reagent.models.huggingface import HuggingFaceModel
from sweep import PROMPT, TARGET, plain_logits


def load(network: Any) -> HuggingFaceModel:
    model = reagent.load_model((network, tiny.byte_level_tokenizer()))
    assert isinstance(model, HuggingFaceModel)
    return model


@pytest.mark.parametrize(
    ("model_type", "options"),
    [
        ("bert", {"is_decoder": False}),
        ("roberta", {"is_decoder": False}),
        ("xlm", {"causal": False}),
        ("cpmant", {}),
        ("prophetnet", {}),
        ("xlnet", {}),
    ],
)
def test_a_network_that_sees_later_tokens_is_refused(model_type: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"cannot be explained: the predictions of this .* depend on later tokens"):
        load(make_network(shrink(model_type, **options)))


def test_prefix_attention_is_refused() -> None:
    network = make_network(shrink("paligemma"), AutoModelForImageTextToText)
    with pytest.raises(InputError, match="depend on later tokens"):
        load(network)


def test_lsh_attention_is_refused() -> None:
    with pytest.raises(InputError, match="LSH attention"):
        load(make_network(shrink("reformer", attn_layers=["local", "lsh"], lsh_attn_chunk_length=4)))


def test_a_network_without_logits_is_refused() -> None:
    network = make_network(shrink("gpt2"), AutoModel)
    with pytest.raises(InputError, match=r"a forward pass over 8 tokens gives no logits"):
        load(network)


def test_logits_that_are_not_finite_are_refused() -> None:
    network = make_network(shrink("gpt2"))
    with torch.no_grad():
        network.transformer.ln_f.weight.fill_(torch.inf)
    with pytest.raises(InputError, match="not finite"):
        load(network)


@pytest.mark.parametrize(
    ("model_type", "limit"),
    [
        ("deepseek_v32", {"index_topk": 16}),
        ("doge", {"keep_window_size": 16}),
        ("qwen4_exp_text", {"indexer_budget": 16}),
    ],
)
def test_sparse_attention_reads_only_as_many_tokens_as_it_keeps(model_type: str, limit: dict[str, int]) -> None:
    model = load(make_network(shrink(model_type, **limit)))
    assert model.case("The river runs", target=" through").ids.size < 16
    with pytest.raises(InputError, match="reads at most 16"):
        model.case(PROMPT, TARGET)


def test_nothing_is_switched_off_where_all_works(messages: list[str]) -> None:
    model = load(build("llama"))
    assert not messages
    assert not model.missing_inputs
    assert model._prefix.can_share
    assert model.tokens_at_once > 1


# --- what does not work is left out ---


@pytest.mark.parametrize("model_type", ["xlstm", "moshi"])
def test_a_wrong_cache_is_not_used(model_type: str, messages: list[str]) -> None:
    model = load(build(model_type))
    assert any("other logits with its cache" in message for message in messages)
    case = model.case(PROMPT, max_new_tokens=4)
    for position in range(len(case.input), len(case.ids)):
        assert plain_logits(model.network, case.ids[:position]).argmax() == case.ids[position]


def test_a_network_that_mixes_the_rows_of_a_batch_reads_one_at_a_time(messages: list[str]) -> None:
    network = make_network(shrink("gpt2"))
    original = network.forward

    def mixed(**inputs: Any) -> Any:
        output = original(**inputs)
        output.logits = output.logits + output.logits.mean(0)
        return output

    mixed.__signature__ = __import__("inspect").signature(original)  # type: ignore[attr-defined]
    network.forward = mixed
    model = load(network)
    assert any("other logits in batches" in message for message in messages)
    case = model.case(PROMPT, TARGET)
    sequences = np.repeat(case.ids[None], 3, axis=0)
    sequences[1:, 2] = 50, 60
    single = [model.score(row[None], case.positions, case.targets).logprob[0] for row in sequences]
    np.testing.assert_allclose(model.score(sequences, case.positions, case.targets).logprob, single, atol=1e-4)


@pytest.mark.parametrize("model_type", ["gemma3n_text", "gemma4_text", "blt", "hrm_text"])
def test_gradients_that_belong_to_another_function_are_refused(model_type: str) -> None:
    with pytest.raises(CapabilityError, match="gradients"):
        reagent.explain(load(build(model_type)), PROMPT, target=TARGET, method="input_x_gradient")


def test_a_mask_without_effect_is_not_used() -> None:
    with pytest.raises(CapabilityError, match="does not take attention_mask"):
        reagent.explain(load(build("recurrent_gemma")), PROMPT, target=TARGET, method="occlusion", removal="mask")


# --- one check for each module ---


def count_passes(network: Any) -> list[int]:
    """Grows by one at each pass."""
    passes: list[int] = []
    network.register_forward_pre_hook(lambda *_: passes.append(1))
    return passes


def test_a_module_is_checked_once() -> None:
    network = make_network(shrink("gpt2"))
    passes = count_passes(network)
    load(network)
    count = len(passes)
    assert count > 0
    load(network)
    assert len(passes) == count
    load(network.to(torch.bfloat16))
    assert len(passes) > count


def test_a_second_model_of_a_module_leaves_the_same_out() -> None:
    network = build("xlstm")
    first, second = load(network), load(network)
    assert not first._adapter.has_cache
    assert not second._adapter.has_cache
    assert first.missing_inputs == second.missing_inputs
    network = add_noise(make_network(shrink("gpt2")), batches=True)
    assert [load(network).tokens_at_once for _ in range(2)] == [1, 1]


def test_a_refused_module_is_refused_again() -> None:
    network = make_network(shrink("bert", is_decoder=False))
    for _ in range(2):
        with pytest.raises(InputError, match="depend on later tokens"):
            load(network)


# --- short contexts and low precision ---


@pytest.mark.parametrize("context", [2, 4, 6])
def test_a_short_context_is_respected(context: int, messages: list[str]) -> None:
    model = load(make_network(shrink("gpt2", n_positions=context)))
    assert model.context_length == context
    assert not messages


def add_noise(network: Any, *, positions: slice = slice(None), batches: bool = False) -> Any:
    """Logits at these positions depend on the last token; with `batches`, only if there are several texts."""

    def change(_module: Any, _args: Any, inputs: Any, output: Any) -> Any:
        ids = inputs["input_ids"]
        if batches and len(ids) == 1:
            return output
        noise = torch.randn(output.logits.shape[1:], generator=torch.Generator().manual_seed(int(ids[0, -1])))
        logits = output.logits.clone()
        logits[:, positions] += noise[positions].to(logits)
        output.logits = logits
        return output

    network.register_forward_hook(change, with_kwargs=True)
    return network


def test_one_changed_position_is_no_look_ahead_in_low_precision() -> None:
    one, every = slice(1, 2), slice(None)
    load(add_noise(make_network(shrink("gpt2")).to(torch.bfloat16), positions=one))
    for dtype, positions in ((torch.float32, one), (torch.bfloat16, every)):
        with pytest.raises(InputError, match="depend on later tokens"):
            load(add_noise(make_network(shrink("gpt2")).to(dtype), positions=positions))


def test_a_dynamically_quantized_network_is_of_low_precision() -> None:
    network = torch.ao.quantization.quantize_dynamic(make_network(shrink("llama")), {torch.nn.Linear})
    model = load(network)
    assert model._adapter.is_low_precision
    assert np.isfinite(model.case(PROMPT, TARGET).with_logprobs(model).values).all()
