"""Every architecture of the causal-LM mapping of `transformers`, as a tiny network with random weights.

Configurations are shrunk by the names of their fields. Each kind of layer is kept once. Windows are shorter than the
prompts of the tests, so that errors in sliding attention show. `OVERRIDES` has what the names cannot say.
"""

import logging
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import tiny

ARCHITECTURES: Mapping[str, str] = dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)  # model type → class
WINDOW = 6  # tokens

_SIZES: dict[str, int] = {
    name: size
    for size, names in {
        1: "max_window_layers n_group topk_group num_expert_group num_nextn_predict_layers "
        "mamba_n_groups n_groups num_mem_blocks",
        2: "num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers num_decoder_layers "
        "num_encoder_layers num_experts_per_tok num_experts_per_token num_key_value_heads swa_num_key_value_heads "
        "moe_k moe_topk index_n_heads linear_num_key_heads kv_n_heads num_blocks depth",
        4: "num_attention_heads n_head n_heads num_heads decoder_attention_heads encoder_attention_heads "
        "num_encoder_attention_heads num_decoder_attention_heads attention_heads swa_num_attention_heads "
        "num_experts num_local_experts n_routed_experts moe_num_experts qk_rope_head_dim mamba_n_heads "
        "mamba_num_heads linear_num_value_heads linear_num_heads n_mamba_heads num_query_groups rotary_dim",
        8: "head_dim swa_head_dim qk_nope_head_dim v_head_dim mamba_d_state state_size ssm_state_size mamba_d_head "
        "mamba_head_dim mamba_headdim linear_key_head_dim linear_value_head_dim linear_head_dim index_head_dim "
        "time_step_rank mamba_dt_rank kv_channels d_head dim_head attention_head_size laurel_rank gated_norm_rank "
        "hidden_size_per_layer_input mamba_chunk_size chunk_size",
        16: "q_lora_rank kv_lora_rank o_lora_rank block_size adapter_rank moe_intermediate_size "
        "shared_expert_intermediate_size expert_ffn_hidden_size router_hidden_size shared_intermediate_size",
        32: "hidden_size d_model n_embd emb_dim embedding_dim embedding_size input_embedding_size lru_width "
        "word_embed_proj_dim output_embedding_size",
        64: "index_topk keep_window_size "  # longer than the prompts: beyond it, a prompt is refused
        "intermediate_size ffn_dim d_ff dff decoder_ffn_dim encoder_ffn_dim ffn_hidden_size d_inner dim_ff "
        "feed_forward_size dense_intermediate_size intermediate_size_mlp moe_shared_expert_intermediate_size",
        128: "max_position_embeddings n_positions n_ctx max_seq_len max_target_positions context_length "
        "model_max_length",
        WINDOW: "sliding_window sliding_window_size window_size attention_window_size local_attention "
        "attention_chunk_size",
    }.items()
    for name in names.split()
}
_VOCABULARIES = ("vocab_size", "decoder_vocab_size", "vocab_size_per_layer_input")
_TOKENS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "decoder_start_token_id": 0}

_DECODER = {"is_decoder": True}  # as an encoder, the network sees the whole text and is refused
_HEAD = {"head_dim": 8}  # the default is None, and the network needs a number
_MAMBA2 = {"mamba_n_heads": 8}  # heads × width of a head = expand × hidden size
_INDEXER = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 64,
    "indexer_compress_ratio": 2,
    "hc_lowrank": 8,
}  # no defaults, and the network needs them
_GEMMA3N = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "activation_sparsity_pattern": [0.95, 0.0, 0.0, 0.0],
    "num_kv_shared_layers": 2,
    "intermediate_size": [64] * 4,
}  # shared keys and values need an earlier layer of their kind

OVERRIDES: dict[str, dict[str, Any]] = {  # by model type: fields whose names do not determine their sizes
    "bamba": {**_MAMBA2, "num_hidden_layers": 3, "attn_layer_indices": [1]},  # without, there is no attention
    "bert": _DECODER,
    "bert-generation": _DECODER,
    "big_bird": _DECODER,
    "blt": {
        "encoder_hash_byte_group_vocab": 50,
        "encoder_config": {"hidden_size_global": 32},
        "decoder_config": {"hidden_size_global": 32},
    },
    "camembert": _DECODER,
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}},
    },  # one for each kind of layer, and the default has none
    "data2vec-text": _DECODER,
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8}},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "electra": _DECODER,
    "ernie": _DECODER,
    "falcon_h1": {**_MAMBA2, "mamba_d_ssm": 64},
    "gemma3n_text": _GEMMA3N,
    "granitemoehybrid": {**_MAMBA2, "layer_types": ["linear_attention", "full_attention"]},
    "hunyuan_v1_dense": _HEAD,
    "hunyuan_v1_moe": _HEAD,
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},  # attention in the second layer
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "longcat_flash": {"head_dim": 4},
    "mamba2": {"num_heads": 8},
    "megatron-bert": _DECODER,
    "ministral": _HEAD,
    "nemotron": {"num_key_value_heads": 2, **_HEAD},
    "qwen4_exp": {"text_config": _INDEXER},
    "qwen4_exp_text": _INDEXER,
    "reformer": {
        "is_decoder": True,
        "attn_layers": ["local", "local"],  # the buckets of LSH attention depend on the whole text: refused
        "axial_pos_shape": [8, 16],
        "axial_pos_embds_dim": [8, 24],
        "local_attn_chunk_length": 4,
    },
    "rembert": _DECODER,
    "roberta": _DECODER,
    "roberta-prelayernorm": _DECODER,
    "roc_bert": {**_DECODER, "shape_vocab_size": 50, "pronunciation_vocab_size": 50},
    "roformer": _DECODER,
    "xlm": {"causal": True},  # without, the network sees the whole text and is refused
    "xlm-roberta": _DECODER,
    "xlm-roberta-xl": _DECODER,
    "xmod": {**_DECODER, "default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],  # two share one transformer
    },
    "zamba2": {
        "n_mamba_heads": 8,
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
    },
}

