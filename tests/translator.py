"""A tiny T5 that is trained in seconds on a task in which the cause of every output token is known.

A source has at most one animal, one colour and one food in any order, between other words. The output is the
translation of the animal, of the colour and of the food, in this order; "rien" stands for one that is missing.
"""

from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

KINDS = (
    {"dog": "chien", "cat": "chat", "horse": "cheval"},
    {"red": "rouge", "blue": "bleu", "green": "vert"},
    {"bread": "pain", "milk": "lait", "apple": "pomme"},
)
OTHERS = ["the", "a", "of", "with", "and", "near", "to", "in"]
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
STEPS, BATCH = 150, 64


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each word, and an end token."""
    core = Tokenizer(models.WordLevel(IDS, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", IDS["</s>"])])
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


@cache
def network() -> Any:
    """The trained network; about three seconds on one core."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(WORDS), d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=IDS["</s>"],
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    # The encoder mixes no words, so that cross attention goes to the words themselves.
    mixing = model.encoder.block[0].layer[0].SelfAttention.o.weight
    torch.nn.init.zeros_(mixing).requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.0)
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


def _examples(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources and labels, all of one length."""
    columns, labels = [], []
    end = torch.full((BATCH, 1), IDS["</s>"])

    def draw(words: list[str], count: int = 1) -> torch.Tensor:
        ids = torch.tensor([IDS[word] for word in words])
        return ids[torch.randint(len(words), (BATCH, count), generator=generator)]

    for kind in KINDS:
        word = draw(list(kind))
        translation = torch.tensor([IDS[kind.get(word, MISSING)] for word in WORDS])[word]
        is_missing = torch.rand((BATCH, 1), generator=generator) < 0.3
        columns.append(torch.where(is_missing, draw(OTHERS), word))
        labels.append(torch.where(is_missing, torch.tensor(IDS[MISSING]), translation))
    others = int(torch.randint(2, 8, (1,), generator=generator))
    words = torch.cat([*columns, draw(OTHERS, others)], dim=1)
    order = torch.rand(words.shape, generator=generator).argsort(dim=1)
    return torch.cat([words.gather(1, order), end], dim=1), torch.cat([*labels, end], dim=1)
