"""The endpoints of a server, each with the format of its requests, its vocabulary and its scorer."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from reagent.errors import ServerError
from reagent.models.http.capabilities import (
    CONTINUATIONS,
    CompletionCapabilities,
    Continuation,
    ServerInfo,
    detect_chat,
)
from reagent.models.http.client import Client
from reagent.models.http.greedy import GreedyScorer
from reagent.models.http.responses import TokenLogprob, parse_generated
from reagent.models.http.scoring import EchoScorer, NextTokenScorer, Scorer
from reagent.models.http.tokenizers import LocalCodec, ServerCodec
from reagent.models.http.vocabulary import TextVocabulary, TokenVocabulary, Vocabulary
from reagent.models.tokenization import Span
from reagent.segmentation import split_words

logger = logging.getLogger(__name__)

NEXT_WORD = "Here is the beginning of a text. Answer with the one word that comes next, and nothing else.\n\n"
WORDS = "words, since the server does not tell its tokens"


class RequestFormat(Protocol):
    """How a sequence of ids becomes the body of a request."""

    @property
    def path(self) -> str: ...

    def body(self, ids: Sequence[int], new: int, top: int) -> dict[str, Any]:
        """A request for `new` tokens after `ids`, with the `top` likeliest tokens at each."""
        ...

    def prediction_body(self, ids: Sequence[int], top: int) -> dict[str, Any]:
        """A request for the tokens that may follow `ids`, wherever these end."""
        ...


@dataclass(frozen=True)
class CompletionFormat:
    """The prompt of a completion."""

    model: str
    vocabulary: Vocabulary
    sends_ids: bool
    extra: dict[str, Any] = field(default_factory=dict)  # further parameters that this server needs
    path = "completions"

    def body(self, ids: Sequence[int], new: int, top: int) -> dict[str, Any]:
        prompt = list(ids) if self.sends_ids else self.vocabulary.decode(ids)
        return {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": new,
            "temperature": 0,
            "logprobs": top,
            **self.extra,
        }

    def prediction_body(self, ids: Sequence[int], top: int) -> dict[str, Any]:
        return self.body(ids, 1, top)


@dataclass(frozen=True)
class ChatFormat:
    """The messages of a chat. Each begins with its role, which is a token of its own; the last one is the answer."""

    model: str
    vocabulary: TextVocabulary
    limit: str = "max_tokens"  # newer servers call it max_completion_tokens
    continuation: Continuation = CONTINUATIONS[0]
    path = "chat/completions"

    def body(self, ids: Sequence[int], new: int, top: int) -> dict[str, Any]:
        messages = self._messages(ids)
        continued: dict[str, Any] = {}
        if messages[-1]["content"]:
            continued = dict(self.continuation.body)
            messages[-1] = {**messages[-1], **self.continuation.message}
        else:
            messages.pop()
        return self._request(messages, new, top) | continued

    def prediction_body(self, ids: Sequence[int], top: int) -> dict[str, Any]:
        """A chat endpoint cannot predict the next token inside a message, so the model is asked for the next word."""
        if self.vocabulary.answer_id in ids:
            return self.body(ids, 1, top)
        before = self._messages(ids)[-1]["content"]
        return self._request([{"role": "user", "content": NEXT_WORD + before}], 1, top)

    def _request(self, messages: list[dict[str, Any]], new: int, top: int) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": messages,
            self.limit: new,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": top,
        }

    def _messages(self, ids: Sequence[int]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        for i in ids:
            if i in self.vocabulary.roles:
                messages.append({"role": self.vocabulary.roles[i], "content": ""})
            else:
                messages[-1]["content"] += self.vocabulary.decode([i])
        return messages


@dataclass(frozen=True)
class Endpoint:
    """One endpoint: the format of its requests, its vocabulary and its scorer."""

    request_format: RequestFormat
    vocabulary: Vocabulary
    scorer: Scorer
    sends_ids: bool = False  # prompts are ids; otherwise text, in which the server finds control tokens


def make_completion_endpoint(
    client: Client, server: ServerInfo, capabilities: CompletionCapabilities, codec: LocalCodec | None
) -> Endpoint:
    """The endpoint for completions, with the best vocabulary that is available."""
    if codec is not None:
        vocabulary = TokenVocabulary(codec, f"of the tokenizer {client.options.tokenizer}")
    elif server.tokenizes:
        list_vocabulary = _vocabulary_request(client, server, capabilities)
        vocabulary = TokenVocabulary(ServerCodec(client, server.model, list_vocabulary), "of the server")
    else:
        return _make_text_endpoint(client, server, capabilities)
    extra = {"return_tokens_as_token_ids": True} if capabilities.reports_ids_on_request else {}
    request_format = CompletionFormat(server.model, vocabulary, capabilities.accepts_ids, extra)
    top = capabilities.top
    if not capabilities.echo:
        scorer: Scorer = NextTokenScorer(client, request_format, vocabulary, top, capabilities.bias)
    else:
        parameter = capabilities.echo if capabilities.accepts_ids else "echo"
        scorer = EchoScorer(client, request_format, vocabulary, parameter, top)
    return Endpoint(request_format, vocabulary, scorer, sends_ids=capabilities.accepts_ids)


def _make_text_endpoint(client: Client, server: ServerInfo, capabilities: CompletionCapabilities) -> Endpoint:
    """Completions of pieces of text: the server's own tokens if it echoes them, otherwise words."""

    def split(text: str) -> Sequence[Span]:
        return scorer.split_text(text) if isinstance(scorer, EchoScorer) else split_words(text)

    def split_target(ids: Sequence[int], target: str) -> Sequence[str]:
        if isinstance(scorer, NextTokenScorer):
            return _split_by_listed_tokens(scorer, vocabulary, target, ids)
        text, begin = vocabulary.decode(ids) + target, len(vocabulary.decode(ids))
        return [text[max(a, begin) : b] for a, b in scorer.split_text(text) if b > begin]

    vocabulary = TextVocabulary(split, split_target, "of the server, by their text" if capabilities.echo else WORDS)
    request_format = CompletionFormat(server.model, vocabulary, sends_ids=False)
    scorer = (
        EchoScorer(client, request_format, vocabulary, "echo", capabilities.top)
        if capabilities.echo
        else NextTokenScorer(client, request_format, vocabulary, capabilities.top)
    )
    if not capabilities.echo:
        logger.info("%s does not report its tokens: words are explained; give a tokenizer", client.address.root)
    return Endpoint(request_format, vocabulary, scorer)


