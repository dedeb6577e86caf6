"""Responses of answers: a number for each new answer that says how much it is like the original one.

text          mean of word F1 and chrF: needs nothing else
exact         1 if the answer is the same text, apart from case and white space
label         1 if the answer has the same label: its first word, or the first of the given labels that it contains
regex:P       1 if the pattern is found in the answer
embedding:M   cosine of the embeddings of a sentence-transformers model, or of a server as URL#model
proxy:M       log-likelihood of the original answer under another model that reads the perturbed prompt, in nats
text+proxy:M  mean of `text` and of that likelihood per token, relative to the unchanged prompt

All but `proxy` are between 0 and 1.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from reagent.case import Floats
from reagent.errors import InputError, ServerError, UnknownNameError
from reagent.models.base import Meter, Response
from reagent.models.chat import Chat
from reagent.models.text.likelihood import MixedScorer, ProxyScorer
from reagent.models.text.similarity import chrf, normalize, word_f1, words

NAMES = ("text", "exact", "label", "regex:PATTERN", "embedding:MODEL", "proxy:MODEL", "text+proxy:MODEL")
SIMILARITY = Response("similarity", 0.1, is_logprob=False, saturates=True)
AGREEMENT = Response("share of same answers", 0.1, is_logprob=False, saturates=True)
MATCHES = Response("share of matching answers", 0.1, is_logprob=False, saturates=True)
EMBEDDINGS_AT_ONCE = 64


@runtime_checkable
class AnswerScorer(Protocol):
    """Scores answers. `needs_answers` is False if the response depends on the prompts alone."""

    @property
    def name(self) -> str:
        """The name in the record of an explanation."""
        ...

    @property
    def response(self) -> Response: ...
    @property
    def needs_answers(self) -> bool: ...
    def check(self, prompt: str | Chat, reference: str) -> None:
        """Raise InputError if the original answer to a prompt cannot be scored."""
        ...

    def score(self, prompts: Sequence[str | Chat], answers: Sequence[str], reference: str) -> Floats:
        """One response for each answer to its prompt, or for each prompt if no answers are needed."""
        ...


@runtime_checkable
class ComparesParts(Protocol):
    """Compares parts of an answer too, each of which continues the original one."""

    def compare_part(self, answers: Sequence[str], reference: str) -> Floats: ...
    def join_parts(self, prompts: Sequence[str | Chat], likeness: Floats, reference: str) -> Floats:
        """The responses from the mean likeness of the parts of each answer."""
        ...


@dataclass
class PairScorer:
    """A function of the answer and the original one, with values from 0 to 1."""

    name: str
    compare: Callable[[str, str], float]
    response: Response = SIMILARITY
    needs_answers: bool = field(default=True, init=False)

    def check(self, prompt: str | Chat, reference: str) -> None:  # noqa: ARG002
        if self._value(reference, reference) <= 0:
            raise InputError(
                f"the scorer {self.name!r} gives 0 to the original answer {reference!r}: give one that accepts it"
            )

    def score(self, prompts: Sequence[str | Chat], answers: Sequence[str], reference: str) -> Floats:  # noqa: ARG002
        return np.array([self._value(answer, reference) for answer in answers])

    def _value(self, answer: str, reference: str) -> float:
        given = self.compare(answer, reference)
        try:
            value = float(given)
        except (TypeError, ValueError):
            value = float("nan")
        if not 0 <= value <= 1:
            raise InputError(f"the scorer {self.name!r} must give numbers from 0 to 1, got {given!r}")
        return value


class LikenessScorer(PairScorer):
    """A scorer that also compares parts of answers."""

    def compare_part(self, answers: Sequence[str], reference: str) -> Floats:
        return self.score([], answers, reference)

    def join_parts(self, prompts: Sequence[str | Chat], likeness: Floats, reference: str) -> Floats:  # noqa: ARG002
        return likeness


def compare_texts(answer: str, reference: str) -> float:
    """The mean of word F1 and chrF."""
    return (word_f1(answer, reference) + chrf(answer, reference)) / 2


def compare_exactly(answer: str, reference: str) -> float:
    return float(normalize(answer) == normalize(reference))


def find_label(text: str, labels: Sequence[str]) -> str | None:
    """The label of a text.

    >>> find_label("It is NEGATIVE, not positive", ["positive", "negative"]), find_label("Yes, of course", [])
    ('negative', 'yes')
    """
    if not labels:
        return next(iter(words(text)), None)
    plain = normalize(text)
    places = ((re.search(rf"(?<!\w){re.escape(label)}(?!\w)", plain), label) for label in labels)
    found = [(match.start(), label) for match, label in places if match]
    return min(found)[1] if found else None


def make_label_scorer(labels: Sequence[str]) -> PairScorer:
    """Same label or not; an original answer without a label gets 0."""

    def compare(answer: str, reference: str) -> float:
        label = find_label(reference, labels)
        return float(label is not None and find_label(answer, labels) == label)

    return PairScorer(f"label:{','.join(labels)}" if labels else "label", compare, AGREEMENT)


def make_pattern_scorer(pattern: str) -> PairScorer:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InputError(f"the pattern {pattern!r} of `score` is not a regular expression: {error}") from error
    return PairScorer(f"regex:{pattern}", lambda answer, _: float(bool(compiled.search(answer))), MATCHES)


@dataclass
class EmbeddingScorer:
    """The cosine of embeddings; negative ones count as 0."""

    model: str
    embed: Callable[[Sequence[str]], Floats]  # [texts, width]
    response: Response = SIMILARITY
    needs_answers: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.name = f"embedding:{self.model}"
        self._known: dict[str, Floats] = {}

    def check(self, prompt: str | Chat, reference: str) -> None:  # noqa: ARG002
        if not self._vectors([reference]).any():
            raise InputError(f"the embedding of the original answer {reference!r} is 0: choose another scorer")

    def score(self, prompts: Sequence[str | Chat], answers: Sequence[str], reference: str) -> Floats:  # noqa: ARG002
        vectors, (target,) = self._vectors(answers), self._vectors([reference])
        return np.asarray(np.clip(vectors @ target, 0.0, 1.0))

    def _vectors(self, texts: Sequence[str]) -> Floats:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for begin in range(0, len(new), EMBEDDINGS_AT_ONCE):
            some = new[begin : begin + EMBEDDINGS_AT_ONCE]
            vectors = np.asarray(self.embed(some), dtype=np.float64)
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            self._known.update(zip(some, vectors, strict=True))
        return np.array([self._known[text] for text in texts])


def make_embedding_scorer(model: str) -> EmbeddingScorer:
    """Embeddings of a server, as URL#model, or of a sentence-transformers model."""
    if model.startswith(("http://", "https://")):
        return EmbeddingScorer(model, _embed_on_server(model))
    try:
        from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise InputError(
            f"the scorer 'embedding:{model}' needs the package sentence-transformers: install it, "
            "or give the URL of a server with /v1/embeddings"
        ) from error
    network = SentenceTransformer(model)
    return EmbeddingScorer(model, lambda texts: np.asarray(network.encode(list(texts)), dtype=np.float64))


