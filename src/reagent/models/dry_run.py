"""The cost of an explanation without a request: the method runs on a model that only counts.

Its scores are noise in which no effect is ever settled and no stopping test ever passes, so that the numbers are upper
bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reagent.case import Case, Ids, Mask, TargetScores
from reagent.explanation import Message, Token
from reagent.models.base import (
    HasAttentionMask,
    HasChatTemplate,
    HasControlTokens,
    Meter,
    Model,
    Predictions,
    response_of,
)
from reagent.models.chat import Chat, Tools
from reagent.models.http.scoring import UNLISTED, make_queries, scored_texts

VOCABULARY = 1000


@dataclass
class RequestEstimate:
    """A number of requests and of the tokens that they send; each request also generates one token."""

    requests: int = 0
    tokens: int = 0

    def add(self, lengths: list[int]) -> None:
        """Add one request for each of `lengths`."""
        self.requests += len(lengths)
        self.tokens += sum(lengths)


class DryRunModel:
    """Takes the place of `model` and counts the requests of each kind of scorer."""

    def __init__(self, model: Model) -> None:
        self.model, self.info, self.meter, self.response = model, model.info, Meter(), response_of(model)
        self.echo, self.next_token, self.greedy = RequestEstimate(), RequestEstimate(), RequestEstimate()
        self._noise = np.random.default_rng(0)

    @property
    def ordinary_ids(self) -> Ids:
        return np.arange(VOCABULARY)

    @property
    def ordinary_texts(self) -> tuple[str, ...]:
        return tuple(f" w{i}" for i in range(VOCABULARY))

    @property
    def tokenizer(self) -> object:
        """As the model itself: it tells whether there is a chat template."""
        return getattr(self.model, "tokenizer", None) if isinstance(self.model, HasChatTemplate) else self.model

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        make_case = getattr(self.model, "preview_case", self.model.case)
        case: Case = make_case(prompt, target, max_new_tokens)
        return case

    def chat(self, messages: Chat, target: str | None = None, max_new_tokens: int = 10, tools: Tools = ()) -> Case:
        preview = getattr(self.model, "preview_case", None)
        if preview is not None:
            case: Case = preview(messages, target, max_new_tokens, tools)
            return case
        assert isinstance(self.model, HasChatTemplate)
        return self.model.chat(messages, target, max_new_tokens, *([tools] if tools else []))

    def find_control_tokens(self, tokens: Sequence[Token], messages: Sequence[Message] = ()) -> list[int]:  # noqa: ARG002
        return []  # they are reported when the request is answered

    def without_control_tokens(self) -> "DryRunModel":
        return DryRunModel(
            self.model.without_control_tokens() if isinstance(self.model, HasControlTokens) else self.model
        )

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        return self.score_ragged(list(sequences), np.tile(positions, (len(sequences), 1)), targets)

    def score_again(self, _repetition: int, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        return self.score(sequences, positions, targets)

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        rows = scored_texts(sequences, positions)
        queries = {query for row in make_queries(rows, positions, targets) for query in row}
        pairs = zip(rows, positions.tolist(), strict=True)
        echoed = {(row[:p], row[p]) for row, own in pairs for p in own if p < len(row)}
        for last in positions.max(-1).tolist():
            self.meter.add(1, last)
        self.echo.add([*map(len, set(rows)), *(len(context) + 1 for context, _ in queries - echoed)])
        self.next_token.add([*map(len, {context for context, _ in queries})])
        begins = positions.min(-1).tolist()  # one answer for each prompt serves all targets
        self.greedy.add([*map(len, {row[:begin] for row, begin in zip(rows, begins, strict=True)})])
        return TargetScores(self._noise.normal(-5.0, 1.0, positions.shape), np.full(positions.shape, UNLISTED))

    @property
    def missing_inputs(self) -> frozenset[str]:
        """As the model itself: masks are counted only if it takes them."""
        takes_masks = isinstance(self.model, HasAttentionMask)
        return getattr(self.model, "missing_inputs", frozenset()) if takes_masks else frozenset({"attention_mask"})

    def score_masked(self, sequences: Ids, keep: Mask, positions: Ids, targets: Ids) -> TargetScores:  # noqa: ARG002
        return self.score(sequences, positions, targets)

    def predict(self, sequence: Ids, k: int) -> Predictions:
        self.meter.add(1, len(sequence) - 1)
        self.echo.add([len(sequence)])
        self.next_token.add(list(range(1, len(sequence))))
        self.greedy.add(list(range(1, len(sequence))))
        others = sequence[1:, None] + np.arange(1, k + 1)
        return Predictions(others, np.full(others.shape, -1.0))
