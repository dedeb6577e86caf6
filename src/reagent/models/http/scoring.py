"""Two ways to the log-probability of a target, and the treatment of targets that a server does not list.

EchoScorer       The server reports log-probabilities of the prompt: one request scores every target of a text. A target
                 that is not part of the text (a contrast, an output token that was replaced) is looked up among the
                 likeliest tokens at its position, or requested with a text that contains it. Never censored.
NextTokenScorer  The server reports only the likeliest next tokens: one request for every text and target. A target that
                 is not among them is censored, or recovered by `logit_bias`.

Censoring. The server lists the k likeliest tokens. Every other token has at most the probability of the k-th, and at
most the probability that those k leave. The smaller of the two bounds is used as the value:

- The drop that a probe caused is at least as large as measured: effects and scores are, if anything, too small.
- The rank is taken as beyond every top-k: a stopping test that cannot be verified fails.
- If the target is censored in the unchanged text, its drops may err either way, which is reported separately.

Censored values are counted (`Meter.censored`) and shown with the explanation.

Recovery. If a server takes `logit_bias`, the value itself can be recovered. A bias b on the target's logit turns its
probability p into

    p' = p e^b / (1 − p + p e^b),   so that   logit p = logit p' − b

which can be read off as soon as b lifts the target into the list. Some servers (llama.cpp, vLLM by default) choose by
the biased distribution and report the unbiased one: there a large bias makes the target the chosen token, whose
log-probability is always reported.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from reagent.case import Ids, TargetScores
from reagent.errors import ServerError
from reagent.models.http.capabilities import LARGEST_BIAS
from reagent.models.http.client import Client
from reagent.models.http.responses import (
    ParsedResponse,
    PositionLogprobs,
    TokenLogprob,
    parse_generated,
    parse_with_logprobs,
    visible,
)
from reagent.models.http.vocabulary import Vocabulary
from reagent.models.tokenization import REPLACEMENT

if TYPE_CHECKING:
    from reagent.models.http.endpoints import CompletionFormat, RequestFormat

UNLISTED = 2**30  # the rank of a token that is not listed
ECHOED = 5  # likeliest tokens to request at every position of a scored text: enough for the published stopping test
BIAS_ROUNDS = 12  # in which a bias is raised until its token is listed
BIAS_STEP = 5.0
NEARLY_ONE = -0.002  # above this log-probability, rounding hides the effect of the bias
_UNSPELLED = re.compile(r"|<.*>|\[.*\]|(bytes|token_id):.*")
_ROUNDING = 1e-6  # error of a sum of probabilities: a smaller remainder counts as this

Context = tuple[int, ...]
Query = tuple[Context, int]  # a context, and the token whose probability is wanted


class TokenScore(NamedTuple):
    logprob: float
    rank: int
    censored: bool = False


class Scorer(Protocol):
    """A way to get log-probabilities from a server; `top` is the number of tokens that it lists."""

    top: int

    def score(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        """As `ScoresRagged.score_ragged`: each request has one sequence, so lengths do not matter."""
        ...

    def predict(self, sequence: Context, k: int) -> list[tuple[TokenLogprob, ...]]:
        """For each position from 1 on, the likeliest tokens, best first; none for tokens that are never replaced."""
        ...


class EchoScorer:
    """One request for each text; `parameter` is the server's name for it, `echo` or `prompt_logprobs`."""

    def __init__(
        self, client: Client, request_format: "CompletionFormat", vocabulary: Vocabulary, parameter: str, top: int
    ) -> None:
        self.client, self.request_format, self.vocabulary = client, request_format, vocabulary
        self.parameter, self.top = parameter, top

    def score(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        rows, top = scored_texts(sequences, positions), min(ECHOED, self.top)
        where: dict[Context, dict[int, None]] = {}  # text → positions, each once
        for row, own in zip(rows, positions.tolist(), strict=True):
            where.setdefault(row, {}).update(dict.fromkeys(p for p in own if p < len(row)))
        scores, tops = self._score_texts([(row, list(own)) for row, own in where.items()], top)
        queries = make_queries(rows, positions, targets)
        for context, token in dict.fromkeys(q for row in queries for q in row if q not in scores):
            listed = next((e for e in tops.get(context, ()) if self.vocabulary.matches(e, token)), None)
            if listed is not None:
                scores[context, token] = TokenScore(listed.logprob, tops[context].index(listed))
        rest = dict.fromkeys(q for row in queries for q in row if q not in scores)
        more, _ = self._score_texts([((*context, token), [len(context)]) for context, token in rest], top)
        return as_arrays(queries, scores | more, self.client)

    def predict(self, sequence: Context, k: int) -> list[tuple[TokenLogprob, ...]]:
        (response,) = self._request([sequence], min(k, self.top))
        return [position.top for position in self._positions(response, sequence, range(1, len(sequence)), k)]

    def split_text(self, text: str) -> list[tuple[int, int]]:
        """The spans of the server's own tokens in a text; some servers report nothing else about them."""
        body = self.request_format.body((), 1, 1) | {"prompt": text, "echo": True}
        (response,) = self.client.request_all(self.request_format.path, [body], parse_with_logprobs)
        begins = {0, *(begin for begin, _, _ in _align(response.positions, text) if 0 < begin < len(text))}
        return list(pairwise([*sorted(begins), len(text)]))

    def _score_texts(
        self, texts: Sequence[tuple[Context, Sequence[int]]], top: int
    ) -> tuple[dict[Query, TokenScore], dict[Context, tuple[TokenLogprob, ...]]]:
        """The scores of the tokens at the given positions of each text, and the likeliest tokens there."""
        scores: dict[Query, TokenScore] = {}
        tops: dict[Context, tuple[TokenLogprob, ...]] = {}
        for (row, where), response in zip(texts, self._request([row for row, _ in texts], top), strict=True):
            for p, position in zip(where, self._positions(response, row, where, top), strict=True):
                tops[row[:p]] = position.top
                if position.actual is None:
                    scores[row[:p], row[p]] = TokenScore(upper_bound(position.top, top), UNLISTED, censored=True)
                else:
                    logprob = position.actual.logprob
                    rank = rank_of(logprob, position, top) if position.rank is None else position.rank
                    scores[row[:p], row[p]] = TokenScore(logprob, rank)
        return scores, tops

    def _request(self, texts: Sequence[Context], top: int) -> list[ParsedResponse]:
        for text in texts:
            self.client.meter.add(1, len(text))
        extra: dict[str, Any] = {"echo": True} if self.parameter == "echo" else {self.parameter: top}
        bodies = [self.request_format.body(text, 1, top) | extra for text in texts]
        return self.client.request_all(self.request_format.path, bodies, parse_with_logprobs)

    def _positions(
        self, response: ParsedResponse, ids: Context, where: Sequence[int], top: int
    ) -> list[PositionLogprobs]:
        if not self.request_format.sends_ids:
            edges = [[len(self.vocabulary.decode(ids[:q])) for q in (p, p + 1)] for p in where]
            aligned = _align(response.positions, self.vocabulary.decode(ids))
            return [_combine(start, end, aligned, top) for start, end in edges]
        positions = response.prompt_positions or response.positions
        if not len(ids) <= len(positions) <= len(ids) + 1:
            raise ServerError(
                f"the server returned {len(positions)} tokens for a prompt of {len(ids)} tokens and 1 new one"
            )
        for p in where:
            actual = positions[p].actual
            if actual is not None and actual.id not in (None, ids[p]):
                raise ServerError(f"the server returned the token {actual.id} of the prompt as token {ids[p]}")
        return [positions[p] for p in where]


class NextTokenScorer:
    """One request for each text and target; `bias`: whether reported values include a logit_bias."""

    def __init__(
        self, client: Client, request_format: "RequestFormat", vocabulary: Vocabulary, top: int, bias: str = ""
    ) -> None:
        self.client, self.request_format, self.vocabulary = client, request_format, vocabulary
        self.top, self.bias = top, bias

    def score(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        queries = make_queries(scored_texts(sequences, positions), positions, targets)
        different = list(dict.fromkeys(q for row in queries for q in row))
        next_positions = self._next_positions(dict.fromkeys(context for context, _ in different))
        scores = {q: self._look_up(next_positions[q[0]], q[1]) for q in different}
        if self.bias:
            scores |= self._recover({q: score.logprob for q, score in scores.items() if score.censored})
        return as_arrays(queries, scores, self.client)

    def predict(self, sequence: Context, k: int) -> list[tuple[TokenLogprob, ...]]:
        where = [i for i in range(1, len(sequence)) if sequence[i] not in self.vocabulary.never_replaced]
        bodies = [self.request_format.prediction_body(sequence[:i], min(k, self.top)) for i in where]
        for i in where:
            self.client.meter.add(1, i)
        responses = dict(zip(where, self._request(bodies), strict=True))
        return [responses[i].positions[0].top if i in responses else () for i in range(1, len(sequence))]

    def next_tokens(self, context: Sequence[int]) -> tuple[TokenLogprob, ...]:
        """The likeliest tokens after a context."""
        return self._next_positions([tuple(context)])[tuple(context)].top

    def _request(self, bodies: Sequence[Mapping[str, Any]]) -> list[ParsedResponse]:
        return self.client.request_all(self.request_format.path, bodies, parse_generated)

    def _next_positions(self, texts: Iterable[Context]) -> dict[Context, PositionLogprobs]:
        texts = list(texts)
        for text in texts:
            self.client.meter.add(1, len(text))
        responses = self._request([self.request_format.body(text, 1, self.top) for text in texts])
        return {text: response.positions[0] for text, response in zip(texts, responses, strict=True)}

    def _look_up(self, position: PositionLogprobs, token: int) -> TokenScore:
        for entry in (*position.top, position.actual):  # the chosen token may not be among the likeliest
            if entry is not None and self.vocabulary.matches(entry, token):
                return TokenScore(entry.logprob, rank_of(entry.logprob, position, self.top))
        return TokenScore(upper_bound(position.top, self.top), UNLISTED, censored=True)

    def _recover(self, bounds: Mapping[Query, float]) -> dict[Query, TokenScore]:
        """The censored values that a bias on the target's logit reveals."""
        recovered: dict[Query, TokenScore] = {}
        # A target at its bound gets even odds. One far below the bound needs a larger bias.
        bias = {q: LARGEST_BIAS if self.bias == "unbiased" else max(1.0, -limit) for q, limit in bounds.items()}
        for _ in range(BIAS_ROUNDS):
            pending = [q for q in bounds if q not in recovered and bias[q] <= LARGEST_BIAS]
            if not pending:
                break
            bodies = [
                self.request_format.body(c, 1, self.top) | {"logit_bias": {str(t): bias[c, t]}} for c, t in pending
            ]
            for q, response in zip(pending, self._request(bodies), strict=True):
                position = response.positions[0]
                entries = [e for e in (*position.top, position.actual) if e and self.vocabulary.matches(e, q[1])]
                if not entries:
                    bias[q] += BIAS_STEP
                elif self.bias == "unbiased":
                    recovered[q] = TokenScore(entries[0].logprob, UNLISTED)
                elif entries[0].logprob > NEARLY_ONE:
                    bias[q] -= BIAS_STEP / 2
                else:
                    recovered[q] = TokenScore(remove_bias(entries[0].logprob, bias[q]), UNLISTED)
        return recovered


def scored_texts(sequences: Sequence[Ids], positions: Ids) -> list[Context]:
    """Each sequence up to its last target, as a tuple, which can be the key of a dictionary."""
    return [tuple(row[: last + 1].tolist()) for row, last in zip(sequences, positions.max(-1), strict=True)]


def make_queries(rows: Sequence[Context], positions: Ids, targets: Ids) -> list[list[Query]]:
    """For each row, a query for each target at the positions of the row."""
    wanted = targets.tolist()
    return [
        [(row[:p], t) for p, t in zip(own, wanted, strict=True)]
        for row, own in zip(rows, positions.tolist(), strict=True)
    ]


def as_arrays(queries: Sequence[Sequence[Query]], scores: Mapping[Query, TokenScore], client: Client) -> TargetScores:
    """The scores of all queries as arrays; censored ones are counted."""
    table = [[scores[q] for q in row] for row in queries]
    client.meter.censored += sum(score.censored for row in table for score in row)
    return TargetScores(
        np.array([[score.logprob for score in row] for row in table], dtype=np.float64),
        np.array([[score.rank for score in row] for row in table], dtype=np.int64),
    )


def _combine(start: int, end: int, aligned: Sequence[tuple[int, int, PositionLogprobs]], k: int) -> PositionLogprobs:
    """The server's tokens in a piece of text as one: the sum of their log-probabilities, and the worst rank."""
    inside = [(begin, position) for begin, stop, position in aligned if begin < end and stop > start]
    top = inside[0][1].top if inside and inside[0][0] == start else ()
    scored = [(position.actual.logprob, position) for _, position in inside if position.actual is not None]
    if not scored or len(scored) < len(inside):
        return PositionLogprobs("", None, top)
    rank = max(rank_of(logprob, position, k) for logprob, position in scored)
    return PositionLogprobs("", TokenLogprob("", sum(logprob for logprob, _ in scored)), top, rank=rank)


def _align(positions: Sequence[PositionLogprobs], text: str) -> list[tuple[int, int, PositionLogprobs]]:
    """Where each token begins and ends in `text`.

    If the tokens add up to the text, offsets are counted from them: some servers count a start token as well.
    """
    shift = "".join(position.text for position in positions).find(text)
    if shift < 0:
        edges = [position.offset for position in positions] + [len(text)]
        _check_spelling(positions, edges, text)
    else:
        edges = list(np.cumsum([0, *(len(position.text) for position in positions)]) - shift)
    return [(begin, end, position) for (begin, end), position in zip(pairwise(edges), positions, strict=True)]


def _check_spelling(positions: Sequence[PositionLogprobs], edges: Sequence[int], text: str) -> None:
    """Refuse tokens that are not those of the text at their offsets.

    Parts of characters, names of special tokens and ids have no text of their own, and are not compared.
    """
    for position, (begin, end) in zip(positions, pairwise(edges), strict=True):
        piece = position.text.replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n").strip()
        comparable = piece.isprintable() and REPLACEMENT not in piece and not _UNSPELLED.fullmatch(piece)
        inside = begin < len(text) and comparable
        if (begin > end and inside) or (inside and not text.startswith(piece, begin) and piece not in text[begin:end]):
            raise ServerError(
                f"the tokens that the server returned do not spell the prompt: {visible(piece)[:40]!r} at character "
                f"{begin}, where it has {visible(text[begin : begin + 40])!r}"
            )


# --- censored targets ---


def upper_bound(top: Sequence[TokenLogprob], k: int) -> float:
    """The largest possible log-probability of a token that is not among the `k` likeliest.

    >>> even = [TokenLogprob(text, math.log(0.25)) for text in "abc"]
    >>> round(math.exp(upper_bound(even, 3)), 3), round(math.exp(upper_bound([TokenLogprob("a", math.log(0.9))], 1)), 3)
    (0.25, 0.1)
    """
    best = top[:k]
    left = 1 - sum(math.exp(entry.logprob) for entry in best)
    return min(best[-1].logprob if best else 0.0, math.log(max(left, _ROUNDING)))


def rank_of(logprob: float, position: PositionLogprobs, k: int) -> int:
    """How many tokens are likelier, if that can be seen among the `k` likeliest.

    A server may list the actual token in addition to the k likeliest, so being listed is not enough.
    """
    better = sum(entry.logprob > logprob for entry in position.top)
    return better if better < k else UNLISTED


def remove_bias(logprob: float, bias: float) -> float:
    """The log-probability of a token before its logit was raised by `bias`, from its log-probability after it.

    >>> p, b = 1e-7, 12.0
    >>> raised = p * math.exp(b) / (1 - p + p * math.exp(b))
    >>> round(remove_bias(math.log(raised), b) - math.log(p), 9)
    0.0
    """
    # logit p' = log p' − log(1 − p'); then log p = −log(1 + e^−logit).
    odds = logprob - math.log(-math.expm1(min(logprob, -1e-12))) - bias
    return -math.log1p(math.exp(-odds)) if odds > -700 else odds
