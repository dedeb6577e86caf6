"""Tiny random GGUF files of every supported architecture, and llama.cpp as the second reader of the same file."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

LETTERS = [chr(i) for i in [*range(33, 127), *range(161, 173), *range(174, 256)]]
LETTERS += [chr(256 + i) for i in range(256 - len(LETTERS))]  # the byte-level alphabet of GPT-2
MERGES = [f"{first} {second}" for first in "abcde" for second in "aeiou"]
TOKENS = ["<unk>", "<s>", "</s>", *LETTERS, *(merge.replace(" ", "") for merge in MERGES)]
TOKENS += [f"<pad{i}>" for i in range(288 - len(TOKENS))]

WIDTH, HEADS, GROUPS, HIDDEN, CONTEXT, BLOCKS = 256, 4, 2, 512, 128, 2
QUANTISATIONS = ("F32", "F16", "Q8_0", "Q4_0", "Q4_K")
POSITIONS = (1, 6, 17, 33, 48)  # lengths of the prefixes whose next token is predicted


@dataclass(frozen=True)
class Recipe:
    """What a file of an architecture has beyond a common transformer."""

    norm: str = "attention.layer_norm_rms_epsilon"
    head: int = WIDTH // HEADS
    groups: int | None = GROUPS
    keys: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    tied: bool = False


_LAYER_NORM = "attention.layer_norm_epsilon"
_EXPERTS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 256}
RECIPES: Mapping[str, Recipe] = {
    "llama": Recipe(),
    "qwen2": Recipe(tied=True),
    "qwen3": Recipe(head=128),
    "qwen2moe": Recipe(keys=_EXPERTS | {"expert_shared_feed_forward_length": 256}, sizes={"E": 4, "M": 256, "S": 256}),
    "qwen3moe": Recipe(head=128, keys=_EXPERTS, sizes={"E": 4, "M": 256}),
    "qwen35": Recipe(
        head=128,
        keys={"ssm.inner_size": 512, "ssm.state_size": 128, "ssm.conv_kernel": 4, "ssm.time_step_rank": 4}
        | {"ssm.group_count": 2, "full_attention_interval": 2, "rope.freq_base": 1e6}
        | {"rope.dimension_count": 64, "rope.dimension_sections": [11, 11, 10, 0]},
        sizes={"I": 512, "H": 1024, "T": 4, "N": 128, "Y": 1024, "L": 4},
    ),
    "gemma2": Recipe(head=128, tied=True, keys={"attention.sliding_window": 16}),
    "gemma3": Recipe(
        head=128,
        tied=True,
        keys={"attention.sliding_window": 16, "attention.sliding_window_pattern": 2, "rope.freq_base": 1e6},
    ),
    "phi3": Recipe(),
    "stablelm": Recipe(norm=_LAYER_NORM, keys={"use_parallel_residual": True, "rope.dimension_count": 16}),
    "starcoder2": Recipe(norm=_LAYER_NORM, tied=True),
    "nemotron": Recipe(norm=_LAYER_NORM, keys={"rope.dimension_count": 32}),
    "falcon": Recipe(norm=_LAYER_NORM, groups=1),
    "gpt2": Recipe(norm=_LAYER_NORM, groups=None, tied=True),
    "bloom": Recipe(norm=_LAYER_NORM, groups=None, keys={"feed_forward_length": 1024}),
    "mamba": Recipe(
        groups=None,
        tied=True,
        keys={"ssm.inner_size": 512, "ssm.state_size": 16, "ssm.conv_kernel": 4, "ssm.time_step_rank": 16}
        | {"attention.head_count": 0, "feed_forward_length": 0},
        sizes={"I": 512, "J": 1024, "T": 16, "N": 16, "P": 48, "L": 4},
    ),
    "lfm2": Recipe(
        tied=True,
        keys={"shortconv.l_cache": 3, "attention.head_count_kv": [0, 2], "rope.freq_base": 1e6},
        sizes={"L": 3},
    ),
}


def write_model(
    path: Path,
    architecture: str,
    *,
    quantisation: str = "F32",
    unpacked: bool = False,
    seed: int = 0,
    blocks: int = BLOCKS,
    pre: str = "gpt-2",
    begin: bool | None = None,
    keys: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Floats | tuple[int, ...] | None] | None = None,
) -> Path:
    """Random weights. `keys` and `tensors` are added; None leaves one out, a shape is filled with random numbers.

    With `unpacked`, the quantised weights are written as float32. `pre` and `begin` are the pre-tokenizer and whether
    texts begin with `<s>`.
    """
    import gguf

    recipe = RECIPES[architecture]
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in _header(recipe, blocks, keys or {}).items():
        if value is not None:
            _add_key(
                writer, name if name.startswith(("general.", "split.", "adapter.")) else f"{architecture}.{name}", value
            )
    _add_tokenizer(writer, pre, begin)
    shapes: dict[str, Any] = dict(model_shapes(architecture, blocks, keys or {}))
    if not recipe.tied:
        shapes["output.weight"] = shapes["token_embd.weight"]
    for name, given in (shapes | dict(tensors or {})).items():
        if given is None:
            continue
        weights = _random(name, given, seed) if isinstance(given, tuple) else given
        kind = gguf.GGMLQuantizationType[_stored_type(name, weights.shape, quantisation)]
        stored = quantise(weights, kind)
        if unpacked:
            writer.add_tensor(name, gguf.quants.dequantize(stored, kind).reshape(weights.shape))
        else:
            writer.add_tensor(name, stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def model_shapes(architecture: str, blocks: int, keys: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The tensors that llama.cpp requires; it refuses a file that lacks one or has another shape."""
    from reagent.models.gguf.tensors import tensor_shapes

    recipe = RECIPES[architecture]
    head, groups = keys.get("attention.key_length", recipe.head), recipe.groups or HEADS
    hidden = recipe.keys.get("feed_forward_length", HIDDEN)
    sizes = {"V": len(TOKENS), "W": WIDTH, "C": CONTEXT, "3": 3 * WIDTH, "F": hidden, "G": 2 * hidden, "D": head}
    sizes |= {"Q": HEADS * head, "K": groups * head, "A": (HEADS + 2 * groups) * head} | recipe.sizes
    attention = recipe.keys.get("attention.head_count_kv", [1] * blocks)
    if interval := recipe.keys.get("full_attention_interval"):
        attention = [(i + 1) % interval == 0 for i in range(blocks)]
    kinds = ["full_attention" if attends else "conv" for attends in attention]
    return tensor_shapes(architecture, sizes, kinds)


