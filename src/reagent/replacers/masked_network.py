"""A masked language model that runs on this machine, through `transformers`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from reagent.errors import InputError
from reagent.models._transformers import load_pretrained
from reagent.models.base import Meter
from reagent.models.tokenization import Span, decode_each
from reagent.replacers.vocabulary import is_symbol

if TYPE_CHECKING:
    import torch

FILLS_PER_SPAN = 200  # many more than are needed, because the replacer cannot use most of them
TOKENS_PER_BATCH = 2048
CACHED_TEXTS = 8
CHARACTERS_PER_TOKEN = 16  # an upper bound: text farther from the mask than this many per token is not encoded


class Fill(NamedTuple):
    """A prediction for a mask."""

    text: str
    space: bool | None  # whether a space precedes it; None: the tokenizer cannot represent the difference
    probability: float


@dataclass(frozen=True)
class _MaskedText:
    """A text with one mask, encoded for the network."""

    ids: list[int]
    mask_index: int


class MaskedLM:
    """A network and its tokenizer. `meter` counts its passes; those of the explained model are counted separately."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        self.network = network.train(False).requires_grad_(False)
        self.tokenizer = tokenizer
        self.meter = Meter()
        self.fill = lru_cache(CACHED_TEXTS)(self._fill)
        self._lock = Lock()  # the hook that `_logits` registers must run for its own batch only

    @cached_property
    def is_cased(self) -> bool:
        return self._encode("A") != self._encode("a")

    @cached_property
    def max_length(self) -> int:
        """The number of tokens that the network reads, special tokens included."""
        limits = [getattr(self.network.config, "max_position_embeddings", 512), self.tokenizer.model_max_length]
        for name, module in self.network.named_modules():
            if name.endswith("position_embeddings") and hasattr(module, "num_embeddings"):
                # RoBERTa numbers its positions from the padding index + 1.
                limits.append(module.num_embeddings - (-1 if module.padding_idx is None else module.padding_idx) - 1)
        return int(min(limits))

    def _fill(self, text: str, spans: tuple[Span, ...]) -> dict[Span, list[Fill]]:
        """For each span of the text, masked alone: the FILLS_PER_SPAN most likely fills, best first."""
        import torch

        rows = [self._mask(text, span) for span in spans]
        size = max(1, TOKENS_PER_BATCH // max((len(row.ids) for row in rows), default=1))
        fills: list[list[Fill]] = []
        for start in range(0, len(rows), size):
            with torch.inference_mode(), self._lock:
                logits = self._logits(rows[start : start + size])  # [rows, vocabulary]
                logits[:, self._special_ids] = -torch.inf
                top = logits.softmax(-1).topk(min(FILLS_PER_SPAN, logits.shape[-1]), dim=-1)
            for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True):
                fills.append(
                    [self._token_fills[i]._replace(probability=p) for i, p in zip(ids, values, strict=True) if p > 0]
                )
        return dict(zip(spans, fills, strict=True))

    def _mask(self, text: str, span: Span) -> _MaskedText:
        """The text with one mask instead of the span; a text that is too long is cut to a window around the mask."""
        head, tail = self._special_tokens
        room = self.max_length - len(head) - len(tail) - 1
        reach = CHARACTERS_PER_TOKEN * self.max_length
        left = self._encode(text[max(0, span[0] - reach) : span[0]])
        right = self._encode_right(text[span[1] : span[1] + reach])
        before = min(len(left), max(room // 2, room - len(right)))
        left, right = left[len(left) - before :], right[: room - before]
        mask = self.tokenizer.mask_token_id
        return _MaskedText([*head, *left, mask, *right, *tail], len(head) + len(left))

    def _encode_right(self, text: str) -> list[int]:
        """Encode the text after a mask. A symbol that follows without a space must not be encoded with one."""
        ids = self._encode(text)
        if ids and not text[0].isspace() and self._token_fills[ids[0]].space:
            bare = self._token_fills[ids[0]].text.strip()
            ids[:1] = [self._ids_without_space.get(bare, ids[0])] if bare else []
        return ids

    def _logits(self, rows: Sequence[_MaskedText]) -> "torch.Tensor":
        """Logits at the mask of each row, in float32 on the CPU."""
        import torch

        longest = max(len(row.ids) for row in rows)
        self.meter.add(len(rows), longest)
        padding = self.tokenizer.pad_token_id or 0
        padded = [row.ids + [padding] * (longest - len(row.ids)) for row in rows]
        real = [[1] * len(row.ids) + [0] * (longest - len(row.ids)) for row in rows]
        every, mask_index = torch.arange(len(rows)), torch.tensor([row.mask_index for row in rows])
        # Only the masked positions reach the output matrix, which takes a third of the time and most of the memory.
        matrix, device = self.network.get_output_embeddings(), self.network.device
        with matrix.register_forward_pre_hook(lambda _, given: (given[0][every, mask_index][:, None],)):
            output = self.network(
                input_ids=torch.tensor(padded, device=device), attention_mask=torch.tensor(real, device=device)
            )
        logits: torch.Tensor = output.logits[:, 0, : len(self.tokenizer)].float().cpu()
        return logits

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    @cached_property
    def _special_tokens(self) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text."""
        bare, whole = self._encode("a"), list(self.tokenizer("a")["input_ids"])
        at = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
        return whole[:at], whole[at + len(bare) :]

    @cached_property
    def _token_fills(self) -> list[Fill]:
        """Each token as a fill, with probability 0."""
        texts = decode_each(self.tokenizer, range(len(self.tokenizer)))
        # WordPiece encodes "x(x" and "x( x" in the same way: for a symbol it does not record a preceding space.
        records_space = self._encode("x(x") != self._encode("x( x")
        return [
            Fill(text, None if is_symbol(text) and not records_space else text[:1].isspace(), 0.0) for text in texts
        ]

    @cached_property
    def _ids_without_space(self) -> dict[str, int]:
        return {fill.text: i for i, fill in enumerate(self._token_fills) if fill.space is False}

    @cached_property
    def _special_ids(self) -> list[int]:
        added: dict[int, Any] = getattr(self.tokenizer, "added_tokens_decoder", {})
        return sorted({*self.tokenizer.all_special_ids, *(i for i, token in added.items() if token.special)})


def load_masked_lm(name: str, revision: str | None = None) -> MaskedLM:
    """Load a masked LM by its hub id or folder, on the GPU if there is one. The last two stay in memory."""
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
        raise InputError(f"the tokenizer of {name!r} has no mask token: choose a masked language model like RoBERTa")
    return MaskedLM(network.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer)
