"""Greedy answers of the embedded model to many prompts at once, as a source of answers for text-only explanations."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from reagent.models.base import Meter
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.text import Request

BATCH = 48


class BatchSource:
    """Completes texts of similar length together; answers are as if each prompt were alone, up to rounding."""

    at_once = BATCH

    def __init__(self, model: HuggingFaceModel, new: int) -> None:
        self.model, self.new, self.meter = model, new, Meter()

    @property
    def info(self) -> Mapping[str, Any]:
        return self.model.info

    def answer(self, requests: Sequence[Request]) -> list[str]:
        self.meter.requests += len(requests)
        return self.complete([str(request.prompt) for request in requests])

    @torch.inference_mode()
    def complete(self, prompts: Sequence[str]) -> list[str]:
        """The answers to some prompts, in order."""
        tokenizer, answers = self.model.tokenizer, [""] * len(prompts)
        tokenizer.padding_side, pad = "left", tokenizer.pad_token_id or 0
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        for begin in range(0, len(order), BATCH):
            some = order[begin : begin + BATCH]
            given = tokenizer([prompts[i] or " " for i in some], return_tensors="pt", padding=True)
            new = self.model.network.generate(
                **given, max_new_tokens=self.new, do_sample=False, pad_token_id=pad, temperature=None, top_p=None
            )
            for i, row in zip(some, new[:, given["input_ids"].shape[1] :], strict=True):
                answers[i] = tokenizer.decode(row, skip_special_tokens=True)
        return answers
