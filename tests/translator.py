"""Tiny encoder–decoders, trained in seconds on a task in which the cause of every output token is known.

A source has at most one animal, one colour and one food in any order, between other words. The output is the
translation of the animal, of the colour and of the food, in this order; "rien" stands for one that is missing.

A tenth of the labels is wrong, so that the networks are never certain, and gradients of log-probabilities do not
vanish. The task needs no attention within the source. In the BART, the self-attention of the encoder therefore has
random weights that are not trained: every state of the encoder mixes all words. Its decoder has no positions: it has to
read in the output so far which kind of word comes next.
"""

from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

KINDS = (
    {
        "dog": "chien",
        "cat": "chat",
        "horse": "cheval",
        "cow": "vache",
        "bird": "oiseau",
        "wolf": "loup",
        "bear": "ours",
        "hare": "lapin",
    },
    {
        "red": "rouge",
        "blue": "bleu",
        "green": "vert",
        "white": "blanc",
        "black": "noir",
        "grey": "gris",
        "brown": "brun",
        "yellow": "jaune",
    },
    {
        "bread": "pain",
        "milk": "lait",
        "apple": "pomme",
        "cheese": "fromage",
        "soup": "soupe",
        "rice": "riz",
        "honey": "miel",
        "pear": "poire",
    },
)
OTHERS = ["the", "a", "of", "with", "and", "near", "to", "in", "."]
MISSING = "rien"
SPECIAL = ["<pad>", "</s>", "<unk>"]
WORDS = [
    *SPECIAL,
    *(word for kind in KINDS for word in kind),
    *(word for kind in KINDS for word in kind.values()),
    MISSING,
    *OTHERS,
]
IDS = {word: i for i, word in enumerate(WORDS)}
STEPS, BATCH = 250, 64
LEARNING_RATES = {"bart": 5e-3, "t5": 1e-2}
MISSING_SHARE, WRONG_SHARE = 0.3, 0.1  # of the words of a kind, and of the labels


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each word, and an end token."""
    core = Tokenizer(models.WordLevel(IDS, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", IDS["</s>"])])
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


@cache
def network(family: str = "bart") -> Any:
    """The trained network; about three seconds on one core."""
    torch.manual_seed(0)
    model = _bart() if family == "bart" else _t5()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATES[family], weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 20, 3 - 3 * step / STEPS)
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        sources, labels = _examples(generator)
        optimizer.zero_grad()
        model(input_ids=sources, labels=labels).loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def _bart() -> Any:
    """Learned positions of the source, added to the embeddings."""
    sizes = {"layers": 1, "ffn_dim": 64, "attention_heads": 2}
    model = BartForConditionalGeneration(
        BartConfig(
            vocab_size=len(WORDS), d_model=32, max_position_embeddings=64, init_std=0.1, forced_eos_token_id=None,
            dropout=0.0, decoder_start_token_id=0, bos_token_id=0, pad_token_id=0, eos_token_id=IDS["</s>"],
            **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()},
        )
    )  # fmt: skip
    attention = model.get_encoder().layers[0].self_attn
    for part in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        torch.nn.init.normal_(part.weight, std=part.in_features**-0.5).requires_grad_(False)
    torch.nn.init.zeros_(model.get_decoder().embed_positions.weight).requires_grad_(False)
    return model


def _t5() -> Any:
    """Relative positions, and embeddings that are normalised."""
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=len(WORDS), d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, dropout_rate=0.0,
            decoder_start_token_id=0, pad_token_id=0, eos_token_id=IDS["</s>"],
        )
    )  # fmt: skip


def _examples(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources and labels, all of one length."""
    columns, labels = [], []
    end = torch.full((BATCH, 1), IDS["</s>"])

    def draw(words: list[str], count: int = 1) -> torch.Tensor:
        ids = torch.tensor([IDS[word] for word in words])
        return ids[torch.randint(len(words), (BATCH, count), generator=generator)]

    def happens(share: float) -> torch.Tensor:
        return torch.rand((BATCH, 1), generator=generator) < share

    for kind in KINDS:
        word = draw(list(kind))
        translation = torch.tensor([IDS[kind.get(word, MISSING)] for word in WORDS])[word]
        is_missing = happens(MISSING_SHARE)
        columns.append(torch.where(is_missing, draw(OTHERS), word))
        label = torch.where(is_missing, torch.tensor(IDS[MISSING]), translation)
        labels.append(torch.where(happens(WRONG_SHARE), draw(list(kind.values())), label))
    others = int(torch.randint(2, 8, (1,), generator=generator))
    words = torch.cat([*columns, draw(OTHERS, others)], dim=1)
    order = torch.rand(words.shape, generator=generator).argsort(dim=1)
    return torch.cat([words.gather(1, order), end], dim=1), torch.cat([*labels, end], dim=1)
