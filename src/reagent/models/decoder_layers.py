"""The decoder layers of a network by their parts, for methods that follow what happens inside.

Two forms are known. In the form of LLaMA (Mistral, Qwen, Gemma, SmolLM, OLMo and others), attention has one projection
each for queries, keys, values and its output, and the feed-forward part multiplies a gate by another projection. In
the form of GPT-2, one projection gives queries, keys and values, and nothing is multiplied. A network with any other
part that has weights is not known, for example with experts or with state-space layers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn


class _Form(NamedTuple):
    """The names of the parts of a layer."""

    queries_and_keys: tuple[str, ...]
    values: str
    output: str
    middle: tuple[str, ...]  # the first of these parts that a layer has reads the text between the two halves
    activation: str
    projections: tuple[str, ...]  # of the feed-forward part
    product: str | None  # reads the product of gate and value


LLAMA = _Form(
    ("self_attn.q_proj", "self_attn.k_proj"),
    "self_attn.v_proj",
    "self_attn.o_proj",
    ("pre_feedforward_layernorm", "post_attention_layernorm"),
    "mlp.act_fn",
    ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    "mlp.down_proj",
)
GPT2 = _Form((), "attn.c_attn", "attn.c_proj", ("ln_2",), "mlp.act", ("mlp.c_fc", "mlp.c_proj"), None)
NORMS = ("RMSNorm", "LayerNorm")


@dataclass(frozen=True)
class DecoderLayer:
    """One layer: attention, whose output is added to the text, then a feed-forward part, likewise."""

    module: nn.Module
    queries_and_keys: tuple[nn.Module, ...]  # none if `values` gives all three
    values: nn.Module
    output: nn.Module  # joins the heads
    middle: nn.Module  # reads the text after attention
    attention_norm: nn.Module | None  # normalises the output of attention before it is added
    activation: nn.Module
    product: nn.Module | None

    @property
    def gives_all_three(self) -> bool:
        return not self.queries_and_keys

    @property
    def output_weight(self) -> torch.Tensor:
        """[width of all heads, width of the text]."""
        weight = self.output.weight
        assert isinstance(weight, torch.Tensor)
        return weight.T if isinstance(self.output, nn.Linear) else weight  # GPT-2 has it the other way round

    def values_in(self, projected: torch.Tensor) -> torch.Tensor:
        """The part of the output of `values` that belongs to values; a view, [..., length, width of values]."""
        return projected[..., -projected.shape[-1] // 3 :] if self.gives_all_three else projected


def find_decoder_layers(network: nn.Module) -> tuple[DecoderLayer, ...] | None:
    """All layers in order; None if the network has another form."""
    config: Any = getattr(network, "config", None)
    text = config.get_text_config() if config is not None else None
    capped = any(getattr(text, name, None) for name in ("attn_logit_softcapping", "final_logit_softcapping"))
    for part in network.modules():
        if isinstance(part, nn.ModuleList) and len(part) == getattr(text, "num_hidden_layers", None):
            layers = [_find_parts(layer) for layer in part]
            known = tuple(layer for layer in layers if layer is not None)
            inside = {id(module) for layer in part for module in layer.modules()}
            rest = (module for module in network.modules() if id(module) not in inside)
            return known if len(known) == len(layers) and not capped and all(map(_is_plain, rest)) else None
    return None


def find_norms(network: nn.Module) -> Iterator[nn.Module]:
    """All normalisations, also those of queries and keys."""
    return (module for module in network.modules() if is_norm(module))


def is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith(NORMS)


def _find_parts(layer: nn.Module) -> DecoderLayer | None:
    parts = dict(layer.named_modules())
    for form in (LLAMA, GPT2):
        projections = {*form.queries_and_keys, form.values, form.output, *form.projections}
        middle = next((name for name in form.middle if name in parts), None)
        if middle is None or not {*projections, form.activation} <= parts.keys():
            continue
        others = (part for name, part in parts.items() if name not in projections)
        if not all(is_norm(part) or not _has_own_weights(part) for part in others):
            continue
        if not all(_is_matrix(parts[name]) for name in projections):
            continue
        follows = form is LLAMA and middle == "pre_feedforward_layernorm"
        return DecoderLayer(
            layer,
            tuple(parts[name] for name in form.queries_and_keys),
            parts[form.values],
            parts[form.output],
            parts[middle],
            parts.get("post_attention_layernorm") if follows else None,
            parts[form.activation],
            None if form.product is None else parts[form.product],
        )
    return None


def _is_matrix(part: nn.Module) -> bool:
    """A projection whose weights can be read: those of quantized networks are packed."""
    weight = getattr(part, "weight", None)
    return isinstance(weight, torch.Tensor) and weight.is_floating_point() and weight.dim() == 2


def _is_plain(part: nn.Module) -> bool:
    """A part outside of the layers: embeddings, a normalisation, the output layer, or a container."""
    return isinstance(part, nn.Embedding | nn.Linear) or is_norm(part) or not _has_own_weights(part)


def _has_own_weights(part: nn.Module) -> bool:
    return any(True for _ in part.parameters(recurse=False))