def _header(recipe: Recipe, blocks: int, keys: Mapping[str, Any]) -> dict[str, Any]:
    header: dict[str, Any] = {
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "block_count": blocks,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        recipe.norm: 1e-5,
    }
    if recipe.groups:
        header["attention.head_count_kv"] = recipe.groups
    if recipe.head * HEADS != WIDTH:
        header |= {"attention.key_length": recipe.head, "attention.value_length": recipe.head}
    return header | dict(recipe.keys) | dict(keys)


def _add_key(writer: Any, name: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(name, value)
    elif isinstance(value, int):
        writer.add_uint32(name, value)
    elif isinstance(value, float):
        writer.add_float32(name, value)
    elif isinstance(value, str):
        writer.add_string(name, value)
    else:
        writer.add_array(name, value)


def _add_tokenizer(writer: Any, pre: str, begin: bool | None) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    if begin is not None:
        writer.add_add_bos_token(begin)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * 3 + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _random(name: str, shape: tuple[int, ...], seed: int) -> Floats:
    """Weights that make attention sharp and probabilities uneven; the name and the seed determine them."""
    random = np.random.default_rng([seed, *name.encode()])
    draws = random.normal(size=shape)
    if name.startswith("blk.") and name.endswith("ssm_a"):
        draws = -np.exp(0.5 * draws)
    elif "norm" in name and name.endswith(".weight"):
        draws = 1 + 0.1 * draws
    elif name.endswith(".bias"):
        draws = 0.1 * draws
    elif name.startswith(("token_embd", "output", "position_embd")):
        draws = 0.2 * draws
    elif len(shape) > 1:
        sharp = 2.0 if ".attn_q" in name or ".attn_k" in name else 1.0
        draws = sharp * draws / np.sqrt(shape[-1])
    return draws.astype(np.float32)


def _stored_type(name: str, shape: Sequence[int], quantisation: str) -> str:
    """Matrices are quantised, as llama.cpp does it: no norms, biases, routers, convolutions or small rows."""
    kept = ("norm", "gate_inp", "conv", "ssm_", "position", "rope_")
    block = {"Q8_0": 32, "Q4_0": 32, "Q4_K": 256}.get(quantisation, 1)
    plain = len(shape) < 2 or shape[-1] % block or any(part in name for part in kept)
    return "F32" if plain else quantisation


def quantise(weights: Floats, kind: Any) -> npt.NDArray[Any]:
    import gguf

    if kind.name == "Q4_K":
        return _quantise_q4_k(weights)
    return gguf.quants.quantize(weights, kind)  # type: ignore[no-any-return]


def _quantise_q4_k(weights: Floats) -> npt.NDArray[np.uint8]:
    """Super-blocks of 256: 8 blocks with a scale and a minimum of 6 bits each, and 4 bits for each weight."""
    parts = weights.reshape(-1, 8, 32)
    low, high = np.minimum(parts.min(2), 0), parts.max(2)
    step = (high - low) / 15
    scale, offset = step.max(1, keepdims=True) / 63, (-low).max(1, keepdims=True) / 63
    halves = np.concatenate([scale, offset], 1).astype(np.float16)
    scale, offset = (halves[:, i : i + 1].astype(np.float32) for i in (0, 1))
    scales = np.clip(np.round(step / scale), 1, 63).astype(np.uint8)
    minima = np.clip(np.round(-low / offset), 0, 63).astype(np.uint8)
    numbers = (parts + (offset * minima)[..., None]) / (scale * scales)[..., None]
    nibbles = np.clip(np.round(numbers), 0, 15).astype(np.uint8)
    packed = np.empty((len(parts), 12), np.uint8)
    packed[:, 0:4] = scales[:, :4] | (scales[:, 4:] >> 4 << 6)
    packed[:, 4:8] = minima[:, :4] | (minima[:, 4:] >> 4 << 6)
    packed[:, 8:12] = (scales[:, 4:] & 15) | (minima[:, 4:] & 15) << 4
    quants = nibbles[:, 0::2] | nibbles[:, 1::2] << 4  # [super-blocks, 4, 32]
    blocks = np.concatenate([halves.view(np.uint8), packed, quants.reshape(len(parts), 128)], 1)
    return blocks.reshape(*weights.shape[:-1], -1)


# --- what else a header can say ---


@dataclass(frozen=True)
class Variant:
    """Changes of a file that llama.cpp reads; all of them change the probabilities."""

    keys: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Any] = field(default_factory=dict)
    blocks: int = BLOCKS


