"""Causal language models that run here, through `transformers`. No code per model family."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reagent.case import Case, Floats, Ids, TargetScores
from reagent.errors import InputError
from reagent.explanation import Token
from reagent.models.base import Meter, Predictions, Singles
from reagent.models.chat import Chat, check_target, render
from reagent.models.internals import GRAPH, Inside
from reagent.models.prefix_cache import NOTHING, GrowingPrefix, SharedPrefix, batches
from reagent.models.tokenization import TokenizerCodec, added, follow, is_ordinary, read, read_chat, read_target

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOKENS_AT_ONCE = 2048  # tokens per forward pass of a batch
LOGITS_AT_ONCE = 64 * 2**20  # logits held at once: 256 MiB in float32
LOGITS_IN_CACHE = 2**20  # logits that are read twice while the processor still has them
PASS_COSTS = 128  # tokens that a processor reads in the time that every pass takes, however little there is to read


class HuggingFaceModel:
    """A `transformers` causal LM and its tokenizer.

    `tokens_at_once` and `logits_at_once` bound the memory of one batch. They change how batches are
    cut and nothing else: draws are the same, scores agree to about 1e-5.
    """

    def __init__(
        self,
        network: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        *,
        name: str = "",
        revision: str | None = None,
        backend: str = "transformers",
        tokens_at_once: int = TOKENS_AT_ONCE,
        logits_at_once: int = LOGITS_AT_ONCE,
    ) -> None:
        network.train(False)  # no dropout; the weights stay as they are
        self.network = network
        self.tokenizer = tokenizer
        self.meter = Meter()
        self.tokens_at_once = tokens_at_once
        self.logits_at_once = logits_at_once
        self._name = name or str(getattr(network, "name_or_path", "")) or type(network).__name__
        self._revision = revision
        self._backend = backend
        self._takes_positions = "logits_to_keep" in inspect.signature(network.forward).parameters
        self._codec = TokenizerCodec(tokenizer)
        self._prefix = GrowingPrefix(network, self._last_only)
        self._inside = Inside(network)
        self._one_at_a_time = RLock()  # the prefix belongs to one call
        self._say: Callable[[str], None] | None = None

    @property
    def info(self) -> Mapping[str, Any]:
        dtype = str(self.network.dtype).removeprefix("torch.")
        return {"id": self._name, "revision": self._revision, "dtype": dtype, "backend": self._backend}

    @property
    def context_length(self) -> int | None:
        limit = getattr(self.network.config.get_text_config(), "max_position_embeddings", None)
        return limit if limit and limit > 0 else None

    @property
    def special_ids(self) -> frozenset[int]:
        return self._codec.special_ids

    @property
    def ordinary_ids(self) -> Ids:
        return self._ordinary[0]

    @property
    def ordinary_texts(self) -> tuple[str, ...]:
        return self._ordinary[1]

    @cached_property
    def _ordinary(self) -> tuple[Ids, tuple[str, ...]]:
        spelled = self._codec.spelled.items()
        kept = {i: text for i, text in spelled if i < self._vocabulary_size and is_ordinary(text)}
        return np.array(list(kept), dtype=np.int64), tuple(kept.values())

    def forget(self) -> None:
        """Drop what is kept from one call to the next: answers then depend, to the last bit, on the question alone."""
        self._prefix.latest = self._prefix.kept = NOTHING

    # --- text to tokens ---

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        if not prompt.strip():
            raise InputError("the prompt is empty: give some text to explain")
        return self._case(prompt, read(self._codec, prompt), True, target, max_new_tokens)

    def chat(self, messages: Chat, target: str | None = None, max_new_tokens: int = 10) -> Case:
        text, places = render(self.tokenizer, messages, self._name)
        if target is not None:
            check_target(self.tokenizer, messages, target, self._name)
        source = read_chat(self._codec, text, places)
        return replace(self._case(text, source, False, target, max_new_tokens), messages=places)

    def streaming(self, say: Callable[[str], None]) -> "HuggingFaceModel":
        told = copy(self)  # network, prefix, lock and meter are the same
        told._say = say
        return told

    def _case(
        self, prompt: str, source: tuple[Token, ...], special: bool, target: str | None, max_new_tokens: int
    ) -> Case:
        ids = [i for token in source for i in token.ids]
        if target is None:
            self._check_length(len(ids) + max_new_tokens, f"{max_new_tokens} new tokens")
            completion, output = follow(self._codec, ids, self._generate(ids, max_new_tokens))
        else:
            completion, output = target, read_target(self._codec, prompt, special, ids, target)
            self._check_length(len(ids) + len(output), "the target")
        return Case(prompt, completion, source, output)

    def _check_length(self, length: int, what: str) -> None:
        limit = self.context_length
        if limit is not None and length > limit:
            raise InputError(
                f"the prompt and {what} take {length} tokens, and {self._name!r} reads at most {limit}: shorten them"
            )

    # --- questions to the network ---

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        self.meter.add(len(sequences), int(positions.max()))
        with self._one_at_a_time, torch.inference_mode():
            return self._score(sequences, positions, targets)

    def _score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        length = int(positions.max())  # the last target itself is never read
        rows = self._rows_at_once(len(positions))
        if rows == 0:  # so many targets that one sequence is too much: half of them at a time
            half = len(positions) // 2
            parts = [self._score(sequences, positions[s], targets[s]) for s in (slice(half), slice(half, None))]
            return TargetScores(*(np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)))
        ids, wanted, where = (self._tensor(array) for array in (sequences[:, :length], targets, positions - 1))
        limit = int(positions.min()) - 1  # every position that is asked for must lie behind the prefix
        logprob, rank = np.empty((2, len(sequences), len(positions)))
        for i, batch in enumerate(batches(sequences[:, :length], limit, self.tokens_at_once, rows, self._pass_costs)):
            chunk = ids[batch.rows]
            past = self._prefix.upto(sequences[batch.rows[0], : batch.shared], keep=i == 0)
            logits = self._logits(chunk, where, past).float()  # [rows, targets, vocabulary]
            logprob[batch.rows], rank[batch.rows] = _logprob_and_rank(logits, wanted)
        return TargetScores(logprob, rank.astype(np.int64))

    @torch.inference_mode()
    def predict(self, sequence: Ids, k: int) -> Predictions:
        k = min(k, self._vocabulary_size - len(self.special_ids))
        ids = self._tensor(sequence[None, :-1])
        special = self._tensor(np.array(sorted(i for i in self.special_ids if i < self._vocabulary_size), np.int64))
        best_ids, best_logprobs = [], []
        for where in torch.split(torch.arange(ids.shape[1], device=ids.device), max(1, self._targets_at_once)):
            self.meter.add(1, len(sequence) - 1)
            logprobs = self._logits(ids, where)[0].float().log_softmax(-1)  # [positions, vocabulary]
            logprobs[:, special] = -torch.inf
            top = logprobs.topk(k, dim=-1)
            best_ids.append(top.indices.cpu())
            best_logprobs.append(top.values.cpu())
        return Predictions(torch.cat(best_ids).numpy(), torch.cat(best_logprobs).double().numpy())

    # --- a look inside the network ---

    def embed(self, ids: Ids) -> Singles | None:
        return self._inside.embed(ids)

    def values(self, case: Case, embeddings: Singles, batch: int | None = None) -> Floats:
        self.meter.add(*embeddings.shape[:2])
        return self._inside.values(case, embeddings, self._points_at_once(case, embeddings, batch, 1))

    def gradients(self, case: Case, embeddings: Singles, targets: Sequence[int], batch: int | None = None) -> Singles:
        self.meter.add(*embeddings.shape[:2])
        return self._inside.gradients(case, embeddings, targets, self._points_at_once(case, embeddings, batch, GRAPH))

    def attentions(self, ids: Ids) -> list[Singles] | None:
        self.meter.add(1, len(ids))
        return self._inside.attentions(ids)

    def _points_at_once(self, case: Case, embeddings: Singles, batch: int | None, memory: int) -> int:
        room = (self.tokens_at_once // embeddings.shape[1], self._targets_at_once // len(case.positions))
        return max(1, min(batch or self.tokens_at_once, *(limit // memory for limit in room)))

    @torch.inference_mode()
    def _generate(self, ids: list[int], max_new_tokens: int) -> list[int]:
        """Greedy continuation, without the end token."""
        new: list[int] = []
        text = self._tensor(np.array([ids], dtype=np.int64))
        step, past = text, None
        for _ in range(max_new_tokens):
            remembered: dict[str, Any] = {} if past is None else {"past_key_values": past}
            answer = self.network(step, use_cache=True, **remembered, **self._last_only)
            token = answer.logits[:, -1:].argmax(-1)  # [1, 1]
            if int(token) in self._end_ids:
                break
            new.append(int(token))
            if self._say is not None:
                self._say(added(self._codec, ids, new))
            text = torch.cat([text, token], dim=1)
            past = getattr(answer, "past_key_values", None)
            step = text if past is None else token  # a model that remembers nothing reads it all again
        return new

    def _logits(self, ids: torch.Tensor, where: torch.Tensor, past: SharedPrefix | None = None) -> torch.Tensor:
        """Logits at the positions `where` only: the full [rows, length, vocabulary] is never built."""
        known = past.get_seq_length() if past is not None else 0
        more: dict[str, Any] = {"logits_to_keep": where - known} if self._takes_positions else {}
        if past is not None:
            more["past_key_values"] = past
        logits = self.network(ids[:, known:], use_cache=past is not None, **more).logits
        return torch.as_tensor(logits if self._takes_positions else logits[:, where - known])

    def _rows_at_once(self, targets: int) -> int:
        """For how many sequences the logits fit in one batch; 0 if not even for one."""
        return 0 if targets > self._targets_at_once and targets > 1 else max(1, self._targets_at_once // targets)

    @property
    def _last_only(self) -> dict[str, Any]:
        return {"logits_to_keep": 1} if self._takes_positions else {}

    @property
    def _targets_at_once(self) -> int:
        return self.logits_at_once // self._vocabulary_size

    @property
    def _pass_costs(self) -> float:
        worth_it = self._prefix.can_share and self.network.device.type == "cpu"  # others like their batches large
        return PASS_COSTS if worth_it else math.inf

    @property
    def _vocabulary_size(self) -> int:
        return int(self.network.config.get_text_config().vocab_size)

    @cached_property
    def _end_ids(self) -> frozenset[int]:
        ends: set[int] = set()
        for value in (getattr(self.network.generation_config, "eos_token_id", None), self.tokenizer.eos_token_id):
            ends.update(value if isinstance(value, list) else [] if value is None else [value])
        return frozenset(ends)

    def _tensor(self, array: Ids) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.network.device)


def _logprob_and_rank(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the targets, [rows, targets] both, from [rows, targets, vocabulary]; a few rows at a time."""
    logprob, rank = [], []
    for some in torch.split(logits, max(1, LOGITS_IN_CACHE // logits[0].numel())):
        own = targets.expand(len(some), -1)[..., None]  # [rows, targets, 1]
        logprob.append(some.log_softmax(-1).gather(-1, own).squeeze(-1))
        rank.append((some > some.gather(-1, own)).sum(-1))
    return torch.cat(logprob).cpu(), torch.cat(rank).cpu()
