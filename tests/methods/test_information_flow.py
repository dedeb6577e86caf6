"""Information-flow routes, value zeroing and AttnLRP: each against a calculation of its own on tiny networks."""

import copy
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, MixtralConfig
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.llama import modeling_llama
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import tiny
from reagent import explain
from reagent.case import Floats
from reagent.methods.information_flow import follow
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.relevance import _keep_ratio, _keep_scale

PROMPT = "The river runs through the old town"
FAMILIES = ("llama", "gemma3", "qwen", "gpt2")
METHODS = ("ifr", "value_zeroing", "attn_lrp")


def model_of(family: str) -> HuggingFaceModel:
    return HuggingFaceModel(tiny.network_of(family), tiny.tokenizer_of(family))


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> HuggingFaceModel:
    return model_of(request.param)


# --- information-flow routes ---


@torch.no_grad()
def test_contributions_equal_a_calculation_term_by_term() -> None:
    model = model_of("llama")
    ids = model.case(PROMPT, max_new_tokens=1).ids
    layer: Any = model.network.model.layers[0]
    weights = torch.tensor(model.attentions(ids)[0])  # type: ignore[index]
    heads, size = len(weights), layer.self_attn.head_dim
    before = model.network.model.embed_tokens(torch.tensor(ids))
    values = layer.self_attn.v_proj(layer.input_layernorm(before)).view(len(ids), -1, size)
    for i in (0, 3, len(ids) - 1):
        total, terms = before[i].clone(), []
        for h in range(heads):
            own = values[:, h // (heads // values.shape[1])]
            joins = layer.self_attn.o_proj.weight[:, h * size : (h + 1) * size]
            terms.append([weights[h, i, j] * joins @ own[j] for j in range(i + 1)])
            total += sum(terms[-1])
        near = [[float((total.abs().sum() - (t - total).abs().sum()).clamp(min=0)) for t in row] for row in terms]
        expected = np.sum(near, axis=0)
        expected[i] += float((total.abs().sum() - (before[i] - total).abs().sum()).clamp(min=0))
        found = model.contributions(ids)[0][i, : i + 1]  # type: ignore[index]
        np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-5)


def test_paths_through_two_layers_are_added_up() -> None:
    first = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], np.float32)
    second = np.array([[1, 0, 0], [0, 1, 0], [0, 0.4, 0.6]], np.float32)
    # last row: .4 · (.5 .5 0) + .6 · (.2 .3 .5)
    np.testing.assert_allclose(follow([first, second])[2], [0.32, 0.38, 0.3], atol=1e-7)


# --- value zeroing ---


@torch.no_grad()
def test_value_zeroing_equals_passes_with_one_value_removed() -> None:
    model = model_of("llama")
    network: Any = model.network
    ids = torch.tensor(model.case(PROMPT, max_new_tokens=1).ids)[None]
    whole = network(input_ids=ids, output_hidden_states=True).hidden_states
    found = model.value_zeroing(ids[0].numpy())
    changes = np.zeros((ids.shape[1], ids.shape[1]))
    for j in range(ids.shape[1]):

        def zero(_module: Any, _given: Any, output: torch.Tensor, j: int = j) -> None:
            output[:, j] = 0

        hook = network.model.layers[0].self_attn.v_proj.register_forward_hook(zero)
        changed = network(input_ids=ids, output_hidden_states=True).hidden_states[1]
        hook.remove()
        changes[:, j] = 1 - torch.cosine_similarity(changed[0], whole[1][0], dim=-1)
    changes = np.tril(changes.clip(0))
    np.testing.assert_allclose(found[0], changes / changes.sum(1, keepdims=True), atol=1e-4)


# --- AttnLRP ---