_LINEAR = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
_YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32}
_SHORT = {"rope.scaling.attn_factor": 1.2, "rope.scaling.original_context_length": 4096}
_BASE = Variant({"rope.freq_base": 500.0})
_ROTARY = {
    "linear": Variant(_LINEAR),
    "factor without type": Variant({"rope.scaling.factor": 4.0}),
    "old key": Variant({"rope.scale_linear": 4.0}),
    "yarn": Variant(_YARN),
    "rope base": _BASE,
}
_ATTENTION_FACTOR = {
    "yarn and attention factor": Variant(_YARN | {"rope.scaling.attn_factor": 1.3}),
    "attention factor": Variant(_LINEAR | {"rope.scaling.attn_factor": 1.3}),
}


def _frequency_factors(count: int) -> Floats:
    """Like Llama 3: high frequencies are kept, low ones are divided by 8, with a transition."""
    return np.interp(np.arange(count), [count / 3, 2 * count / 3], [1, 8]).astype(np.float32)


def _biases(names: Mapping[str, int]) -> dict[str, tuple[int]]:
    return {f"blk.{i}.{name}.bias": (size,) for i in range(BLOCKS) for name, size in names.items()}


_QKV_BIASES = {"attn_q": 256, "attn_k": 128, "attn_v": 128}
_FACTORS = _frequency_factors(32)
_PHI3_FACTORS = {"rope_factors_long.weight": 2 * _FACTORS, "rope_factors_short.weight": _FACTORS}
_HEAD_SIZE = {"attention.key_length": 128, "attention.value_length": 128, "rope.dimension_count": 128}
_SECOND_NORM = {f"blk.{i}.ffn_norm.{part}": (WIDTH,) for i in range(BLOCKS) for part in ("weight", "bias")}
_HEAD_TENSOR = {"output.weight": (len(TOKENS), WIDTH)}

