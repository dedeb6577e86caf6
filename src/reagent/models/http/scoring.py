"""Two ways to the log-probability of a target.

EchoScorer   the server reports log-probabilities of the prompt: one request scores every target of a text. A target
       that does not stand in the text itself (a contrast, an output token that was replaced) is looked up among the
       likeliest tokens at its place, or asked for with the text in which it does stand. Never censored.
NextTokenScorer   the server reports the likeliest next tokens only: one request for every text and target. A target
       that is not among them is censored (see `censoring`), or recovered by `logit_bias`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from reagent.case import Ids, TargetScores
from reagent.errors import ServerError
from reagent.models.http.censoring import LARGEST_BIAS, UNLISTED, bound, rank_of, without_bias
from reagent.models.http.client import Client
from reagent.models.http.forms import Completion, Form
from reagent.models.http.responses import Listed, Place, Reply, read_with_logprobs
from reagent.models.http.vocabulary import Vocabulary

ECHOED = 5  # likeliest tokens to ask for at every position of a scored text: enough for the published stopping test
ROUNDS = 12  # of raising a bias until its token is listed
STEP = 5.0
NEARLY_ONE = -0.002  # a log-probability above it says too little about what the bias has raised

Context = tuple[int, ...]
Asked = tuple[Context, int]  # a context, and the token asked for


class Answer(NamedTuple):
    logprob: float
    rank: int
    censored: bool = False


class Scorer(Protocol):
    """How a server is asked; `top` is how many of the likeliest tokens it lists."""

    top: int

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        """As `Model.score`."""
        ...

    def likeliest(self, sequence: Context, k: int) -> list[tuple[Listed, ...]]:
        """For each position from 1 on, the likeliest tokens there, best first; none where nothing stands in."""
        ...


class EchoScorer:
    """One request for a text; `by` is the server's word for it, `echo` or `prompt_logprobs`."""

    def __init__(self, client: Client, form: Completion, vocabulary: Vocabulary, by: str, top: int) -> None:
        self.client, self.form, self.vocabulary, self.by, self.top = client, form, vocabulary, by, top

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        rows = contexts(sequences[:, : int(positions.max()) + 1])
        where = positions.tolist()
        known, tops = self._seen([(row, where) for row in dict.fromkeys(rows)], min(ECHOED, self.top))
        wanted = asked(rows, positions, targets)
        for context, token in dict.fromkeys(q for row in wanted for q in row if q not in known):
            listed = next((e for e in tops[context] if self.vocabulary.is_listed_as(e, token)), None)
            if listed is not None:
                known[context, token] = Answer(listed.logprob, tops[context].index(listed))
        rest = dict.fromkeys(q for row in wanted for q in row if q not in known)
        more, _ = self._seen([((*context, token), [len(context)]) for context, token in rest], min(ECHOED, self.top))
        return table(wanted, known | more, self.client)

    def likeliest(self, sequence: Context, k: int) -> list[tuple[Listed, ...]]:
        (reply,) = self._ask([sequence], min(k, self.top))
        return [place.top for place in self._places(reply, sequence, range(1, len(sequence)), k)]

    def cut(self, text: str) -> list[tuple[int, int]]:
        """Where the server's own tokens stand in a text, which is all that some servers tell of them."""
        body = self.form.body((), 1, 1) | {"prompt": text, "echo": True}
        (reply,) = self.client.ask(self.form.path, [body], read_with_logprobs)
        begins = {0, *(begin for begin, _, _ in _spread(reply.places, text) if 0 < begin < len(text))}
        return list(pairwise([*sorted(begins), len(text)]))

    def _seen(
        self, texts: Sequence[tuple[Context, Sequence[int]]], top: int
    ) -> tuple[dict[Asked, Answer], dict[Context, tuple[Listed, ...]]]:
        """What is told of the tokens that stand at the given positions, and the likeliest there."""
        known: dict[Asked, Answer] = {}
        tops: dict[Context, tuple[Listed, ...]] = {}
        for (row, where), reply in zip(texts, self._ask([row for row, _ in texts], top), strict=True):
            for p, place in zip(where, self._places(reply, row, where, top), strict=True):
                tops[row[:p]] = place.top
                if place.own is None:
                    known[row[:p], row[p]] = Answer(bound(place.top, top), UNLISTED, censored=True)
                else:
                    rank = rank_of(place.own.logprob, place, top) if place.rank is None else place.rank
                    known[row[:p], row[p]] = Answer(place.own.logprob, rank)
        return known, tops

    def _ask(self, texts: Sequence[Context], top: int) -> list[Reply]:
        for text in texts:
            self.client.meter.add(1, len(text))
        more: dict[str, Any] = {"echo": True} if self.by == "echo" else {self.by: top}
        bodies = [self.form.body(text, 1, top) | more for text in texts]
        return self.client.ask(self.form.path, bodies, read_with_logprobs)

    def _places(self, reply: Reply, ids: Context, where: Sequence[int], top: int) -> list[Place]:
        if not self.form.by_ids:
            edges = [[len(self.vocabulary.text(ids[:q])) for q in (p, p + 1)] for p in where]
            spread = _spread(reply.places, self.vocabulary.text(ids))
            return [_between(start, end, spread, top) for start, end in edges]
        places = reply.prompt or reply.places
        if not len(ids) <= len(places) <= len(ids) + 1:
            raise ServerError(f"the server told of {len(places)} tokens, of {len(ids)} in the prompt and 1 new one")
        return [places[p] for p in where]


