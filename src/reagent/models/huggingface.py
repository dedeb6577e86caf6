"""Causal language models that run on this machine, through `transformers`. No code per model family."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reagent.case import Case, Ids, Mask, TargetScores
from reagent.errors import CapabilityError, InputError
from reagent.explanation import Message
from reagent.models import internals
from reagent.models.base import Predictions, Singles
from reagent.models.decoder_layers import DecoderLayer, find_decoder_layers
from reagent.models.information_flow import compute_contributions, compute_value_zeroing
from reagent.models.local import PASS_COST, LocalModel
from reagent.models.mixed_precision import with_half_products
from reagent.models.network import LOGITS_AT_ONCE, TOKENS_AT_ONCE, Network
from reagent.models.padding import pad_right, plan_ragged
from reagent.models.prefix_cache import PrefixCache, plan_batches
from reagent.models.relevance import compute_relevance
from reagent.models.self_check import check_network, gradients_hold, layers_hold
from reagent.models.tokenization import (
    REPLACEMENT,
    TokenizerCodec,
    added_text,
    locate_continuation,
    tokenize,
    tokenize_chat,
    tokenize_target,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LONG_TEXT = 512  # tokens


class HuggingFaceModel(LocalModel[Network]):
    """A `transformers` causal LM and its tokenizer.

    `tokens_at_once` and `logits_at_once` bound the memory of one batch. They change how batches are cut and nothing
    else: draws are the same, scores agree to about 1e-5. With `mixed`, log-probabilities and distributions are computed
    with products in bfloat16; output, proposals, gradients and attention are not.
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
        mixed: bool = False,
    ) -> None:
        name = name or str(getattr(network, "name_or_path", "")) or type(network).__name__
        adapter = Network(network, tokens_at_once, logits_at_once)
        super().__init__(adapter, TokenizerCodec(tokenizer), tokenizer, name, revision, backend)
        if mixed:
            self._scoring = Network(with_half_products(network), tokens_at_once, logits_at_once)
        self._prefix = PrefixCache(self._scoring)

    @property
    def info(self) -> Mapping[str, Any]:
        return {**super().info, **({} if self._scoring is self._adapter else {"dtype": "mixed"})}

    @property
    def layer_count(self) -> int:
        """The number of layers, with and without attention."""
        return self._adapter.layer_count

    def self_check(self) -> None:
        """Refuse a network that predicts no next tokens; switch off what does not work: see `self_check`."""
        for network in {id(one): one for one in (self._adapter, self._scoring)}.values():
            check_network(network, self._name, self.special_ids)

    @property
    def tokens_at_once(self) -> int:
        return self._scoring.tokens_at_once

    @tokens_at_once.setter
    def tokens_at_once(self, tokens: int) -> None:
        self._adapter.tokens_at_once = self._scoring.tokens_at_once = tokens

    def clear_cache(self) -> None:
        """Drop the prefix of earlier calls: the next scores then depend, to the last bit, on their own call only."""
        self._prefix.clear()

    # --- text to tokens ---

    def _case(self, prompt: str, messages: tuple[Message, ...] | None, target: str | None, max_new_tokens: int) -> Case:
        special = messages is None  # a chat template has its own special tokens
        source = tokenize(self._codec, prompt) if messages is None else tokenize_chat(self._codec, prompt, messages)
        source = self._as_asked(source, messages or ())
        ids = [i for token in source for i in token.ids]
        if target is None:
            self._check_length(len(ids) + max_new_tokens, f"{max_new_tokens} new tokens")
            completion, output = locate_continuation(self._codec, ids, self._generate(ids, max_new_tokens))
        else:
            completion = target
            output = self._as_asked(tokenize_target(self._codec, prompt, special, ids, target))
            self._check_length(len(ids) + len(output), "the target")
        return Case(prompt, completion, source, output)

    def _check_length(self, length: int, what: str) -> None:
        limit = self.context_length
        if limit is not None and length > limit:
            raise InputError(
                f"the prompt and {what} take {length} tokens, and {self._name!r} reads at most {limit}: shorten them"
            )

    @torch.inference_mode()
    def _generate(self, ids: list[int], max_new_tokens: int) -> list[int]:
        """Greedy continuation, without the end token."""
        new: list[int] = []
        text = self._adapter.tensor(np.array([ids], dtype=np.int64))
        step, cache = text, None
        for _ in range(max_new_tokens):
            logits, cache = self._adapter.extend(step, cache)
            token = logits.argmax(-1, keepdim=True)  # [1, 1]
            if int(token) in self._end_ids:
                break
            new.append(int(token))
            if self._on_text is not None:
                self._on_text(added_text(self._codec.decode, ids, new).rstrip(REPLACEMENT))
            text = torch.cat([text, token], dim=1)
            if text.shape[1] - 1 == self._adapter.rope_switch:
                cache = None  # from here on, all tokens have other keys
            step = text if cache is None else token  # a model without a cache reads all of it again
        return new

    @cached_property
    def _end_ids(self) -> frozenset[int]:
        ends: set[int] = set()
        for value in (getattr(self.network.generation_config, "eos_token_id", None), self.tokenizer.eos_token_id):
            ends.update(value if isinstance(value, list) else [] if value is None else [value])
        return frozenset(ends)

    # --- scores and predictions ---

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        self.meter.add(len(sequences), int(positions.max()))
        with self._lock, torch.inference_mode():
            return self._score(sequences, positions, targets)

    def _score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        length = int(positions.max())  # the last target itself is never read
        room = self._scoring.positions_at_once
        if len(positions) > max(room, 1):  # not even one sequence fits: half of the targets at a time
            half = len(positions) // 2
            parts = [self._score(sequences, positions[s], targets[s]) for s in (slice(half), slice(half, None))]
            return TargetScores(*(np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)))
        ids, wanted, before = (self._scoring.tensor(array) for array in (sequences[:, :length], targets, positions - 1))
        # Every position that is read must come after the prefix.
        limit = int(positions.min()) - 1 if self._scoring.shares_prefixes(length) else 0
        logprob, rank = np.empty((2, len(sequences), len(positions)))
        batches = plan_batches(
            sequences[:, :length], limit, self.tokens_at_once, max(1, room // len(positions)), self._pass_cost
        )
        for i, batch in enumerate(batches):
            # One long text is likely to be read again: its keys and values are kept until another text is read.
            shared = limit if len(sequences) == 1 and length >= LONG_TEXT else batch.shared
            prefix = self._prefix.read(sequences[batch.rows[0], :shared], keep=i == 0)
            logits = self._scoring.forward(ids[batch.rows], before, cache=prefix)
            logprob[batch.rows], rank[batch.rows] = internals.score_targets(logits, wanted)
        return TargetScores(logprob, rank.astype(np.int64))

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        """Sequences are padded on the right, which changes nothing before the padding in a causal model."""
        for length in positions.max(-1).tolist():
            self.meter.add(1, length)
        with self._lock, torch.inference_mode():
            return self._score_ragged(pad_right(sequences, positions.max(-1)), positions, targets)

    def _score_ragged(self, padded: Ids, positions: Ids, targets: Ids) -> TargetScores:
        room = max(1, self._scoring.positions_at_once)
        if len(targets) > room:  # not even one sequence fits: half of the targets at a time
            half = len(targets) // 2
            parts = [self._score_ragged(padded, positions[:, s], targets[s]) for s in (slice(half), slice(half, None))]
            return TargetScores(*(np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)))
        fixed_cost = PASS_COST if self._scoring.device.type == "cpu" else math.inf
        sharing = self._prefix.can_share and self._scoring.shares_prefixes(padded.shape[1])
        logprob, rank = np.empty((2, *positions.shape))
        for i, batch in enumerate(plan_ragged(padded, positions, self.tokens_at_once, room, fixed_cost, sharing)):
            own = positions[batch.rows]
            read, places = np.unique(own - 1, return_inverse=True)
            prefix = self._prefix.read(padded[batch.rows[0], : batch.shared], keep=i == 0)
            ids = self._scoring.tensor(padded[batch.rows, : own.max()])
            logits = self._scoring.forward(ids, self._scoring.tensor(read), cache=prefix)
            scores = internals.score_targets(logits, *map(self._scoring.tensor, (targets, places.reshape(own.shape))))
            logprob[batch.rows], rank[batch.rows] = scores
        return TargetScores(logprob, rank.astype(np.int64))

    def score_hidden(self, sequence: Ids, hidden: Mask, positions: Ids, targets: Ids) -> TargetScores | None:
        if self.missing_inputs & {"attention_mask", "position_ids"}:
            return None
        begin, end = hidden.shape[1], int(positions.max())  # the last target itself is never read
        assert begin < positions.min(), "a prediction cannot be read off the prefix"
        if not self._scoring.shares_prefixes(end):
            return None
        with self._lock, torch.inference_mode():
            is_known = self._prefix.holds(sequence[:begin])
            prefix = self._prefix.read(sequence[:begin], keep=False)
            if prefix is None or prefix.has_windows:
                return None
            self.meter.add(0 if is_known else 1, begin)
            self.meter.add(len(hidden), end - begin)
            return internals.score_hidden(self._scoring, sequence, hidden, positions, targets, prefix)

    @property
    def _pass_cost(self) -> float:
        worth_it = self._prefix.can_share and self._scoring.device.type == "cpu"  # a GPU prefers large batches
        return PASS_COST if worth_it else math.inf

    @torch.inference_mode()
    def predict(self, sequence: Ids, k: int) -> Predictions:
        vocabulary = self._adapter.vocabulary_size
        k = min(k, vocabulary - len(self.special_ids))
        ids = self._adapter.tensor(sequence[None, :-1])
        special = self._adapter.tensor(np.array(sorted(i for i in self.special_ids if i < vocabulary), np.int64))
        best_ids, best_logprobs = [], []
        every = torch.arange(ids.shape[1], device=ids.device)
        for positions in torch.split(every, max(1, self._adapter.positions_at_once)):
            self.meter.add(1, len(sequence) - 1)
            logprobs = self._adapter.forward(ids, positions)[0].log_softmax(-1)  # [positions, vocabulary]
            logprobs[:, special] = -torch.inf
            top = logprobs.topk(k, dim=-1)
            best_ids.append(top.indices.cpu())
            best_logprobs.append(top.values.cpu())
        return Predictions(torch.cat(best_ids).numpy(), torch.cat(best_logprobs).double().numpy())

    # --- optional capabilities, see `local` ---

    def gradients(self, case: Case, embeddings: Singles, targets: Sequence[int], batch: int | None = None) -> Singles:
        if not self._has_gradients:
            raise CapabilityError(
                f"the network of {self._name!r} gives no gradients that are the slopes of its log-probabilities: "
                f"choose a method without gradients, or another model"
            )
        return super().gradients(case, embeddings, targets, batch)

    @cached_property
    def _has_gradients(self) -> bool:
        return gradients_hold(self._adapter, self.special_ids)

    def attentions(self, ids: Ids) -> list[Singles] | None:
        self.meter.add(1, len(ids))
        with self._lock:
            return internals.compute_attentions(self._adapter, ids)

    @property
    def has_decoder_layers(self) -> bool:
        return bool(self._layers)

    @cached_property
    def _layers(self) -> tuple[DecoderLayer, ...]:
        """None if they are not known, or do not compute what is expected of them."""
        layers = find_decoder_layers(self._adapter.module)
        if layers is None:
            return ()
        with self._lock:
            layers = find_decoder_layers(self._adapter.eager.module) or ()
            return layers if layers_hold(self._adapter, layers, self.special_ids) else ()

    def contributions(self, ids: Ids) -> list[Singles] | None:
        self.meter.add(1, len(ids))
        with self._lock:
            return compute_contributions(self._adapter, self._layers, ids)

    def value_zeroing(self, ids: Ids) -> list[Singles]:
        self.meter.add(1 + len(ids), len(ids))  # every layer reads the text once more for each token
        with self._lock:
            return compute_value_zeroing(self._adapter, self._layers, ids)

    def relevance(self, case: Case, targets: Sequence[int]) -> Singles:
        embeddings = self.embed(case.ids[: int(case.positions.max())])  # the last target is not read
        assert embeddings is not None
        self.meter.add(1, len(embeddings))
        with self._lock:
            return compute_relevance(self._adapter, self._layers, case, embeddings, targets)