VARIANTS: Mapping[str, Mapping[str, Variant]] = {
    "llama": _ROTARY
    | _ATTENTION_FACTOR
    | {
        "rope_freqs (Llama 3)": Variant(tensors={"rope_freqs.weight": _FACTORS}),
        "rope_freqs and linear": Variant(_LINEAR, {"rope_freqs.weight": _FACTORS}),
        "head size": Variant(_HEAD_SIZE),
        "attention biases": Variant(tensors=_biases(_QKV_BIASES | {"attn_output": 256})),
        "feed-forward biases": Variant(tensors=_biases({"ffn_gate": 512, "ffn_up": 512, "ffn_down": 256})),
    },
    "qwen2": _ROTARY | _ATTENTION_FACTOR | {"own output": Variant(tensors=_HEAD_TENSOR)},
    "qwen3": _ROTARY | _ATTENTION_FACTOR,
    "qwen35": _ROTARY | _ATTENTION_FACTOR,
    "qwen2moe": _ROTARY | _ATTENTION_FACTOR,
    "qwen3moe": _ROTARY | _ATTENTION_FACTOR,
    "gemma2": _ROTARY
    | _ATTENTION_FACTOR
    | {
        "attention soft cap": Variant({"attn_logit_softcapping": 5.0}),
        "final soft cap": Variant({"final_logit_softcapping": 8.0}),
        "window": Variant({"attention.sliding_window": 4}),
        "default window": Variant({"attention.sliding_window": None}),
    },
    "gemma3": _ROTARY
    | {
        "final soft cap": Variant({"final_logit_softcapping": 8.0}),
        "window": Variant({"attention.sliding_window": 4}),
        "no window": Variant({"attention.sliding_window": None}),
        "listed windows": Variant({"attention.sliding_window_pattern": [False, True]}),
        "rope base of windows": Variant({"rope.freq_base_swa": 500.0}),
        "own output": Variant(tensors=_HEAD_TENSOR),
    },
    "phi3": {name: _ROTARY[name] for name in ("linear", "old key", "rope base")}
    | {
        "attention factor": _ATTENTION_FACTOR["attention factor"],
        "part of the head": Variant({"rope.dimension_count": 32}),
        "factors of short texts": Variant(_SHORT, _PHI3_FACTORS),
    },
    "stablelm": _ROTARY
    | _ATTENTION_FACTOR
    | {
        "whole head": Variant({"rope.dimension_count": None}),
        "sequential blocks": Variant(tensors=_SECOND_NORM),
        "attention biases": Variant(tensors=_biases(_QKV_BIASES)),
    },
    "starcoder2": _ROTARY | _ATTENTION_FACTOR | {"own output": Variant(tensors=_HEAD_TENSOR)},
    "nemotron": _ROTARY
    | _ATTENTION_FACTOR
    | {
        "whole head": Variant({"rope.dimension_count": None}),
        "attention biases": Variant(tensors=_biases(_QKV_BIASES | {"attn_output": 256})),
    },
    "falcon": _ROTARY | _ATTENTION_FACTOR | {"tied output": Variant(tensors={"output.weight": None})},
    "gpt2": {"own output": Variant(tensors=_HEAD_TENSOR)},
    "bloom": {"tied output": Variant(tensors={"output.weight": None})},
    "mamba": {"own output": Variant(tensors=_HEAD_TENSOR)},
    "lfm2": _ROTARY | _ATTENTION_FACTOR,
}
# The largest Gemma models scale their queries differently. llama.cpp knows them by their number of layers.
LARGE = {"gemma2": 46, "gemma3": 62}


