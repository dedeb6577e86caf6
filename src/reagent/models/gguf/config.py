"""What a GGUF header says about the arithmetic, as a config of `transformers`.

llama.cpp defines the meaning of the keys and their defaults; the defaults of `transformers` are the values of one
checkpoint and are never used. A key is mapped to the config, compared with the only value that `transformers` computes,
or known to be without effect. Any other key `{architecture}.*` is refused by name: a model that is almost the one in
the file would give wrong explanations silently.
"""

from collections.abc import Callable, Mapping
from typing import Any

from reagent.errors import InputError
from reagent.models.gguf.header import Header, damage_error
from reagent.models.gguf.keys import ALTERNATIVE, Keys
from reagent.models.gguf.rope import rope_parameters
from reagent.models.gguf.tensors import check_tensors

_TOKENS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}


def build_config(header: Header) -> tuple[str, dict[str, Any]]:
    """The model type and the options of its config; refuses a header or tensors that they would not describe."""
    if header.architecture not in CONFIGS:
        raise InputError(
            f"{str(header.path)!r} has the architecture {header.architecture!r}, which cannot be read: {ALTERNATIVE}. "
            f"Supported: {', '.join(CONFIGS)}"
        )
    model_type, configure = CONFIGS[header.architecture]
    keys = Keys(header)
    try:
        _check_blocks(keys)
        config = configure(keys)
        keys.refuse_unread()
        check_tensors(keys, config)
    except InputError:
        raise
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:  # a size of 0, a text in the place of a number
        raise damage_error(header.path, f"a key of its header has a wrong value: {error}") from error
    tokens = {name: header.values.get(f"tokenizer.ggml.{key}_token_id") for name, key in _TOKENS.items()}
    tied = not keys.has("output.weight")
    return model_type, {"vocab_size": keys.vocabulary, "tie_word_embeddings": tied} | config | tokens


def _check_blocks(keys: Keys) -> None:
    """Each block has tensors. This is checked before anything is made for every block."""
    blocks, tensors = keys("block_count"), len(keys.header.tensors)
    if type(blocks) is not int or not 0 < blocks <= tensors:
        raise damage_error(keys.header.path, f"{keys.full('block_count')} is {blocks!r}, and it has {tensors} tensors")


def _sizes(keys: Keys) -> dict[str, Any]:
    return {
        "hidden_size": keys.width,
        "intermediate_size": keys("feed_forward_length"),
        "num_hidden_layers": keys("block_count"),
        "num_attention_heads": keys.heads,
        "num_key_value_heads": keys("attention.head_count_kv", keys.heads),
        "max_position_embeddings": keys.context,
    }


def _check_no_window(keys: Keys) -> None:
    """A sliding window that no text can leave is none."""
    window = keys("attention.sliding_window", 0)
    if 0 < window < keys.context:
        raise keys.refusal("attention.sliding_window", window)


def _check_fixed_head(keys: Keys) -> None:
    if keys.head * keys.heads != keys.width:
        raise keys.refusal("attention.key_length", keys.head)


def _llama(keys: Keys) -> dict[str, Any]:
    _check_no_window(keys)
    biases = {"attention_bias": keys.has("attn_q.bias"), "mlp_bias": keys.has("ffn_up.bias")}
    return _sizes(keys) | biases | _rms(keys) | {"head_dim": keys.head, "rope_parameters": rope_parameters(keys)}


def _rms(keys: Keys) -> dict[str, Any]:
    return {"rms_norm_eps": keys("attention.layer_norm_rms_epsilon"), "hidden_act": "silu"}


def _qwen2(keys: Keys) -> dict[str, Any]:
    _check_no_window(keys)
    _check_fixed_head(keys)
    windows = {"use_sliding_window": False, "sliding_window": None}
    return _sizes(keys) | windows | _rms(keys) | {"rope_parameters": rope_parameters(keys)}