def make_chat_endpoint(client: Client, server: ServerInfo, codec: LocalCodec | None) -> Endpoint:
    """The endpoint for chats: pieces of text in messages."""
    capabilities = detect_chat(client, server.model)
    if capabilities is None:
        raise ServerError(
            f"{client.address.api} returns no log-probabilities, neither for completions nor for chats, and an "
            "explanation requires them: enable `logprobs` on the server, or compare its answers with score='text' "
            "(--score text)"
        )
    tokenizer = codec if codec is not None else ServerCodec(client, server.model) if server.tokenizes else None

    def split(text: str) -> Sequence[Span]:
        return (
            split_words(text)
            if tokenizer is None
            else [s for s in tokenizer.encode(text, special=False)[1] if s[0] < s[1]]
        )

    def split_target(ids: Sequence[int], target: str) -> Sequence[str]:
        return _split_by_listed_tokens(scorer, vocabulary, target, ids)

    description = WORDS if tokenizer is None else "pieces of text, as the tokenizer cuts them"
    vocabulary = TextVocabulary(split, split_target, description, restores_spaces=True)
    request_format = ChatFormat(server.model, vocabulary, capabilities.limit, capabilities.continuation)
    kind = NextTokenScorer if capabilities.continues else GreedyScorer
    scorer = kind(client, request_format, vocabulary, capabilities.top)
    return Endpoint(request_format, vocabulary, scorer)


def _split_by_listed_tokens(
    scorer: NextTokenScorer | GreedyScorer, vocabulary: TextVocabulary, target: str, ids: Sequence[int]
) -> list[str]:
    """The target as tokens of the server: at each step the longest listed token that the rest begins with.

    If none is listed, the rest is split into words, which are then censored.
    """
    pieces: list[str] = []
    while rest := target[sum(map(len, pieces)) :]:
        context = [*ids, *(i for token in vocabulary.consecutive_tokens(pieces) for i in token.ids)]
        begins = [entry.text for entry in scorer.next_tokens(context) if entry.text and rest.startswith(entry.text)]
        if not begins:
            return pieces + [rest[a:b] for a, b in split_words(rest)]
        pieces.append(max(begins, key=len))
    return pieces


def _vocabulary_request(
    client: Client, server: ServerInfo, capabilities: CompletionCapabilities
) -> Callable[[], Sequence[TokenLogprob]] | None:
    """A function that requests the whole vocabulary; None if the server limits the number of listed tokens."""
    size = server.vocabulary
    if size is None or not capabilities.reports_ids or capabilities.top < client.options.top:
        return None

    def list_vocabulary() -> Sequence[TokenLogprob]:
        body = {"model": server.model, "prompt": "a", "max_tokens": 1, "temperature": 0, "logprobs": size}
        (response,) = client.request_all("completions", [body], parse_generated)
        return response.positions[0].top

    return list_vocabulary
