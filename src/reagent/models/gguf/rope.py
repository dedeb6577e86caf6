"""The rotary positions of a GGUF header, as `rope_parameters` of `transformers`.

llama.cpp divides the frequencies by `rope.scaling.factor`, unless the type is `none`, and by the factors of a tensor,
which is how Llama 3's scaling is written. `transformers` computes any such list as the type `longrope`.
"""

import math
from typing import Any

from reagent.models.gguf.keys import Keys


def rope_parameters(keys: Keys, *, partial: bool = False, only_longrope: bool = False) -> dict[str, Any]:
    """With `partial`, the model may rotate a part of each head; with `only_longrope`, it knows no other scaling."""
    rotated = keys("rope.dimension_count", keys.head)
    if rotated != keys.head and not partial:
        raise keys.refusal("rope.dimension_count", rotated)
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": keys("rope.freq_base", 10000.0)}
    if partial:
        rope["partial_rotary_factor"] = rotated / keys.head
    kind = keys("rope.scaling.type", "linear")
    factor = keys("rope.scaling.factor", keys("rope.scale_linear", 0.0)) or 1.0
    if kind == "none":
        factor = 1.0
    attention = keys("rope.scaling.attn_factor", 1.0)
    original = keys("rope.scaling.original_context_length", keys.context)
    lists = _factors(keys)
    yarn_attention = 1 + 0.1 * math.log(max(factor, 1.0))
    _check_yarn_constants(keys, yarn_attention)
    if kind == "yarn" and not lists and not only_longrope:
        return rope | {
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": original,
            "attention_factor": attention * yarn_attention,
        }
    if kind not in ("none", "linear", "longrope"):
        raise keys.refusal("rope.scaling.type", kind)
    if not lists and factor == attention == 1.0:
        return rope
    if not lists and attention == 1.0 and not only_longrope:
        return rope | {"rope_type": "linear", "factor": factor}
    lists = lists or {"short": [1.0] * (rotated // 2), "long": [1.0] * (rotated // 2)}
    return rope | {
        "rope_type": "longrope",
        "original_max_position_embeddings": original,
        "attention_factor": attention,
        **{f"{length}_factor": [factor * number for number in numbers] for length, numbers in lists.items()},
    }


def _factors(keys: Keys) -> dict[str, list[float]]:
    """The lists of factors for short and long texts, if the file has them."""
    if keys.has("rope_freqs.weight"):
        numbers = keys.header.floats("rope_freqs.weight")
        return {"short": numbers, "long": numbers}
    if keys.has("rope_factors_short.weight") and keys.has("rope_factors_long.weight"):
        return {length: keys.header.floats(f"rope_factors_{length}.weight") for length in ("short", "long")}
    return {}


def _check_yarn_constants(keys: Keys, attention: float) -> None:
    """Allow only the constants of the paper: llama.cpp ignores others for these architectures."""
    keys.expect("rope.scaling.yarn_beta_fast", 32.0)
    keys.expect("rope.scaling.yarn_beta_slow", 1.0)
    keys.expect("rope.scaling.yarn_attn_factor", attention)
    keys.expect("rope.scaling.yarn_log_multiplier", 0.0)
    keys.expect("rope.scaling.yarn_ext_factor", -1.0, 1.0)
    keys.expect("rope.scaling.alpha", 0.0)