def _qwen3(keys: Keys) -> dict[str, Any]:
    _check_no_window(keys)
    windows = {"use_sliding_window": False, "sliding_window": None, "attention_bias": False}
    heads = {"head_dim": keys.head, "rope_parameters": rope_parameters(keys)}
    return _sizes(keys) | windows | _rms(keys) | heads


def _experts(keys: Keys, normalised: bool) -> dict[str, Any]:
    """llama.cpp has the normalisation of the chosen experts' weights in its code, not in the header."""
    keys.expect("expert_weights_norm", normalised)
    keys.expect("expert_weights_scale", 1.0, 0.0)
    keys.expect("expert_gating_func", 1)  # softmax
    used = keys("expert_used_count")
    return {
        "num_experts": keys("expert_count"),
        "num_experts_per_tok": used,
        "moe_intermediate_size": keys("expert_feed_forward_length", keys("feed_forward_length") // used),
        "norm_topk_prob": normalised,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _qwen2moe(keys: Keys) -> dict[str, Any]:
    shared = keys("expert_shared_feed_forward_length", keys("feed_forward_length"))
    return _qwen2(keys) | _experts(keys, normalised=False) | {"shared_expert_intermediate_size": shared}


def _qwen3moe(keys: Keys) -> dict[str, Any]:
    return _qwen3(keys) | _experts(keys, normalised=True)


def _qwen35(keys: Keys) -> dict[str, Any]:
    """Gated delta nets, and attention in every fourth block. In texts, the three axes of its positions are equal."""
    keys.expect("nextn_predict_layers", 0)
    interval, heads = keys("full_attention_interval", 4), keys("ssm.time_step_rank")
    sections = keys.layers("rope.dimension_sections") or ()
    rope = {"mrope_section": [size for size in sections if size], "mrope_interleaved": True}
    return (
        _sizes(keys)
        | _rms(keys)
        | {
            "head_dim": keys.head,
            "rope_parameters": rope_parameters(keys, partial=True) | rope,
            "attention_bias": False,
            "layer_types": [
                "linear_attention" if (i + 1) % interval else "full_attention" for i in range(keys("block_count"))
            ],
            "linear_conv_kernel_dim": keys("ssm.conv_kernel"),
            "linear_key_head_dim": keys("ssm.state_size"),
            "linear_value_head_dim": keys("ssm.inner_size") // heads,
            "linear_num_key_heads": keys("ssm.group_count"),
            "linear_num_value_heads": heads,
        }
    )


def _phi3(keys: Keys) -> dict[str, Any]:
    _check_fixed_head(keys)
    window, original = keys("attention.sliding_window", 0), keys("rope.scaling.original_context_length", keys.context)
    rope = rope_parameters(keys, partial=True, only_longrope=True)
    # With the second list of factors, a longer text changes the positions of all its tokens. Parts that were computed
    # before would be wrong, so that only texts with the first list are taken.
    switches = rope.get("short_factor") != rope.get("long_factor")
    return (
        _sizes(keys)
        | _rms(keys)
        | {
            "rope_parameters": rope,
            "max_position_embeddings": min(original, keys.context) if switches else keys.context,
            "original_max_position_embeddings": original,
            # llama.cpp leaves the window out, with a warning. The model was trained with it.
            "sliding_window": window if 0 < window < keys.context else None,
        }
    )


def _gemma2(keys: Keys) -> dict[str, Any]:
    rope = rope_parameters(keys)
    keys.expect("rope.freq_base_swa", rope["rope_theta"])
    return _gemma(keys, large=46) | {
        "rope_parameters": rope,
        "sliding_window": keys("attention.sliding_window", 4096),
        "layer_types": _layer_types(keys, period=2),
        "attn_logit_softcapping": keys("attn_logit_softcapping", 50.0) or None,
        "final_logit_softcapping": keys("final_logit_softcapping", 30.0) or None,
    }


def _gemma3(keys: Keys) -> dict[str, Any]:
    keys.expect("rope.scaling.attn_factor", 1.0)  # llama.cpp applies it to the sliding layers too
    window = keys("attention.sliding_window", 0)
    sliding = {"rope_type": "default", "rope_theta": keys("rope.freq_base_swa", 10000.0)}
    sliding_layers = _layer_types(keys, period=6)
    return _gemma(keys, large=62) | {
        "rope_parameters": {"full_attention": rope_parameters(keys), "sliding_attention": sliding},
        "sliding_window": window or keys.context,
        "layer_types": sliding_layers if window else ["full_attention"] * keys("block_count"),
        "attn_logit_softcapping": None,
        "final_logit_softcapping": keys("final_logit_softcapping", 0.0) or None,
    }


def _gemma(keys: Keys, large: int) -> dict[str, Any]:
    """Like llama.cpp, knows the largest model, which scales its queries differently, by its number of layers."""
    scale = keys.width // keys.heads if keys("block_count") == large else keys.head
    return _sizes(keys) | {
        "head_dim": keys.head,
        "rms_norm_eps": keys("attention.layer_norm_rms_epsilon"),
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": scale,
        "attention_bias": False,
        "use_bidirectional_attention": False,
    }


def _layer_types(keys: Keys, period: int) -> list[str]:
    """Every `period`-th layer has full attention, or the header lists the sliding ones."""
    name, layers = "attention.sliding_window_pattern", keys("block_count")
    listed = keys.layers(name)
    period = period if listed is not None else keys(name, period)
    sliding = listed if listed is not None else [period == 0 or i % period < period - 1 for i in range(layers)]
    if len(sliding) != layers:
        raise keys.refusal(name, sliding)
    return ["sliding_attention" if slides else "full_attention" for slides in sliding]


def _stablelm(keys: Keys) -> dict[str, Any]:
    _check_fixed_head(keys)
    keys("use_parallel_residual", True)  # llama.cpp, too, decides by the presence of the second norm
    return _sizes(keys) | {
        "layer_norm_eps": keys("attention.layer_norm_epsilon"),
        "hidden_act": "silu",
        "use_qkv_bias": keys.has("attn_q.bias"),
        "qk_layernorm": False,
        "use_parallel_residual": not keys.has("ffn_norm.weight"),
        "rope_parameters": rope_parameters(keys, partial=True),
    }


def _starcoder2(keys: Keys) -> dict[str, Any]:
    _check_no_window(keys)
    _check_fixed_head(keys)
    return _sizes(keys) | {
        "norm_epsilon": keys("attention.layer_norm_epsilon"),
        "hidden_act": "gelu_pytorch_tanh",
        "use_bias": True,
        "sliding_window": None,
        "rope_parameters": rope_parameters(keys),
    }


def _nemotron(keys: Keys) -> dict[str, Any]:
    return _sizes(keys) | {
        "head_dim": keys.head,
        "norm_eps": keys("attention.layer_norm_epsilon"),
        "hidden_act": "relu2",
        "attention_bias": keys.has("attn_q.bias"),
        "mlp_bias": keys.has("ffn_up.bias"),
        "rope_parameters": rope_parameters(keys, partial=True),
    }


def _falcon(keys: Keys) -> dict[str, Any]:
    _check_fixed_head(keys)
    keys.expect("attention.head_count_kv", 1)  # with more, llama.cpp orders the rows of `attn_qkv` differently
    return {
        "hidden_size": keys.width,
        "ffn_hidden_size": keys("feed_forward_length", 4 * keys.width),
        "num_hidden_layers": keys("block_count"),
        "num_attention_heads": keys.heads,
        "num_kv_heads": 1,
        "layer_norm_epsilon": keys("attention.layer_norm_epsilon"),
        "max_position_embeddings": keys.context,
        "alibi": False,
        "bias": False,
        "multi_query": True,
        "new_decoder_architecture": False,
        "parallel_attn": True,
        "rope_parameters": rope_parameters(keys),
    }


def _gpt2(keys: Keys) -> dict[str, Any]:
    _check_no_groups(keys)
    return {
        "n_embd": keys.width,
        "n_inner": keys("feed_forward_length"),
        "n_layer": keys("block_count"),
        "n_head": keys.heads,
        "n_positions": keys.context,
        "layer_norm_epsilon": keys("attention.layer_norm_epsilon"),
        "activation_function": "gelu_new",
    }


def _bloom(keys: Keys) -> dict[str, Any]:
    _check_no_groups(keys)
    keys.expect("feed_forward_length", 4 * keys.width)
    keys.expect("attention.max_alibi_bias", 8.0)
    return {
        "hidden_size": keys.width,
        "n_layer": keys("block_count"),
        "n_head": keys.heads,
        "seq_length": keys.context,
        "layer_norm_epsilon": keys("attention.layer_norm_epsilon"),
        "apply_residual_connection_post_layernorm": False,
    }


def _check_no_groups(keys: Keys) -> None:
    _check_fixed_head(keys)
    keys.expect("attention.head_count_kv", keys.heads)


def _mamba(keys: Keys) -> dict[str, Any]:
    for name in ("attention.head_count", "attention.head_count_kv", "feed_forward_length", "ssm.dt_b_c_rms"):
        keys.expect(name, 0)
    return {
        "hidden_size": keys.width,
        "intermediate_size": keys("ssm.inner_size"),
        "num_hidden_layers": keys("block_count"),
        "state_size": keys("ssm.state_size"),
        "conv_kernel": keys("ssm.conv_kernel"),
        "time_step_rank": keys("ssm.time_step_rank"),
        "layer_norm_epsilon": keys("attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": keys.context,
        "hidden_act": "silu",
        "use_bias": False,
        "use_conv_bias": True,
    }


def _lfm2(keys: Keys) -> dict[str, Any]:
    _check_fixed_head(keys)
    groups = keys.layers("attention.head_count_kv") or (keys("attention.head_count_kv"),) * keys("block_count")
    if len(set(groups) - {0}) != 1 or len(groups) != keys("block_count"):
        raise keys.refusal("attention.head_count_kv", groups)
    return {
        "hidden_size": keys.width,
        "intermediate_size": keys("feed_forward_length"),
        "block_auto_adjust_ff_dim": False,
        "num_hidden_layers": keys("block_count"),
        "num_attention_heads": keys.heads,
        "num_key_value_heads": max(groups),
        "layer_types": ["full_attention" if count else "conv" for count in groups],
        "max_position_embeddings": keys.context,
        "norm_eps": keys("attention.layer_norm_rms_epsilon"),
        "conv_L_cache": keys("shortconv.l_cache"),
        "conv_bias": False,
        "rope_parameters": rope_parameters(keys),
    }


CONFIGS: Mapping[str, tuple[str, Callable[[Keys], dict[str, Any]]]] = {
    "llama": ("llama", _llama),
    "qwen2": ("qwen2", _qwen2),
    "qwen3": ("qwen3", _qwen3),
    "qwen35": ("qwen3_5_text", _qwen35),
    "qwen2moe": ("qwen2_moe", _qwen2moe),
    "qwen3moe": ("qwen3_moe", _qwen3moe),
    "gemma2": ("gemma2", _gemma2),
    "gemma3": ("gemma3_text", _gemma3),
    "phi3": ("phi3", _phi3),
    "stablelm": ("stablelm", _stablelm),
    "starcoder2": ("starcoder2", _starcoder2),
    "nemotron": ("nemotron", _nemotron),
    "falcon": ("falcon", _falcon),
    "gpt2": ("gpt2", _gpt2),
    "bloom": ("bloom", _bloom),
    "mamba": ("mamba", _mamba),
    "lfm2": ("lfm2", _lfm2),
}