@pytest.fixture
def lxt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The rules of lxt 2.1 (pip install --no-deps lxt==2.1), which is not part of any extra.

    Its tables of models need torchvision and an older transformers, and are left out.
    """
    for name, attribute in (("bert", "modeling_bert"), ("vit_torch", "vision_transformer")):
        stub: Any = ModuleType(name)
        setattr(stub, attribute, stub)
        stub.attnLRP = stub.cp_LRP = {}
        monkeypatch.setitem(sys.modules, f"lxt.efficient.models.{name}", stub)
    yield pytest.importorskip("lxt.efficient.patches")
    for name in [name for name in sys.modules if name.split(".")[0] == "lxt"]:
        del sys.modules[name]


@pytest.mark.parametrize(("family", "module"), [("llama", modeling_llama), ("gemma3", modeling_gemma3)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_relevance_equals_that_of_lxt(family: str, module: Any, lxt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(family)
    case = model.case(PROMPT, max_new_tokens=3)
    found = model.relevance(case, [0, 1, 2])
    network: Any = copy.deepcopy(model.network)
    network.set_attn_implementation("eager")
    with monkeypatch.context() as patch:
        wrapped = lxt.wrap_attention_forward(module.eager_attention_forward)
        patch.setattr(module, "eager_attention_forward", wrapped)
        for kind in [kind for kind in vars(module).values() if isinstance(kind, type)]:
            if kind.__name__.endswith("MLP"):
                patch.setattr(kind, "forward", lxt.gated_mlp_forward)
            elif kind.__name__ == "LlamaRMSNorm":
                patch.setattr(kind, "forward", lxt.rms_norm_forward)
            elif kind.__name__ == "Gemma3RMSNorm":
                from lxt.efficient.models.gemma3 import gemma3_norm

                patch.setattr(kind, "_norm", gemma3_norm)
        embeddings = torch.tensor(model.embed(case.ids[:-1]))[None].requires_grad_()
        logits = network(inputs_embeds=embeddings, use_cache=False).logits[0]
        for t, (position, target) in enumerate(zip(case.positions, case.targets, strict=True)):
            (gradient,) = torch.autograd.grad(logits[position - 1, target], embeddings, retain_graph=True)
            expected = (gradient * embeddings).sum(-1)[0].detach().numpy()
            np.testing.assert_allclose(found[t], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("part", "rule"),
    [(torch.nn.SiLU(), _keep_ratio), (LlamaRMSNorm(8), _keep_scale), (torch.nn.LayerNorm(8), _keep_scale)],
)
def test_norms_and_activations_keep_the_sum_of_relevance(part: torch.nn.Module, rule: Any) -> None:
    given = torch.randn(5, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    plain = part(given).detach()
    part.register_forward_hook(rule)
    output = part(given)
    torch.testing.assert_close(output, plain)
    weights = torch.linspace(-1, 1, 8)
    (gradient,) = torch.autograd.grad((output * weights).sum(), given)
    torch.testing.assert_close((given * gradient).sum(-1), (output * weights).sum(-1))


def test_a_contrast_has_the_difference_of_both_relevances(model: HuggingFaceModel) -> None:
    case, other = (model.case(PROMPT, target=text) for text in (" and", " the"))
    both = model.relevance(case.contrasted_with(other.output[0], 0), [0])
    np.testing.assert_allclose(both, model.relevance(case, [0]) - model.relevance(other, [0]), atol=1e-5)


# --- all three ---


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_left_in_the_network(model: HuggingFaceModel, method: str) -> None:
    def others() -> list[Any]:
        names = ("input_x_gradient", "attention", "occlusion")
        return [explain(model, PROMPT, max_new_tokens=2, method=name).scores for name in names]

    def hooks() -> list[list[int]]:  # transformers leaves some of its own in the twin
        parts = (*model.network.modules(), *model._adapter.eager.module.modules())
        return [[*part._forward_hooks, *part._forward_pre_hooks] for part in parts]

    before, kept = others(), hooks()
    explain(model, PROMPT, max_new_tokens=2, method=method)
    assert hooks() == kept
    assert others() == before


@pytest.mark.parametrize("method", METHODS)
def test_later_tokens_change_nothing(model: HuggingFaceModel, method: str) -> None:
    def effects(target: str) -> Floats:
        return np.array(explain(model, PROMPT, target=target, method=method).effects[0])  # type: ignore[index]

    np.testing.assert_allclose(effects(" and"), effects(" and the old town"), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_close(model: HuggingFaceModel, dtype: torch.dtype) -> None:
    half = HuggingFaceModel(copy.deepcopy(model.network).to(dtype), model.tokenizer)
    case = model.case(PROMPT, target=" and")
    for method in ("contributions", "value_zeroing"):
        exact, rounded = (np.mean(getattr(one, method)(case.ids), axis=0) for one in (model, half))
        np.testing.assert_allclose(rounded, exact, atol=0.05)
    exact, rounded = (one.relevance(case, [0]) for one in (model, half))
    np.testing.assert_allclose(rounded, exact, atol=0.1 * abs(exact).max())


@pytest.mark.parametrize(
    "config",
    [
        MixtralConfig(num_local_experts=2, num_experts_per_tok=1, num_key_value_heads=2, **tiny._SMALL),
        Gemma2Config(num_key_value_heads=2, head_dim=8, final_logit_softcapping=30.0, **tiny._SMALL),
    ],
    ids=["experts", "capped logits"],
)
def test_layers_of_another_form_are_not_known(config: Any) -> None:
    tokenizer = tiny.tokenizer_of("llama")
    config.vocab_size = len(tokenizer)
    assert not HuggingFaceModel(AutoModelForCausalLM.from_config(config), tokenizer).has_decoder_layers


def test_layers_that_do_not_add_up_are_not_known() -> None:
    model = model_of("llama")
    network: Any = copy.deepcopy(model.network)
    attention = network.model.layers[1].self_attn
    forward = attention.forward
    attention.forward = lambda *args, **named: (2 * (found := forward(*args, **named))[0], found[1])
    doubled = HuggingFaceModel(network, model.tokenizer)
    assert model.has_decoder_layers
    assert not doubled.has_decoder_layers