def _embed_on_server(url: str) -> Callable[[Sequence[str]], Floats]:
    from reagent.models.http.client import Client
    from reagent.models.http.config import ServerAddress, ServerOptions

    address = ServerAddress.parse(url)
    if address.model is None:
        raise InputError(f"name the embedding model on this server, as {url}#NAME")
    client = Client(address, ServerOptions(), Meter())

    def embed(texts: Sequence[str]) -> Floats:
        body = {"model": address.model, "input": [text or " " for text in texts]}
        (vectors,) = client.request_all("embeddings", [body], lambda data: _parse_embeddings(data, len(texts)))
        return vectors

    return embed


def _parse_embeddings(data: Any, count: int) -> Floats:
    try:
        entries = sorted(data["data"], key=lambda entry: int(entry["index"]))
        vectors = np.array([entry["embedding"] for entry in entries], dtype=np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise ServerError(f"the server returned no embeddings in the format of OpenAI ({error!r})") from error
    if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
        raise ServerError(f"the server returned embeddings of shape {vectors.shape} for {count} texts")
    return vectors


def make_scorer(score: Any) -> AnswerScorer:
    """The scorer of a name, an instance, or a function of the answer and the original one."""
    if isinstance(score, AnswerScorer):
        return score
    if callable(score):
        return LikenessScorer(f"python:{getattr(score, '__qualname__', type(score).__name__)}", score)
    if not isinstance(score, str):
        raise InputError(f"`score` must be one of {', '.join(NAMES)}, or a function, got {score!r}")
    kind, colon, rest = score.partition(":")
    if bool(colon and rest) != (kind in ("regex", "embedding", "proxy", "text+proxy")) and kind != "label":
        raise UnknownNameError("scorer", score, NAMES)
    makers: dict[str, Callable[[], AnswerScorer]] = {
        "text": lambda: LikenessScorer("text", compare_texts),
        "exact": lambda: PairScorer("exact", compare_exactly, AGREEMENT),
        "label": lambda: make_label_scorer([normalize(label) for label in rest.split(",") if label.strip()]),
        "regex": lambda: make_pattern_scorer(rest),
        "embedding": lambda: make_embedding_scorer(rest),
        "proxy": lambda: ProxyScorer(rest),
        "text+proxy": lambda: MixedScorer(LikenessScorer("text", compare_texts), ProxyScorer(rest)),
    }
    if kind not in makers:
        raise UnknownNameError("scorer", score, NAMES)
    return makers[kind]()
