"""Masked language models trained in seconds on sentences whose correct fills are known, and models to explain."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from reagent.models.huggingface import HuggingFaceModel

COUNTRIES = ["Japan", "Norway", "Egypt", "Chile", "Kenya", "France"]
PEOPLE = ["aunt", "uncle", "sister", "brother", "cousin"]
MOVES = ["moved", "flew", "went", "travelled"]
DOES = ["teach", "study", "learn", "hear"]
SUBJECTS = ["music", "chess", "history", "physics"]
ROOMS = ["room", "hall", "desk"]
NUMBERS = list("23456789")  # follow a room without a space
MIN_FREQUENCY = 60  # of a token: words are tokens, "room7" is not

MAX_LENGTH = 40  # tokens that the masked LMs read
SENTENCE = "My aunt moved to Japan to teach music. (Her piano stayed in room7)."


@cache
def corpus() -> list[str]:
    any_of = random.Random(0).choice

    def sentence() -> str:
        owner, other = any_of(["My", "Your", "Our"]), any_of(["Her", "His", "Their"])
        start = f"{owner} {any_of(PEOPLE)} {any_of(MOVES)} to {any_of(COUNTRIES)}"
        end = f"({other} piano stayed in {any_of(ROOMS)}{any_of(NUMBERS)})."
        return f"{start} to {any_of(DOES)} {any_of(SUBJECTS)}. {end}"

    return [sentence() for _ in range(600)]


def _byte_level(size: int, special: list[str]) -> Tokenizer:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    return core


def roberta_tokenizer() -> PreTrainedTokenizerFast:
    core = _byte_level(450, ["<s>", "<pad>", "</s>", "<mask>"])
    core.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", pad_token="<pad>", eos_token="</s>", mask_token="<mask>"
    )


def bert_tokenizer() -> PreTrainedTokenizerFast:
    """WordPiece without capitals, as in BERT's uncased models."""
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core.train_from_iterator(
        corpus(), trainers.WordPieceTrainer(min_frequency=MIN_FREQUENCY, special_tokens=special, show_progress=False)
    )
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=core, mask_token="[MASK]", **names)


def train(kind: str, folder: Path) -> None:
    """Train a masked LM of the kind "roberta" or "bert" on the corpus, and save it."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    if kind == "roberta":
        tokenizer = roberta_tokenizer()
        config = RobertaConfig(
            vocab_size=len(tokenizer), pad_token_id=1, max_position_embeddings=MAX_LENGTH + 2, **sizes
        )
        network: Any = RobertaForMaskedLM(config)
    else:
        tokenizer = bert_tokenizer()
        network = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=MAX_LENGTH, **sizes))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for such a small network more threads are slower, especially on a busy machine
    _fit(network, tokenizer)
    torch.set_num_threads(threads)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _fit(network: Any, tokenizer: PreTrainedTokenizerFast, steps: int = 250) -> None:
    batch = tokenizer(corpus(), padding=True, return_tensors="pt")
    ids, real = batch["input_ids"], batch["attention_mask"]
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(len(ids), (32,))
        masked = (torch.rand(ids[rows].shape) < 0.15) & ~special[rows]
        if not masked.any():
            continue
        seen = ids[rows].masked_fill(masked, tokenizer.mask_token_id)
        labels = ids[rows].masked_fill(~masked, -100)
        network(input_ids=seen, attention_mask=real[rows], labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@cache
def make_model(kind: str) -> HuggingFaceModel:
    """A tiny model to explain, whose tokens are not those of the masked LMs.

    In "byte-level" every word of the corpus is one token, as in GPT-2. "metaspace" adds a start token and a space
    before the first word, as in Llama. "pieces" is byte-level, but most words have several tokens.
    """
    if kind == "metaspace":
        core = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
        core.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Punctuation()]
        )
        core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
        special = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
        core.train_from_iterator(
            corpus(), trainers.BpeTrainer(min_frequency=MIN_FREQUENCY, special_tokens=special, show_progress=False)
        )
        core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    else:
        core = _byte_level(310 if kind == "pieces" else 600, ["<unk>", "<s>", "</s>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=512, n_embd=16, n_layer=1, n_head=2)
    return HuggingFaceModel(GPT2LMHeadModel(config), tokenizer, name=kind)