NOT_BUILT = {  # by model type: why there is no network of this type alone
    "gemma3n": "its image encoder needs the package timm",
    "gemma4_assistant": "a draft model that reads the states of a larger model",
    "gemma4_unified_assistant": "a draft model that reads the states of a larger model",
    "musicgen": "generates codes of audio; the class takes the configuration of the decoder alone",
    "musicgen_melody": "generates codes of audio; the class takes the configuration of the decoder alone",
}

FEW = [  # those that `make test` checks, each for what is special about it
    "bamba",  # counts positions from zero in every call
    "ctrl",  # scales embeddings in place
    "deepseek_v32",  # sparse attention
    "falcon",  # cannot be switched to another attention implementation
    "gemma3_text",  # sliding attention
    "gpt_oss",  # attention sinks
    "mamba",  # no attention
    "minimax",  # a cache of its own
    "qwen3_next",  # a hybrid
    "roberta",  # positions start after the padding id
]


@cache
def build(model_type: str) -> Any:
    """A tiny network of this architecture."""
    return make_network(shrink(model_type))


def make_network(config: PreTrainedConfig, kind: Any = AutoModelForCausalLM) -> Any:
    """A network whose random weights are large enough that its predictions depend on the context."""
    torch.manual_seed(0)
    with _Quiet():
        network = kind.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.2)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return network.eval()


def shrink(model_type: str, **overrides: Any) -> PreTrainedConfig:
    """The configuration of this architecture with small numbers."""
    with _Quiet():
        return _shrink(CONFIG_MAPPING[model_type], OVERRIDES.get(model_type, {}) | overrides)


def _shrink(kind: type[PreTrainedConfig], overrides: Mapping[str, Any]) -> PreTrainedConfig:
    fields = vars(kind())
    if "use_sliding_window" in fields:  # off by default
        fields = vars(kind(use_sliding_window=True, max_window_layers=1))
    changes: dict[str, Any] = {"use_sliding_window": True} if "use_sliding_window" in fields else {}
    for name, value in fields.items():
        if isinstance(value, PreTrainedConfig):
            changes[name] = _shrink(type(value), overrides.get(name, {}))
        elif name in _VOCABULARIES:
            changes[name] = len(tiny.byte_level_tokenizer())
        elif name in _TOKENS:
            changes[name] = _TOKENS[name] if value is not None else None
        elif name in ("head_dim", "num_key_value_heads") and "kv_lora_rank" in fields:
            continue  # latent attention derives them
        elif name in _SIZES and isinstance(value, int) and value > 0:
            changes[name] = min(value, _SIZES[name])
    if "kv_lora_rank" in fields:
        changes["num_key_value_heads"] = changes["num_attention_heads"]
    changes |= _representative_layers(fields)
    changes |= {n: value for n, value in overrides.items() if not isinstance(fields.get(n), PreTrainedConfig)}
    return kind(**changes)


def _representative_layers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Lists with an item for each layer, cut to one layer of each kind, and two at least."""
    count = next((fields[n] for n in ("num_hidden_layers", "n_layer", "num_layers") if n in fields), None)
    lists = {n: v for n, v in fields.items() if isinstance(v, list | tuple) and count and len(v) == count}
    if not lists:
        return {}
    kinds = [str(items) for items in zip(*lists.values(), strict=True)]
    chosen = sorted({kinds.index(kind) for kind in kinds})
    if len(chosen) == 1:
        chosen = [0, 1]
    return {"num_hidden_layers": len(chosen), **{n: [v[i] for i in chosen] for n, v in lists.items()}}


class _Quiet:
    """Hides the warnings about small configurations."""

    def __enter__(self) -> None:
        logging.disable(logging.WARNING)
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *error: object) -> None:
        self.warnings.__exit__(*error)
        logging.disable(logging.NOTSET)
