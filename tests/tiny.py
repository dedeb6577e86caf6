"""Tiny real models and tokenizers, built in a moment, with no download."""

from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GPTJConfig,
    LlamaConfig,
    OPTConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

TEXT = [
    "My aunt moved to Japan to teach music. She rents a small flat in the capital, Tokyo.",
    "The river runs through the old town, and the children play on its banks in summer.",
    "A model reads what stands before and says what may come next, one token at a time.",
]

_SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
_POSITIONS = {"max_position_embeddings": 128}

FAMILIES: dict[str, Any] = {
    "gpt2": lambda v: GPT2Config(vocab_size=v, **_GPT),
    "gptj": lambda v: GPTJConfig(vocab_size=v, rotary_dim=4, **_GPT),
    "opt": lambda v: OPTConfig(
        vocab_size=v,
        hidden_size=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        word_embed_proj_dim=32,
        **_POSITIONS,
    ),
    "llama": lambda v: LlamaConfig(vocab_size=v, num_key_value_heads=2, **_SMALL, **_POSITIONS),
    "gemma": lambda v: GemmaConfig(vocab_size=v, num_key_value_heads=1, head_dim=8, **_SMALL, **_POSITIONS),
    # Windows of 6 tokens, shorter than the prompts, so that errors in sliding attention show.
    "gemma3": lambda v: Gemma3TextConfig(
        vocab_size=v, num_key_value_heads=1, head_dim=8, sliding_window=6, **_SMALL, **_POSITIONS
    ),
    "qwen": lambda v: Qwen2Config(vocab_size=v, num_key_value_heads=2, **_SMALL, **_POSITIONS),
}


@cache
def byte_level_tokenizer(bos: bool = False) -> PreTrainedTokenizerFast:
    """As in GPT-2: bytes, with the space as part of the word after it; with `bos`, a start token as in OPT."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "</s>"]
    core.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    if bos:
        core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")


@cache
def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """As in Gemma: ▁ for spaces, bytes only for characters outside the vocabulary, and a start token."""
    core = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    core.normalizer = normalizers.Replace(" ", "▁")
    core.pre_tokenizer = pre_tokenizers.Split("▁", behavior="merged_with_next")
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<unk>", "<bos>", "<eos>", *(f"<0x{i:02X}>" for i in range(256))]
    core.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False))
    core.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>")


@cache
def dummy_space_tokenizer() -> PreTrainedTokenizerFast:
    """As in Llama 2: a space before every text, whether it is written or not."""
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    core.decoder = decoders.Metaspace(prepend_scheme="first")
    core.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>", "<s>", "\n"], show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", bos_token="<s>")


def tokenizer_of(family: str) -> PreTrainedTokenizerFast:
    return metaspace_tokenizer() if family.startswith("gemma") else byte_level_tokenizer(bos=family == "opt")


@cache
def network_of(family: str) -> Any:
    """A model of the family with random weights, large enough that its predictions differ between contexts."""
    torch.manual_seed(0)
    config = FAMILIES[family](len(tokenizer_of(family)))
    network = AutoModelForCausalLM.from_config(config)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return network.eval()