class NextTokenScorer:
    """One request for a text and a target; `bias` is what logit_bias does to what the server reports."""

    def __init__(self, client: Client, form: Form, vocabulary: Vocabulary, top: int, bias: str = "") -> None:
        self.client, self.form, self.vocabulary, self.top, self.bias = client, form, vocabulary, top, bias

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        wanted = asked(contexts(sequences), positions, targets)
        different = list(dict.fromkeys(q for row in wanted for q in row))
        places = self._after(dict.fromkeys(context for context, _ in different))
        known = {q: self._find(places[q[0]], q[1]) for q in different}
        if self.bias:
            known |= self._recovered({q: answer.logprob for q, answer in known.items() if answer.censored})
        return table(wanted, known, self.client)

    def likeliest(self, sequence: Context, k: int) -> list[tuple[Listed, ...]]:
        where = [i for i in range(1, len(sequence)) if sequence[i] not in self.vocabulary.fixed]
        bodies = [self.form.guess(sequence[:i], min(k, self.top)) for i in where]
        for i in where:
            self.client.meter.add(1, i)
        replies = self.client.ask(self.form.path, bodies, read_with_logprobs)
        found = dict(zip(where, replies, strict=True))
        return [found[i].places[0].top if i in found else () for i in range(1, len(sequence))]

    def next_tokens(self, context: Sequence[int]) -> tuple[Listed, ...]:
        """The likeliest tokens after a context."""
        return self._after([tuple(context)])[tuple(context)].top

    def _after(self, texts: Iterable[Context]) -> dict[Context, Place]:
        texts = list(texts)
        for text in texts:
            self.client.meter.add(1, len(text))
        bodies = [self.form.body(text, 1, self.top) for text in texts]
        replies = self.client.ask(self.form.path, bodies, read_with_logprobs)
        return {text: reply.places[0] for text, reply in zip(texts, replies, strict=True)}

    def _find(self, place: Place, token: int) -> Answer:
        for entry in (*place.top, *([place.own] if place.own else [])):  # the chosen one may not be among the likeliest
            if self.vocabulary.is_listed_as(entry, token):
                return Answer(entry.logprob, rank_of(entry.logprob, place, self.top))
        return Answer(bound(place.top, self.top), UNLISTED, censored=True)

    def _recovered(self, bounds: Mapping[Asked, float]) -> dict[Asked, Answer]:
        """The censored answers that a bias on the target's logit brings to light; see `censoring`."""
        found: dict[Asked, Answer] = {}
        # A target at its bound gets even odds; one far below it needs more.
        bias = {q: LARGEST_BIAS if self.bias == "unbiased" else max(1.0, -limit) for q, limit in bounds.items()}
        for _ in range(ROUNDS):
            open_ones = [q for q in bounds if q not in found and bias[q] <= LARGEST_BIAS]
            if not open_ones:
                break
            bodies = [self.form.body(c, 1, self.top) | {"logit_bias": {str(t): bias[c, t]}} for c, t in open_ones]
            for q, reply in zip(open_ones, self.client.ask(self.form.path, bodies, read_with_logprobs), strict=True):
                place = reply.places[0]
                entries = [e for e in (*place.top, place.own) if e and self.vocabulary.is_listed_as(e, q[1])]
                if not entries:
                    bias[q] += STEP
                elif self.bias == "unbiased":
                    found[q] = Answer(entries[0].logprob, UNLISTED)
                elif entries[0].logprob > NEARLY_ONE:
                    bias[q] -= STEP / 2
                else:
                    found[q] = Answer(without_bias(entries[0].logprob, bias[q]), UNLISTED)
        return found


def contexts(sequences: Ids) -> list[Context]:
    return [tuple(row) for row in sequences.tolist()]


def asked(rows: Sequence[Context], positions: Ids, targets: Ids) -> list[list[Asked]]:
    """For each row, what is asked about it."""
    pairs = list(zip(positions.tolist(), targets.tolist(), strict=True))
    return [[(row[:p], t) for p, t in pairs] for row in rows]


def table(wanted: Sequence[Sequence[Asked]], known: Mapping[Asked, Answer], client: Client) -> TargetScores:
    """The answers as arrays; those that are bounds are counted."""
    answers = [[known[q] for q in row] for row in wanted]
    client.meter.censored += sum(answer.censored for row in answers for answer in row)
    return TargetScores(
        np.array([[answer.logprob for answer in row] for row in answers], dtype=np.float64),
        np.array([[answer.rank for answer in row] for row in answers], dtype=np.int64),
    )


def _between(start: int, end: int, spread: Sequence[tuple[int, int, Place]], k: int) -> Place:
    """What the server's tokens say about a piece of text: the sum of what they say, and the worst rank."""
    inside = [(begin, place) for begin, stop, place in spread if begin < end and stop > start]
    top = inside[0][1].top if inside and inside[0][0] == start else ()
    owns = [(place.own.logprob, place) for _, place in inside if place.own is not None]
    if not owns or len(owns) < len(inside):
        return Place("", None, top)
    rank = max(rank_of(logprob, place, k) for logprob, place in owns)
    return Place("", Listed("", sum(logprob for logprob, _ in owns)), top, rank=rank)


def _spread(places: Sequence[Place], text: str) -> list[tuple[int, int, Place]]:
    """Where each token begins and ends in `text`.

    Offsets are counted from the tokens where these spell the text: some servers count a start token along.
    """
    joined = "".join(place.text for place in places)
    shift = joined.find(text)
    if shift < 0:
        edges = [place.offset for place in places] + [len(text)]
    else:
        edges = list(np.cumsum([0, *(len(place.text) for place in places)]) - shift)
    return [(begin, end, place) for (begin, end), place in zip(pairwise(edges), places, strict=True)]
