"""The tensors that llama.cpp reads for each architecture, and their shapes.

The shapes are written in letters: `VW` is a matrix of V rows and W columns. A tensor that is missing, left over or of
another shape than the header says is found here, before any weight is read. `transformers` would leave out a tensor
that it has no name for.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reagent.errors import InputError
from reagent.models.gguf.header import damage_error
from reagent.models.gguf.keys import ALTERNATIVE, Keys

SHARED_GATE = "ffn_gate_inp_shexp.weight"  # a vector, or a matrix of one row in files that are not quantised


@dataclass(frozen=True)
class Tensors:
    """`top` tensors, those of each `block`, and `optional` ones, whose names begin with `blk.` if they are of a block.

    `attention` and `mixer` are only in the blocks with attention and in those with a convolution or a recurrence.
    """

    block: Mapping[str, str]
    top: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)
    attention: Mapping[str, str] = field(default_factory=dict)
    mixer: Mapping[str, str] = field(default_factory=dict)


def check_tensors(keys: Keys, config: Mapping[str, Any]) -> None:
    """Compare the table of tensors with the header."""
    header, known, layers = keys.header, TENSORS[keys.header.architecture], keys("block_count")
    letters = _required(known, config.get("layer_types", ["full_attention"] * layers))
    size = _dimensions(keys, config)
    missing = [name for name in letters if name not in header.tensors]
    if missing:
        raise InputError(
            f"{str(header.path)!r} lacks {len(missing)} of the weights of a {header.architecture!r} model, first "
            f"{missing[0]!r}: get the file again"
        )
    for name, tensor in header.tensors.items():
        shape = letters.get(name) or known.optional.get(_without_number(name, layers))
        if shape is None:
            raise InputError(
                f"{str(header.path)!r} has the tensor {name!r}, which transformers cannot use for the architecture "
                f"{header.architecture!r}: {ALTERNATIVE}"
            )
        expected = tuple(size[letter] for letter in shape)
        with_axis = (1, *expected) if name.endswith(SHARED_GATE) else expected
        if tensor.shape not in (expected, with_axis):
            raise damage_error(header.path, f"{name!r} has the shape {tensor.shape}, and its header says {expected}")
    tokens = header.values.get("tokenizer.ggml.tokens")
    if tokens not in (None, keys.vocabulary):
        raise damage_error(header.path, f"it has {tokens} tokens, and embeddings of {keys.vocabulary}")


def tensor_shapes(architecture: str, size: Mapping[str, int], kinds: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The required tensors, for sizes by letter and the kind of each block."""
    required = _required(TENSORS[architecture], kinds)
    return {name: tuple(size[letter] for letter in shape) for name, shape in required.items()}


def _required(known: Tensors, kinds: Sequence[str]) -> dict[str, str]:
    required = dict(known.top)
    for layer, kind in enumerate(kinds):
        special = known.attention if kind.endswith("_attention") and kind != "linear_attention" else known.mixer
        required |= {f"blk.{layer}.{name}": shape for name, shape in {**known.block, **special}.items()}
    return required


def _without_number(name: str, layers: int) -> str:
    found = re.match(r"blk\.(\d+)\.", name)
    return f"blk.{name[found.end() :]}" if found and int(found[1]) < layers else name


