"""What causal models and encoder–decoders on this machine have in common: names, vocabulary, optional capabilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from reagent.case import Case, Floats, Ids, Mask, TargetScores
from reagent.errors import InputError
from reagent.explanation import Message, Token
from reagent.models import internals
from reagent.models.base import Meter, Singles
from reagent.models.chat import Chat, Tools, check_target, render_chat
from reagent.models.network import Network
from reagent.models.tokenization import TokenizerCodec, find_control_tokens, is_ordinary, read_as_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

N = TypeVar("N", bound=Network)

PASS_COST = 48  # tokens that a processor reads in the fixed time of one pass


class LocalModel(ABC, Generic[N]):
    """A `transformers` network behind its adapter, and its tokenizer."""

    def __init__(
        self,
        adapter: N,
        codec: TokenizerCodec,
        tokenizer: "PreTrainedTokenizerBase",
        name: str,
        revision: str | None,
        backend: str,
    ) -> None:
        self.network: PreTrainedModel = adapter.module
        self.tokenizer = tokenizer
        self.meter = Meter()
        self._adapter = adapter
        self._scoring = adapter  # computes log-probabilities and distributions
        self._codec = codec
        self._name = name
        self._revision = revision
        self._backend = backend
        self._lock = RLock()  # what was read before belongs to one call at a time
        self._on_text: Callable[[str], None] | None = None
        self._keeps_control_tokens = True

    @property
    def info(self) -> Mapping[str, Any]:
        dtype = str(self.network.dtype).removeprefix("torch.")
        return {"id": self._name, "revision": self._revision, "dtype": dtype, "backend": self._backend}

    @property
    def context_length(self) -> int | None:
        return self._adapter.context_length

    @property
    def missing_inputs(self) -> frozenset[str]:
        return self._adapter.missing_inputs

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
        size = self._adapter.vocabulary_size
        kept = {i: text for i, text in self._codec.token_texts.items() if i < size and is_ordinary(text)}
        return np.array(list(kept), dtype=np.int64), tuple(kept.values())

    def with_stream(self, on_text: Callable[[str], None]) -> Self:
        model = copy(self)  # network, what it has read, lock and meter are the same
        model._on_text = on_text
        return model

    # --- text to tokens ---

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        if not prompt.strip():
            raise InputError("the prompt is empty: give some text to explain")
        return self._case(prompt, None, target, max_new_tokens)

    def chat(self, messages: Chat, target: str | None = None, max_new_tokens: int = 10, tools: Tools = ()) -> Case:
        text, rendered = render_chat(self.tokenizer, messages, self._name, tools)
        if target is not None:
            check_target(self.tokenizer, messages, target, self._name, tools)
        return replace(self._case(text, rendered, target, max_new_tokens), messages=rendered)

    @abstractmethod
    def _case(self, prompt: str, messages: tuple[Message, ...] | None, target: str | None, max_new_tokens: int) -> Case:
        """A prompt, or the messages of a rendered chat, with the target or the model's own output."""

    def find_control_tokens(self, tokens: Sequence[Token], messages: Sequence[Message] = ()) -> list[int]:
        return find_control_tokens(self._codec, tokens, messages)

    def without_control_tokens(self) -> Self:
        model = copy(self)
        model._keeps_control_tokens = False
        return model

    def _as_asked(self, tokens: tuple[Token, ...], messages: Sequence[Message] = ()) -> tuple[Token, ...]:
        """The tokens of a text with its control tokens, or without them."""
        return tokens if self._keeps_control_tokens else read_as_text(self._codec, tokens, messages)

    # --- optional capabilities: see `base` for their contracts and `internals` for the computations ---

    def rows_at_once(self, length: int, positions: int) -> int:
        return self._adapter.rows_at_once(length, positions)

    def after_tokens(self, sequences: Ids, positions: Ids) -> Singles:
        self.meter.add(len(sequences), int(positions.max()))
        return internals.compute_distributions(self._scoring, sequences, positions)

    def after_embeddings(self, embeddings: Singles, positions: Ids) -> Singles:
        self.meter.add(len(embeddings), int(positions.max()))
        return internals.compute_distributions(self._scoring, embeddings, positions)

    def score_masked(self, sequences: Ids, keep: Mask, positions: Ids, targets: Ids) -> TargetScores:
        self.meter.add(len(sequences), int(positions.max()))
        return internals.score_masked(self._scoring, sequences, keep, positions, targets)

    def embed(self, ids: Ids) -> Singles | None:
        return self._adapter.embed(ids)

    def values(self, case: Case, embeddings: Singles, batch: int | None = None) -> Floats:
        self.meter.add(*embeddings.shape[:2])
        return internals.compute_values(self._adapter_for(case), case, embeddings, batch)

    def gradients(self, case: Case, embeddings: Singles, targets: Sequence[int], batch: int | None = None) -> Singles:
        self.meter.add(*embeddings.shape[:2])
        return internals.compute_gradients(self._adapter_for(case), case, embeddings, targets, batch)

    def _adapter_for(self, case: Case) -> N:  # noqa: ARG002
        """The adapter that reads embeddings of this case."""
        return self._adapter
