"""A masked language model that runs here, through `transformers`: what may stand in a part of a text?"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from reagent.errors import InputError
from reagent.models._transformers import load_pretrained
from reagent.models.base import Meter
from reagent.models.tokenization import Span, decode_each
from reagent.replacers.vocabulary import is_sign

if TYPE_CHECKING:
    import torch

FILLS = 200  # per position: many more than are wanted, since most of them do not count
TOKENS_AT_ONCE = 2048  # tokens per forward pass of a batch
TEXTS_KEPT = 8
CHARACTERS_PER_TOKEN = 16  # beyond the longest text that fits this does not look: bounds the work on long ones


class Fill(NamedTuple):
    """One thing that may stand in a place."""

    text: str
    space: bool | None  # whether a space comes before it; None: the tokenizer cannot tell
    probability: float


@dataclass(frozen=True)
class _Row:
    """A text with one mask, as the network reads it."""

    ids: list[int]
    at: int  # where the mask is


class MaskedLM:
    """A network and its tokenizer. `meter` counts its passes, apart from those of the explained model."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        self.network = network.train(False).requires_grad_(False)
        self.tokenizer = tokenizer
        self.meter = Meter()
        self.fill = lru_cache(TEXTS_KEPT)(self._fill)
        self._lock = Lock()  # the hook that `_logits` sets must see its own batch only

    @cached_property
    def knows_capitals(self) -> bool:
        return self._encode("A") != self._encode("a")

    @cached_property
    def limit(self) -> int:
        """How many tokens the network reads, the special ones included."""
        limits = [getattr(self.network.config, "max_position_embeddings", 512), self.tokenizer.model_max_length]
        for name, module in self.network.named_modules():
            if name.endswith("position_embeddings") and hasattr(module, "num_embeddings"):
                # RoBERTa counts its positions from the one after the padding's.
                limits.append(module.num_embeddings - (-1 if module.padding_idx is None else module.padding_idx) - 1)
        return int(min(limits))

    def _fill(self, text: str, spans: tuple[Span, ...]) -> dict[Span, list[Fill]]:
        """For each span of the text, masked alone: its FILLS likeliest fills, best first."""
        import torch

        rows = [self._row(text, span) for span in spans]
        size = max(1, TOKENS_AT_ONCE // max((len(row.ids) for row in rows), default=1))
        answers: list[list[Fill]] = []
        for start in range(0, len(rows), size):
            with torch.inference_mode(), self._lock:
                logits = self._logits(rows[start : start + size])  # [rows, vocabulary]
                logits[:, self._never] = -torch.inf
                top = logits.softmax(-1).topk(min(FILLS, logits.shape[-1]), dim=-1)
            for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True):
                answers.append(
                    [self._spelled[i]._replace(probability=p) for i, p in zip(ids, values, strict=True) if p > 0]
                )
        return dict(zip(spans, answers, strict=True))

    def _row(self, text: str, span: Span) -> _Row:
        """The text with one mask in place of the span, cut to a window around it where it is too long."""
        head, tail = self._frame
        room = self.limit - len(head) - len(tail) - 1
        far = CHARACTERS_PER_TOKEN * self.limit
        left = self._encode(text[max(0, span[0] - far) : span[0]])
        right = self._right(text[span[1] : span[1] + far])
        before = min(len(left), max(room // 2, room - len(right)))
        left, right = left[len(left) - before :], right[: room - before]
        mask = self.tokenizer.mask_token_id
        return _Row([*head, *left, mask, *right, *tail], len(head) + len(left))

    def _right(self, text: str) -> list[int]:
        """What stands after a mask. A sign that follows a word without a space must not look as if it had one."""
        ids = self._encode(text)
        if ids and not text[0].isspace() and self._spelled[ids[0]].space:
            bare = self._spelled[ids[0]].text.strip()
            ids[:1] = [self._joined.get(bare, ids[0])] if bare else []
        return ids

    def _logits(self, rows: Sequence[_Row]) -> "torch.Tensor":
        """Logits at the mask of each row, in float32 on the CPU."""
        import torch

        longest = max(len(row.ids) for row in rows)
        self.meter.add(len(rows), longest)
        padding = self.tokenizer.pad_token_id or 0
        padded = [row.ids + [padding] * (longest - len(row.ids)) for row in rows]
        real = [[1] * len(row.ids) + [0] * (longest - len(row.ids)) for row in rows]
        every, at = torch.arange(len(rows)), torch.tensor([row.at for row in rows])
        # Only the masked positions reach the output matrix: it is a third of the work, and most of the memory.
        matrix, device = self.network.get_output_embeddings(), self.network.device
        with matrix.register_forward_pre_hook(lambda _, given: (given[0][every, at][:, None],)):
            answer = self.network(
                input_ids=torch.tensor(padded, device=device), attention_mask=torch.tensor(real, device=device)
            )
        logits: torch.Tensor = answer.logits[:, 0, : len(self.tokenizer)].float().cpu()
        return logits

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    @cached_property
    def _frame(self) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text."""
        bare, whole = self._encode("a"), list(self.tokenizer("a")["input_ids"])
        at = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
        return whole[:at], whole[at + len(bare) :]

    @cached_property
    def _spelled(self) -> list[Fill]:
        """Each token as a fill, its probability yet to be known."""
        texts = decode_each(self.tokenizer, range(len(self.tokenizer)))
        # WordPiece writes "x(x" and "x( x" alike: of a sign it cannot say whether a space comes before.
        tells = self._encode("x(x") != self._encode("x( x")
        return [Fill(text, None if is_sign(text) and not tells else text[:1].isspace(), 0.0) for text in texts]

    @cached_property
    def _joined(self) -> dict[str, int]:
        return {fill.text: i for i, fill in enumerate(self._spelled) if fill.space is False}

    @cached_property
    def _never(self) -> list[int]:
        added: dict[int, Any] = getattr(self.tokenizer, "added_tokens_decoder", {})
        return sorted({*self.tokenizer.all_special_ids, *(i for i, token in added.items() if token.special)})


def load(name: str, revision: str | None = None) -> MaskedLM:
    """A masked LM by its hub id or folder, on the GPU if there is one. The last two stay in memory."""
    return _load(name, revision)


@lru_cache(2)
def _load(name: str, revision: str | None) -> MaskedLM:
    import torch

    if not name.strip():
        raise InputError("the masked language model's name is empty: give a folder or a hub id")
    network, tokenizer = load_pretrained(
        "AutoModelForMaskedLM", name, "masked language model", dtype=torch.float32, revision=revision
    )
    if tokenizer.mask_token_id is None:
        raise InputError(f"the tokenizer of {name!r} has no mask token: choose a masked language model, as RoBERTa")
    return MaskedLM(network.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer)