def _dimensions(keys: Keys, config: Mapping[str, Any]) -> dict[str, int]:
    """The letters of the tables."""
    sizes = {"V": keys.vocabulary, "W": keys.width, "C": keys.context, "3": 3 * keys.width}
    if keys("attention.head_count", 0):
        groups = int(config.get("num_key_value_heads") or config.get("num_kv_heads") or keys.heads)
        sizes |= {"D": keys.head, "Q": keys.heads * keys.head, "K": groups * keys.head}
        sizes |= {"A": (keys.heads + 2 * groups) * keys.head}
        sizes |= {"R": keys("rope.dimension_count", keys.head) // 2}
    if keys("feed_forward_length", 0):
        sizes |= {"F": keys("feed_forward_length"), "G": 2 * keys("feed_forward_length")}
    if "num_experts" in config:
        sizes |= {"E": config["num_experts"], "M": config["moe_intermediate_size"]}
        sizes |= {"S": config.get("shared_expert_intermediate_size", 0)}
    if "state_size" in config:
        inner, rank, state = config["intermediate_size"], config["time_step_rank"], config["state_size"]
        sizes |= {"I": inner, "J": 2 * inner, "T": rank, "N": state, "P": rank + 2 * state, "L": config["conv_kernel"]}
    if "linear_conv_kernel_dim" in config:
        states, values = config["linear_key_head_dim"], config["linear_num_value_heads"]
        inner = config["linear_value_head_dim"] * values
        sizes |= {"I": inner, "H": 2 * states * config["linear_num_key_heads"] + inner, "T": values}
        sizes |= {"N": config["linear_value_head_dim"], "Y": 2 * keys.heads * keys.head}
        sizes |= {"L": config["linear_conv_kernel_dim"]}
    if "conv_L_cache" in config:
        sizes |= {"L": config["conv_L_cache"]}
    return sizes


def _biased(shapes: Mapping[str, str]) -> dict[str, str]:
    """The weights, each with a bias as long as it has rows."""
    return dict(shapes) | {name.replace(".weight", ".bias"): shape[0] for name, shape in shapes.items()}


def _biases(shapes: Mapping[str, str]) -> dict[str, str]:
    """The biases of a block's weights, as optional tensors."""
    return {f"blk.{name.replace('.weight', '.bias')}": shape[0] for name, shape in shapes.items()}


_EMBEDDING = {"token_embd.weight": "VW"}
_HEAD = {"output.weight": "VW"}
_TOP = _EMBEDDING | {"output_norm.weight": "W"}
_TOP_BIAS = _EMBEDDING | _biased({"output_norm.weight": "W"})
_NORMS = {"attn_norm.weight": "W", "ffn_norm.weight": "W"}
_QKV = {"attn_q.weight": "QW", "attn_k.weight": "KW", "attn_v.weight": "KW"}
_ATTENTION = _QKV | {"attn_output.weight": "WQ"}
_QK_NORMS = {"attn_q_norm.weight": "D", "attn_k_norm.weight": "D"}
_UP_DOWN = {"ffn_up.weight": "FW", "ffn_down.weight": "WF"}
_GATED = _UP_DOWN | {"ffn_gate.weight": "FW"}
_EXPERTS = {
    "ffn_gate_inp.weight": "EW",
    "ffn_gate_exps.weight": "EMW",
    "ffn_up_exps.weight": "EMW",
    "ffn_down_exps.weight": "EWM",
}
_SHARED_EXPERT = {
    SHARED_GATE: "W",
    "ffn_gate_shexp.weight": "SW",
    "ffn_up_shexp.weight": "SW",
    "ffn_down_shexp.weight": "WS",
}
_FUSED = {"attn_qkv.weight": "3W", "attn_output.weight": "WW"} | _UP_DOWN
_MAMBA = {
    "attn_norm.weight": "W",
    "ssm_in.weight": "JW",
    "ssm_conv1d.weight": "IL",
    "ssm_conv1d.bias": "I",
    "ssm_x.weight": "PI",
    "ssm_dt.weight": "IT",
    "ssm_dt.bias": "I",
    "ssm_a": "IN",
    "ssm_d": "I",
    "ssm_out.weight": "WI",
}
_CONVOLUTION = {
    "shortconv.conv.weight": "WL",
    "shortconv.in_proj.weight": "3W",
    "shortconv.out_proj.weight": "WW",
}
_DELTA_NET = {
    "attn_qkv.weight": "HW",
    "attn_gate.weight": "IW",
    "ssm_conv1d.weight": "HL",
    "ssm_dt.bias": "T",
    "ssm_a": "T",
    "ssm_beta.weight": "TW",
    "ssm_alpha.weight": "TW",
    "ssm_norm.weight": "N",
    "ssm_out.weight": "WI",
}
_FREQUENCIES = {"rope_freqs.weight": "R"}
_GEMMA_NORMS = _NORMS | {"post_attention_norm.weight": "W", "post_ffw_norm.weight": "W"}
_FACTORS = {"rope_factors_long.weight": "R", "rope_factors_short.weight": "R"}
_PHI3 = {"attn_qkv.weight": "AW", "attn_output.weight": "WQ", "ffn_up.weight": "GW", "ffn_down.weight": "WF"}
_FALCON = {"attn_qkv.weight": "AW", "attn_output.weight": "WQ"} | _UP_DOWN

TENSORS: Mapping[str, Tensors] = {
    "llama": Tensors(_NORMS | _ATTENTION | _GATED, _TOP, _HEAD | _FREQUENCIES | _biases(_ATTENTION | _GATED)),
    "qwen2": Tensors(_NORMS | _biased(_QKV) | _ATTENTION | _GATED, _TOP, _HEAD),
    "qwen3": Tensors(_NORMS | _ATTENTION | _QK_NORMS | _GATED, _TOP, _HEAD),
    "qwen2moe": Tensors(_NORMS | _biased(_QKV) | _ATTENTION | _EXPERTS | _SHARED_EXPERT, _TOP, _HEAD),
    "qwen3moe": Tensors(_NORMS | _ATTENTION | _QK_NORMS | _EXPERTS, _TOP, _HEAD),
    "gemma2": Tensors(_GEMMA_NORMS | _ATTENTION | _GATED, _TOP),
    "gemma3": Tensors(_GEMMA_NORMS | _ATTENTION | _QK_NORMS | _GATED, _TOP, _HEAD),
    "phi3": Tensors(_NORMS | _PHI3, _TOP, _HEAD | _FACTORS),
    "stablelm": Tensors(
        _biased({"attn_norm.weight": "W"}) | _ATTENTION | _GATED,
        _TOP_BIAS | _HEAD,
        _biases(_QKV) | {"blk.ffn_norm.weight": "W", "blk.ffn_norm.bias": "W"},
    ),
    "starcoder2": Tensors(_biased(_NORMS | _ATTENTION | _UP_DOWN), _TOP_BIAS, _HEAD),
    "nemotron": Tensors(_biased(_NORMS) | _ATTENTION | _UP_DOWN, _TOP_BIAS | _HEAD, _biases(_ATTENTION | _UP_DOWN)),
    "falcon": Tensors(_biased({"attn_norm.weight": "W"}) | _FALCON, _TOP_BIAS, _HEAD),
    "gpt2": Tensors(_biased(_NORMS | _FUSED), _TOP_BIAS | {"position_embd.weight": "CW"}, _HEAD),
    "bloom": Tensors(_biased(_NORMS | _FUSED), _TOP_BIAS | _biased({"token_embd_norm.weight": "W"}), _HEAD),
    "qwen35": Tensors(
        {"attn_norm.weight": "W", "post_attention_norm.weight": "W"} | _GATED,
        _TOP,
        _HEAD,
        attention=_ATTENTION | {"attn_q.weight": "YW"} | _QK_NORMS,
        mixer=_DELTA_NET,
    ),
    "mamba": Tensors(_MAMBA, _TOP, _HEAD),
    "lfm2": Tensors(
        _NORMS | _GATED,
        _EMBEDDING | {"token_embd_norm.weight": "W"},
        _HEAD,
        attention=_ATTENTION | _QK_NORMS,
        mixer=_CONVOLUTION,
    ),
}