# --- the two readers ---


def text_ids(length: int = POSITIONS[-1], seed: int = 0) -> list[int]:
    return [1, *np.random.default_rng(seed).integers(3, len(TOKENS), length - 1).tolist()]


def _llama_server(path: Path) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel = CONTEXT, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.warmup, params.verbosity = False, -1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return xllamacpp.Server(params)


# A process of its own, which ends at once: the end of a server that has just answered a request may wait forever.
_TOKENIZE = """
import json, os, sys
from urllib.request import Request, urlopen
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, text = sys.argv[1:]
params.n_ctx, params.n_parallel, params.warmup, params.verbosity = int(os.environ["CONTEXT"]), 1, False, -1
params.hostnames, params.port = ["127.0.0.1"], 0
server = xllamacpp.Server(params)
body = json.dumps({"content": text, "add_special": True}).encode()
request = Request(server.listening_address + "/tokenize", body, {"Content-Type": "application/json"})
with urlopen(request, timeout=60) as reply:
    print(json.dumps(json.load(reply)["tokens"]), flush=True)
os._exit(0)
"""


def llama_tokens(path: Path, text: str) -> list[str]:
    """The tokens that llama.cpp gives its model for a text."""
    command = [sys.executable, "-c", _TOKENIZE, str(path), text]
    environment = {**os.environ, "CONTEXT": str(CONTEXT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return [TOKENS[i] for i in json.loads(done.stdout.splitlines()[-1])]


def llama_log_probabilities(path: Path, ids: Sequence[int]) -> Floats:
    """llama.cpp's [positions, vocabulary], with attention and its cache in float32."""
    server = _llama_server(path)
    rows = np.full((len(POSITIONS), len(TOKENS)), -np.inf, np.float32)
    # The sampled token is forced to be a letter: without a text, the server reports no probabilities. They are those
    # before the bias.
    options = {"n_predict": 1, "n_probs": len(TOKENS), "cache_prompt": False, "logit_bias": [[TOKENS.index("a"), 1000]]}
    for row, length in zip(rows, POSITIONS, strict=True):
        reply = server.handle_completions({"prompt": list(ids[:length]), **options})
        for entry in reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
            row[entry["id"]] = entry["logprob"]
    return rows


def reagent_log_probabilities(path: Path, ids: Sequence[int]) -> Floats:
    """The same numbers from the file as reagent loads it: converted, and read from its cache."""
    from reagent.models.load import load_model

    return _network_log_probabilities(load_model(path, device="cpu").network, ids)  # type: ignore[attr-defined]


def transformers_log_probabilities(path: Path, ids: Sequence[int]) -> Floats:
    """The same numbers from `transformers` alone."""
    from transformers import AutoModelForCausalLM

    from reagent.models._transformers import quiet_transformers

    with quiet_transformers():
        network = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name)
        return _network_log_probabilities(network, ids)


def _network_log_probabilities(network: Any, ids: Sequence[int]) -> Floats:
    import torch

    with torch.no_grad():
        logits = network(torch.tensor([list(ids)])).logits[0, [length - 1 for length in POSITIONS]]
    return logits.float().log_softmax(-1).numpy()  # type: ignore[no-any-return]


def largest_difference(first: Floats, second: Floats) -> float:
    return float(np.abs(first - second).max())


def float_tolerance(architecture: str) -> float:
    """The largest difference in nats that rounding explains in a file of float32 weights with few layers.

    llama.cpp looks GELU up in a table of half-precision numbers; the other operations are in float32.
    """
    return 0.02 if architecture in ("gemma2", "gemma3", "starcoder2", "falcon", "gpt2", "bloom") else 0.001
