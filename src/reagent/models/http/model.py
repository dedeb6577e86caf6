"""A model behind an OpenAI-compatible API that returns only probabilities."""

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from reagent.case import Case, Ids, TargetScores
from reagent.errors import EmptyGenerationError, InputError, ServerError
from reagent.explanation import Message, Token
from reagent.models.base import Meter, Predictions
from reagent.models.chat import Chat, Tools, check_target, render_chat, uses_tools
from reagent.models.http.capabilities import TEXT, ServerInfo, detect_completions, detect_server
from reagent.models.http.client import Client
from reagent.models.http.config import ServerAddress, ServerOptions
from reagent.models.http.endpoints import ChatFormat, Endpoint, make_chat_endpoint, make_completion_endpoint
from reagent.models.http.greedy import GreedyScorer
from reagent.models.http.responses import parse_generated
from reagent.models.http.scoring import EchoScorer, NextTokenScorer
from reagent.models.http.tokenizers import LocalCodec, load_tokenizer
from reagent.models.http.vocabulary import TextVocabulary, TokenVocabulary
from reagent.models.tokenization import find_control_tokens, read_as_text, tokenize_chat
from reagent.segmentation import split_words

logger = logging.getLogger(__name__)

SEPARATOR = "\n\n"  # between the messages of a chat, in the text that is shown
_IMPOSSIBLE = -100.0  # log-probability of a missing prediction
_SPARE = 4  # predictions requested in addition, since special tokens are dropped


def connect(url: str, options: ServerOptions) -> "HttpModel":
    """Detect the capabilities of the server, and choose the vocabulary."""
    client = Client(ServerAddress.parse(url), options, Meter())
    codec = None if options.tokenizer is None else load_tokenizer(options.tokenizer)
    server = detect_server(client)
    ids = list(server.ids) if codec is None else codec.encode(TEXT, special=True)[0]
    find_id = (lambda listed: listed.id) if codec is None else codec.find_id
    capabilities = detect_completions(client, server.model, ids, find_id, bias=options.recover)
    wrong_ids = server.tokenizes and ids != list(server.ids)
    if codec is not None and (wrong_ids or (capabilities is not None and capabilities.wrong_tokenizer)):
        raise InputError(
            f"the tokenizer {options.tokenizer!r} is not that of {server.model!r} on {client.address.root}: "
            "the server splits text into other tokens; give the tokenizer of the model"
        )
    knows_ids = codec is not None or server.tokenizes
    if options.recover and (capabilities is None or not capabilities.bias or not knows_ids):
        raise InputError(
            f"{client.address.root} cannot recover exact values: it takes no logit_bias, or the ids of its tokens "
            "are not known; leave out `recover`, or give `tokenizer`"
        )
    completions = None if capabilities is None else make_completion_endpoint(client, server, capabilities, codec)
    return HttpModel(client, server, codec, completions)


