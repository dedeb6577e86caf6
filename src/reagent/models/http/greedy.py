"""Scores of whole answers from a chat that does not continue an unfinished answer.

The server generates its own answer to each text, with the likeliest tokens at every position. As long as this answer is
the scored one, the next token of the scored answer is looked up in the list. From the first other token on, nothing is
known: these tokens count as in the first text that was scored, the unchanged one, and as censored. The loss of the
answer as a whole is then at least the one that is reported. One request serves all tokens of an answer.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from reagent.case import Ids, TargetScores
from reagent.models.http.client import Client
from reagent.models.http.responses import PositionLogprobs, TokenLogprob, parse_with_logprobs
from reagent.models.http.scoring import (
    UNLISTED,
    Context,
    NextTokenScorer,
    Query,
    TokenScore,
    as_arrays,
    make_queries,
    rank_of,
    scored_texts,
    upper_bound,
)
from reagent.models.http.vocabulary import TextVocabulary

if TYPE_CHECKING:
    from reagent.models.http.endpoints import ChatFormat


class GreedyScorer:
    """One request for each text, which serves all targets as far as the model says them."""

    def __init__(self, client: Client, request_format: "ChatFormat", vocabulary: TextVocabulary, top: int) -> None:
        self.client, self.request_format, self.vocabulary, self.top = client, request_format, vocabulary, top
        self._next_token = NextTokenScorer(client, request_format, vocabulary, top)
        self._first: dict[Query, float] = {}  # of the tokens of an answer: what was scored first

    def score(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        queries = make_queries(scored_texts(sequences, positions), positions, targets)
        different = dict.fromkeys(query for row in queries for query in row)
        answers = self._generate(context for context, _ in different)
        return as_arrays(queries, {query: self._look_up(query, answers) for query in different}, self.client)

    def predict(self, sequence: Context, k: int) -> list[tuple[TokenLogprob, ...]]:
        return self._next_token.predict(sequence, k)

    def next_tokens(self, context: Sequence[int]) -> tuple[TokenLogprob, ...]:
        """The likeliest tokens after a context; none if the model's own answer does not begin like it."""
        position = self._reach(tuple(context), self._generate([tuple(context)]))
        return () if position is None else position.top

    def _split(self, context: Context) -> tuple[Context, Context]:
        """The messages, and the beginning of the answer."""
        begin = context.index(self.vocabulary.answer_id) + 1
        return context[:begin], context[begin:]

    def _generate(self, contexts: Iterable[Context]) -> dict[Context, Sequence[PositionLogprobs]]:
        """The answer to the messages of each context, one token longer than the longest beginning."""
        longest: dict[Context, int] = {}
        for context in contexts:
            messages, said = self._split(context)
            longest[messages] = max(longest.get(messages, 0), len(said) + 1)
        for messages in longest:
            self.client.meter.add(1, len(messages))
        bodies = [self.request_format.body(messages, new, self.top) for messages, new in longest.items()]
        responses = self.client.request_all(self.request_format.path, bodies, parse_with_logprobs)
        return {messages: response.positions for messages, response in zip(longest, responses, strict=True)}

    def _reach(self, context: Context, answers: dict[Context, Sequence[PositionLogprobs]]) -> PositionLogprobs | None:
        """The position after a context in the model's own answer; None if that begins otherwise."""
        messages, said = self._split(context)
        positions = answers[messages]
        own = (TokenLogprob(position.text, 0.0) for position in positions)
        same = all(self.vocabulary.matches(listed, token) for listed, token in zip(own, said, strict=False))
        return positions[len(said)] if same and len(said) < len(positions) else None

    def _look_up(self, query: Query, answers: dict[Context, Sequence[PositionLogprobs]]) -> TokenScore:
        (context, token), (_, said) = query, self._split(query[0])
        position = self._reach(context, answers)
        if position is None:
            return TokenScore(self._first.setdefault((said, token), 0.0), UNLISTED, censored=True)
        listed = (entry for entry in (*position.top, position.actual) if entry is not None)
        found = next((entry.logprob for entry in listed if self.vocabulary.matches(entry, token)), None)
        value = upper_bound(position.top, self.top) if found is None else found
        self._first.setdefault((said, token), value)
        if found is None:
            return TokenScore(value, UNLISTED, censored=True)
        return TokenScore(found, rank_of(found, position, self.top))
