"""Tiny encoder–decoder models, built in a moment, with no download."""

from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForSeq2SeqLM,
    BartConfig,
    BertConfig,
    BlenderbotConfig,
    BlenderbotSmallConfig,
    ByT5Tokenizer,
    EncoderDecoderConfig,
    GPT2Config,
    LEDConfig,
    LongT5Config,
    M2M100Config,
    MarianConfig,
    MBartConfig,
    MT5Config,
    PegasusConfig,
    PreTrainedTokenizerFast,
    ProphetNetConfig,
    SwitchTransformersConfig,
    T5Config,
    T5GemmaConfig,
    UMT5Config,
)

from tiny import TEXT

_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
}
_BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_GEMMA = {  # windows shorter than the texts
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 6,
}  # fmt: skip
_IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def _pair(size: int, decoder: Any) -> EncoderDecoderConfig:
    encoder = BertConfig(vocab_size=size, max_position_embeddings=64, **_BERT, **_IDS)
    return EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder, decoder_start_token_id=1, **_IDS)


FAMILIES: dict[str, Any] = {
    "t5": lambda v: T5Config(vocab_size=v, **_T5, **_IDS),
    "flan-t5": lambda v: T5Config(
        vocab_size=v, feed_forward_proj="gated-gelu", tie_word_embeddings=False, **_T5, **_IDS
    ),
    "byt5": lambda v: T5Config(vocab_size=v, feed_forward_proj="gated-gelu", **_T5, pad_token_id=0, eos_token_id=1),
    "mt5": lambda v: MT5Config(vocab_size=v, **_T5, **_IDS),
    "umt5": lambda v: UMT5Config(vocab_size=v, **_T5, **_IDS),
    "bart": lambda v: BartConfig(
        vocab_size=v, decoder_start_token_id=2, forced_eos_token_id=2, scale_embedding=True, **_BART, **_IDS
    ),
    "mbart": lambda v: MBartConfig(vocab_size=v, decoder_start_token_id=3, scale_embedding=True, **_BART, **_IDS),
    "pegasus": lambda v: PegasusConfig(vocab_size=v, decoder_start_token_id=0, scale_embedding=True, **_BART, **_IDS),
    "marian": lambda v: MarianConfig(
        vocab_size=v, decoder_start_token_id=0, scale_embedding=True, decoder_vocab_size=v, **_BART, **_IDS
    ),
    "m2m100": lambda v: M2M100Config(vocab_size=v, decoder_start_token_id=2, scale_embedding=True, **_BART, **_IDS),
    "blenderbot": lambda v: BlenderbotConfig(vocab_size=v, decoder_start_token_id=1, **_BART, **_IDS),
    "blenderbot-small": lambda v: BlenderbotSmallConfig(vocab_size=v, decoder_start_token_id=1, **_BART, **_IDS),
    "prophetnet": lambda v: ProphetNetConfig(
        vocab_size=v,
        hidden_size=32,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_encoder_layers=2,
        num_decoder_layers=2,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
        max_position_embeddings=64,
        decoder_start_token_id=1,
        **_IDS,
    ),
    "led": lambda v: LEDConfig(
        vocab_size=v,
        attention_window=8,
        max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64,
        decoder_start_token_id=2,
        **{key: value for key, value in _BART.items() if key != "max_position_embeddings"},
        **_IDS,
    ),
    "longt5": lambda v: LongT5Config(vocab_size=v, local_radius=4, **_T5, **_IDS),
    "switch": lambda v: SwitchTransformersConfig(
        vocab_size=v, num_experts=4, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, **_T5, **_IDS
    ),
    "t5gemma": lambda v: T5GemmaConfig(
        vocab_size=v, encoder={"vocab_size": v, **_GEMMA}, decoder={"vocab_size": v, **_GEMMA}, **_IDS
    ),
    "bert2bert": lambda v: _pair(v, BertConfig(vocab_size=v, max_position_embeddings=64, **_BERT, **_IDS)),
    "bert2gpt2": lambda v: _pair(  # of another width than the encoder
        v, GPT2Config(vocab_size=v, n_embd=24, n_layer=2, n_head=4, n_positions=64, **_IDS)
    ),
}
SPECIAL = ["<pad>", "<s>", "</s>", "<en>", "<fr>", "<unk>"]


@cache
def word_tokenizer(template: str = "$A </s>") -> PreTrainedTokenizerFast:
    """▁ for spaces, as in T5; `template` puts special tokens around a text."""
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    core.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=200, special_tokens=SPECIAL, show_progress=False))
    core.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(token, i) for i, token in enumerate(SPECIAL)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=["<en>", "<fr>"],
    )  # fmt: skip


def tokenizer_of(family: str) -> Any:
    """The special tokens of each family around a source."""
    if family == "byt5":
        return ByT5Tokenizer(extra_ids=0)
    templates = {"bart": "<s> $A </s>", "mbart": "$A </s> <en>", "m2m100": "<en> $A </s>"}
    return word_tokenizer(templates.get(family, "<s> $A </s>" if family.startswith("bert2") else "$A </s>"))


@cache
def network_of(family: str) -> Any:
    """A model of the family with random weights, large enough that its predictions differ between contexts."""
    torch.manual_seed(0)
    network = AutoModelForSeq2SeqLM.from_config(FAMILIES[family](len(tokenizer_of(family))))
    if family == "m2m100":
        network.generation_config.forced_bos_token_id = SPECIAL.index("<fr>")
    for parameter in network.parameters():
        if parameter.dim() > 1:  # positions too, so that errors in positions show
            torch.nn.init.normal_(parameter, std=0.2)
    return network.eval()