class HttpModel:
    """A model on a server: completions if the server has them, chats by the chat template or by the chat endpoint."""

    def __init__(
        self, client: Client, server: ServerInfo, codec: LocalCodec | None, completions: Endpoint | None
    ) -> None:
        self.client, self.server, self.codec, self.completions = client, server, codec, completions
        self.meter = client.meter
        self._keeps_control_tokens = True
        self._chats: Endpoint | None = None
        self._latest = completions if completions is not None else self._chat_endpoint()

    @property
    def info(self) -> Mapping[str, Any]:
        scorer = self._latest.scorer
        how = f"{scorer.parameter} of the prompt" if isinstance(scorer, EchoScorer) else "next token"
        how = "greedy answer" if isinstance(scorer, GreedyScorer) else how
        at = "http chat" if isinstance(self._latest.request_format, ChatFormat) else "http"
        info = {
            "id": f"{self.client.address.api.removesuffix('/v1')}#{self.server.model}",
            "revision": None,
            "dtype": None,
            "backend": f"{at} ({how})",
            "tokens": self._latest.vocabulary.description,
            "top_logprobs": scorer.top,
        }
        return info | ({"recover": True} if isinstance(scorer, NextTokenScorer) and scorer.bias else {})

    @property
    def ordinary_ids(self) -> Ids:
        return np.array(list(self._latest.vocabulary.ordinary), dtype=np.int64)

    @property
    def ordinary_texts(self) -> tuple[str, ...]:
        return tuple(self._latest.vocabulary.ordinary.values())

    def find_control_tokens(self, tokens: Sequence[Token], messages: Sequence[Message] = ()) -> list[int]:
        vocabulary = self._latest.vocabulary
        return (
            find_control_tokens(vocabulary.codec, tokens, messages) if isinstance(vocabulary, TokenVocabulary) else []
        )

    def without_control_tokens(self) -> "HttpModel":
        model = copy(self)
        model._keeps_control_tokens = False
        return model

    def _as_asked(
        self, endpoint: Endpoint, tokens: tuple[Token, ...], messages: Sequence[Message] = ()
    ) -> tuple[Token, ...]:
        """The tokens of a text with its control tokens, or without them."""
        vocabulary = endpoint.vocabulary
        if self._keeps_control_tokens or not isinstance(vocabulary, TokenVocabulary):
            return tokens
        read = read_as_text(vocabulary.codec, tokens, messages)
        if read != tokens and not endpoint.sends_ids:
            raise InputError(
                "control tokens cannot be read as text: this server takes prompts as text only, in which it finds them "
                "again; leave out `control_tokens`, or write them in another way"
            )
        return read

    # --- text to tokens ---

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        endpoint, source, special = self._tokenize(prompt)
        return self._case(endpoint, prompt, source, special, target, max_new_tokens)

    def chat(self, messages: Chat, target: str | None = None, max_new_tokens: int = 10, tools: Tools = ()) -> Case:
        endpoint, text, source, rendered, special = self._tokenize_chat(messages, target, tools)
        return replace(self._case(endpoint, text, source, special, target, max_new_tokens), messages=rendered)

    def preview_case(
        self, prompt: str | Chat, target: str | None = None, max_new_tokens: int = 10, tools: Tools = ()
    ) -> Case:
        """The case without a generation request: the output has its largest possible length."""
        if isinstance(prompt, str):
            text, (endpoint, source, special) = prompt, self._tokenize(prompt)
        else:
            endpoint, text, source, _, special = self._tokenize_chat(prompt, None, tools)
        ids = [i for token in source for i in token.ids]
        if target is None:
            output = tuple(Token((ids[-1],), "…", i, i + 1) for i in range(max_new_tokens))
            return Case(text, "…" * max_new_tokens, source, output)
        if isinstance(endpoint.vocabulary, TextVocabulary):
            return Case(
                text,
                target,
                source,
                endpoint.vocabulary.consecutive_tokens([target[a:b] for a, b in split_words(target)]),
            )
        return Case(text, target, source, endpoint.vocabulary.tokenize_target(text, ids, target, special))

    def _tokenize(self, prompt: str) -> tuple[Endpoint, tuple[Token, ...], bool]:
        if not prompt.strip():
            raise InputError("the prompt is empty: give some text to explain")
        if self.completions is None:  # only chats: the prompt becomes a message of the user
            endpoint, _, source, _, special = self._tokenize_chat([{"role": "user", "content": prompt}], None)
            return endpoint, source, special
        self._latest = self.completions
        return self.completions, self._as_asked(self.completions, self.completions.vocabulary.tokenize(prompt)), True

    def _tokenize_chat(
        self, messages: Chat, target: str | None, tools: Tools = ()
    ) -> tuple[Endpoint, str, tuple[Token, ...], tuple[Message, ...], bool]:
        if (
            self.completions is not None
            and self.codec is not None
            and getattr(self.codec.tokenizer, "chat_template", None)
        ):
            text, rendered = render_chat(self.codec.tokenizer, messages, self.server.model, tools)
            if target is not None:
                check_target(self.codec.tokenizer, messages, target, self.server.model, tools)
            self._latest = self.completions
            source = self._as_asked(self.completions, tokenize_chat(self.codec, text, rendered), rendered)
            return self.completions, text, source, rendered, False
        if uses_tools(messages, tools):
            raise InputError(
                "tools and their messages need the chat template of the model, which a chat endpoint does not show: "
                "give the `tokenizer` of a server that has a completions endpoint"
            )
        endpoint = self._latest = self._chat_endpoint()
        assert isinstance(endpoint.vocabulary, TextVocabulary)
        text, source, rendered = tokenize_messages(endpoint.vocabulary, messages)
        return endpoint, text, source, rendered, False

    def _case(
        self, endpoint: Endpoint, prompt: str, source: tuple[Token, ...], special: bool, target: str | None, new: int
    ) -> Case:
        ids = [i for token in source for i in token.ids]
        if target is not None:
            self._check_length(len(ids), "the target")
            output = self._as_asked(endpoint, endpoint.vocabulary.tokenize_target(prompt, ids, target, special))
            return Case(prompt, target, source, output)
        self._check_length(len(ids) + new, f"{new} new tokens")
        body = endpoint.request_format.body(ids, new, 1)
        (response,) = self.client.request_all(endpoint.request_format.path, [body], parse_generated)
        if len(response.positions) > new:
            raise ServerError(f"the server returned {len(response.positions)} tokens where {new} were requested")
        completion, output = endpoint.vocabulary.parse_continuation(prompt, ids, response, special)
        if not output:
            raise EmptyGenerationError
        return Case(prompt, completion, source, output)

    def _check_length(self, length: int, what: str) -> None:
        limit = self.server.context
        if limit is not None and length > limit:
            raise InputError(
                f"the prompt and {what} take {length} tokens, and {self.server.model!r} reads at most {limit}: "
                "shorten them"
            )

    def register_text(self, text: str) -> None:
        """Register the ids of all pieces of a text, such as the output of an explanation from a file."""
        for endpoint in (self.completions, self._chats):
            if endpoint is not None and isinstance(endpoint.vocabulary, TextVocabulary):
                endpoint.vocabulary.register_text(text)

    # --- scores and predictions ---

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        return self.score_ragged(list(sequences), np.tile(positions, (len(sequences), 1)), targets)

    def score_again(self, repetition: int, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        with self.client.repeating(repetition):
            return self.score(sequences, positions, targets)

    def score_ragged(self, sequences: Sequence[Ids], positions: Ids, targets: Ids) -> TargetScores:
        return self._endpoint_of(sequences[0]).scorer.score(sequences, positions, targets)

    def predict(self, sequence: Ids, k: int) -> Predictions:
        endpoint, ids = self._endpoint_of(sequence), tuple(sequence.tolist())
        # Missing predictions are filled with the original token, which is never its own replacement.
        best = np.repeat(sequence[1:, None], k, axis=1)
        logprob = np.full(best.shape, _IMPOSSIBLE)
        for row, top in enumerate(endpoint.scorer.predict(ids, k + _SPARE)):
            different: dict[int, float] = {}
            for entry in top:
                token = endpoint.vocabulary.replacement_id(entry, ids[row + 1])
                if token is not None:
                    different.setdefault(token, entry.logprob)
            for column, (token, p) in enumerate(list(different.items())[:k]):
                best[row, column], logprob[row, column] = token, p
        return Predictions(best, logprob)

    def _endpoint_of(self, ids: Ids) -> Endpoint:
        """The endpoint whose ids these are: a chat begins with a role."""
        chat = self._chats
        if chat is not None and isinstance(chat.vocabulary, TextVocabulary) and int(ids[0]) in chat.vocabulary.roles:
            return chat
        assert self.completions is not None
        return self.completions

    def _chat_endpoint(self) -> Endpoint:
        if self._chats is None:
            self._chats = make_chat_endpoint(self.client, self.server, self.codec)
        return self._chats


def tokenize_messages(vocabulary: TextVocabulary, messages: Chat) -> tuple[str, tuple[Token, ...], tuple[Message, ...]]:
    """A chat as one text, its tokens, and the span of each message; every message begins with its role."""
    text, tokens, rendered = "", [], []
    for message in messages:
        separator = SEPARATOR if text else ""
        tokens.append(vocabulary.role_token(message["role"], separator, len(text)))
        start = len(text + separator)
        tokens += [
            replace(t, start=t.start + start, end=t.end + start) for t in vocabulary.tokenize(message["content"])
        ]
        text += separator + message["content"]
        rendered.append(Message(message["role"], start, len(text)))
    tokens.append(vocabulary.role_token("assistant", "", len(text), vocabulary.answer_id))
    return text, tuple(tokens), tuple(rendered)
