"""Greedy answers of the embedded model to many messages at once, as a source of answers for text-only explanations."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from reagent.models.base import Meter
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.text import Request

BATCH = 48


class BatchSource:
    """Answers messages of similar length together; each answer is as if its message were alone, up to rounding.

    Every answer is kept, and counts as a request again when it is used by another method.
    """

    at_once = BATCH

    def __init__(self, model: HuggingFaceModel) -> None:
        self.model, self.meter = model, Meter()
        self._known: dict[tuple[str, int], str] = {}

    @property
    def info(self) -> Mapping[str, Any]:
        return self.model.info

    def answer(self, requests: Sequence[Request]) -> list[str]:
        self.meter.requests += len(requests)
        asked = [(self._as_text(str(request.prompt)) + request.begin, request.max_new_tokens) for request in requests]
        for new in {new for _, new in asked}:
            self._complete([text for text, n in dict.fromkeys(asked) if n == new and (text, n) not in self._known], new)
        return [self._known[key] for key in asked]

    def _as_text(self, message: str) -> str:
        messages = [{"role": "user", "content": message}]
        return str(self.model.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    @torch.inference_mode()
    def _complete(self, texts: Sequence[str], new: int) -> None:
        tokenizer = self.model.tokenizer
        tokenizer.padding_side, pad = "left", tokenizer.pad_token_id or 0
        order = sorted(texts, key=len)
        for begin in range(0, len(order), BATCH):
            some = order[begin : begin + BATCH]
            given = tokenizer(some, return_tensors="pt", padding=True, add_special_tokens=False)
            tokens = self.model.network.generate(
                **given, max_new_tokens=new, do_sample=False, pad_token_id=pad, temperature=None, top_p=None
            )
            for text, row in zip(some, tokens[:, given["input_ids"].shape[1] :], strict=True):
                self._known[text, new] = tokenizer.decode(row, skip_special_tokens=True)
