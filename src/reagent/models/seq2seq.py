"""Encoder–decoder models that run on this machine, through `transformers`: T5, BART, translation models.

The prompt is the source. The context of an output token is the source and the output so far. Both are one sequence with
a boundary between them (encoder_decoder.py), so that everything that works on sequences works here.

The encoder reads a source once: one pass serves all targets, and sources that were read before are not read again.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reagent.case import Case, Ids, TargetScores
from reagent.errors import EmptyGenerationError, InputError
from reagent.explanation import Message, Token
from reagent.models import internals
from reagent.models.base import Singles
from reagent.models.encoder_decoder import EncoderDecoderNetwork
from reagent.models.local import PASS_COST, LocalModel
from reagent.models.network import LOGITS_AT_ONCE, TOKENS_AT_ONCE
from reagent.models.source_and_target import SourceAndTarget
from reagent.models.source_cache import SourceCache, pad
from reagent.models.tokenization import REPLACEMENT, added_text, locate_continuation, protect_template

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ARCHITECTURE = "encoder-decoder"


class Seq2SeqModel(LocalModel[EncoderDecoderNetwork]):
    """A `transformers` encoder–decoder and its tokenizer.

    `languages` are the codes of the languages of source and target, for a tokenizer of several languages.
    `tokens_at_once` and `logits_at_once` bound the memory of one batch. They change how batches are cut and nothing
    else: draws are the same, scores agree to about 1e-5.
    """

    def __init__(
        self,
        network: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        *,
        name: str = "",
        revision: str | None = None,
        backend: str = "transformers",
        languages: tuple[str, str] | None = None,
        tokens_at_once: int = TOKENS_AT_ONCE,
        logits_at_once: int = LOGITS_AT_ONCE,
    ) -> None:
        name = name or str(getattr(network, "name_or_path", "")) or type(network).__name__
        self._text = SourceAndTarget(network, tokenizer, name, languages)
        filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self._text.start
        adapter = EncoderDecoderNetwork(network, self._text.start, int(filler), tokens_at_once, logits_at_once)
        super().__init__(adapter, self._text.codec, self._text.tokenizer, name, revision, backend)
        self._languages = languages
        sizes = self._adapter.source_vocabulary_size, self._adapter.vocabulary_size
        if sizes[0] != sizes[1]:
            raise InputError(
                f"encoder and decoder of {self._name!r} have different vocabularies, of {sizes[0]} and {sizes[1]} "
                "tokens: give a model whose encoder and decoder share a tokenizer"
            )
        self._sources = SourceCache(self._adapter, self.meter)

    @property
    def info(self) -> Mapping[str, Any]:
        languages = {} if self._languages is None else {"languages": list(self._languages)}
        return {**super().info, "architecture": ARCHITECTURE, **languages}

    def clear_cache(self) -> None:
        """Drop the encoded sources of earlier calls."""
        self._sources.clear()

    def self_check(self) -> None:
        """Read a random text in several ways, as encoder_decoder_check.py does; an InputError if the scores differ."""
        with self._lock:
            _ = self._adapter.is_causal, self._adapter.pads

    # --- text to tokens ---

    def _case(self, prompt: str, messages: tuple[Message, ...] | None, target: str | None, max_new_tokens: int) -> Case:
        source = self._text.tokenize_source(prompt)
        if messages is not None:
            source = protect_template(source, prompt, messages)
        source = self._as_asked(source, messages or ())
        self._check_length(len(source), self._adapter.context_length, "the prompt takes")
        prefix, limit = 1 + len(self._text.prefix), self._adapter.output_length
        if target is None:
            self._check_length(prefix + max_new_tokens - 1, limit, f"{max_new_tokens} new tokens take")
            ids = np.array([i for token in source for i in token.ids], dtype=np.int64)
            new = self._generate(ids, max_new_tokens)
            completion, output = locate_continuation(self._text.target_codec, self._text.prefix, new)
        else:
            completion, output = target, self._as_asked(self._text.tokenize_target(target))
            self._check_length(prefix + len(output) - 1, limit, "the target takes")
        return Case(prompt, completion, (*source, *self._start_tokens(len(prompt))), output, separate=True)

    def _start_tokens(self, end: int) -> tuple[Token, ...]:
        """The boundary, which is the start token of the decoder, and the other tokens before the output."""
        name = self._text.codec.name
        start = Token((self._adapter.boundary,), name(self._text.start), end, end, protected=True)
        return start, *(Token((i,), name(i), end, end, protected=True) for i in self._text.prefix)

    def _check_length(self, length: int, limit: int | None, what: str) -> None:
        if limit is not None and length > limit:
            raise InputError(f"{what} {length} tokens, and {self._name!r} reads at most {limit}: shorten it")

    @torch.inference_mode()
    def _generate(self, source: Ids, max_new_tokens: int) -> list[int]:
        """Greedy output, without the end token."""
        new: list[int] = []
        with self._lock:
            states, mask = self._sources.read([source])
        for _ in range(max_new_tokens):
            output = self._adapter.tensor(np.array([[self._text.start, *self._text.prefix, *new]], dtype=np.int64))
            logits = self._adapter.decode(states, output, mask)[0, -1]
            logits[self._suppressed] = -torch.inf
            token = int(logits.argmax())
            if token in self._text.end_ids:
                break
            new.append(token)
            if self._on_text is not None:
                self._on_text(added_text(self._text.target_codec.decode, self._text.prefix, new).rstrip(REPLACEMENT))
        if not new:
            raise EmptyGenerationError
        return new

    @cached_property
    def _suppressed(self) -> list[int]:
        """Tokens that the model must not generate, by its generation config."""
        config = self.network.generation_config
        words = [word[0] for word in getattr(config, "bad_words_ids", None) or () if len(word) == 1]
        return [*words, *(getattr(config, "suppress_tokens", None) or ())]

    # --- scores ---

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        return self.score_ragged(list(sequences), np.tile(positions, (len(sequences), 1)), targets)

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        self.meter.forward_passes += len(sequences)
        with self._lock, torch.inference_mode():
            if self._adapter.is_causal:
                return self._score(sequences, positions, targets)
            columns = [self._score(sequences, positions[:, j : j + 1], targets[j : j + 1]) for j in range(len(targets))]
            return TargetScores(*(np.concatenate(parts, axis=1) for parts in zip(*columns, strict=True)))

    def _score(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        ends = positions.max(-1)  # the last target itself is never read
        texts = [self._adapter.split(sequence[:end]) for sequence, end in zip(sequences, ends.tolist(), strict=True)]
        self.meter.tokens += sum(len(output) for _, output in texts)
        places = positions - 1 - (ends - [len(output) for _, output in texts])[:, None]
        logprob, rank = np.empty((2, *positions.shape))
        for rows in self._plan(texts):
            states, mask = self._sources.read([texts[i][0] for i in rows])
            outputs = self._adapter.tensor(pad([texts[i][1] for i in rows], self._adapter.filler))
            logits = self._adapter.decode(states, outputs, mask)
            scores = internals.score_targets(logits, *map(self._adapter.tensor, (targets, places[rows])))
            logprob[rows], rank[rows] = scores
        return TargetScores(logprob, rank.astype(np.int64))

    def _plan(self, texts: Sequence[tuple[Ids, Ids]]) -> Iterator[list[int]]:
        """The texts in batches of similar lengths; a batch ends if more padding would cost more than another pass."""
        waste_limit = PASS_COST if self._adapter.device.type == "cpu" else np.inf
        rows: list[int] = []
        longest, waste = np.zeros(2, dtype=np.int64), 0
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i][0]), texts[i][0].tobytes(), len(texts[i][1])))
        for i in order:
            own = np.array([len(part) for part in texts[i]])
            grown = np.maximum(longest, own)
            more = len(rows) * int((grown - longest).sum()) + int((grown - own).sum())
            is_full = (len(rows) + 1) * grown.sum() > self._adapter.tokens_at_once
            is_full = is_full or (len(rows) + 1) * grown[1] > self._adapter.positions_at_once
            is_full = is_full or not (self._adapter.is_causal or (grown[1] == own[1] == longest[1]))
            if rows and (is_full or waste + more > waste_limit or not self._adapter.pads):
                yield rows
                rows, grown, waste, more = [], own, 0, 0
            rows.append(i)
            longest, waste = grown, waste + more
        yield rows

    # --- optional capabilities, see `local` ---

    def rows_at_once(self, length: int, positions: int) -> int:
        return super().rows_at_once(length, positions) if self._adapter.pads else 1

    def _adapter_for(self, case: Case) -> EncoderDecoderNetwork:
        return self._adapter.with_boundary(case.ids.tolist().index(self._adapter.boundary))

    def attentions(self, ids: Ids) -> list[Singles] | None:
        self.meter.add(1, len(ids))
        return self._adapter.attention_layers(ids)
