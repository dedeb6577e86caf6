"""A model of which only probabilities are visible, behind an OpenAI-compatible API."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reagent.case import Case, Ids, TargetScores
from reagent.errors import EmptyGenerationError, InputError
from reagent.explanation import Message, Token
from reagent.models.base import Meter, Predictions
from reagent.models.cache import say
from reagent.models.chat import Chat, check_target, render
from reagent.models.http.capabilities import TEXT, Server, find_completions, find_server
from reagent.models.http.client import Client
from reagent.models.http.config import Address, Connection
from reagent.models.http.endpoints import Endpoint, chatting, completing
from reagent.models.http.forms import Conversation
from reagent.models.http.responses import read_with_logprobs
from reagent.models.http.scoring import EchoScorer, NextTokenScorer
from reagent.models.http.tokenizers import LocalCodec, load_tokenizer
from reagent.models.http.vocabulary import Pieces
from reagent.models.tokenization import read_chat
from reagent.segmentation import split_words

BETWEEN = "\n\n"  # the messages of a chat, in the text that is shown
_NEVER = -100.0  # log-probability of a proposal that is none
_SPARE = 4  # more predictions than were asked for, since special tokens go


def connect(url: str, connection: Connection) -> "HttpModel":
    """Find out what the server can do, and what its tokens are."""
    client = Client(Address.of(url), connection, Meter())
    codec = None if connection.tokenizer is None else load_tokenizer(connection.tokenizer)
    server = find_server(client)
    ids = list(server.ids) if codec is None else codec.encode(TEXT, special=True)[0]
    learn = (lambda listed: listed.id) if codec is None else codec.learn
    able = find_completions(client, server.model, ids, learn, bias=connection.recover)
    others = codec is not None and server.tokenizes and ids != list(server.ids)
    if others or (codec is not None and able is not None and able.misread):
        raise InputError(
            f"the tokenizer {connection.tokenizer!r} is not that of {server.model!r} on {client.address.root}: "
            "the server cuts text into other tokens; give the model's own"
        )
    if connection.recover and (able is None or not able.bias or (codec is None and not server.tokenizes)):
        raise InputError(
            f"{client.address.root} offers no way to recover exact values: it takes no logit_bias, or nobody tells "
            "the ids of its tokens; leave out recover, or give --tokenizer"
        )
    return HttpModel(client, server, codec, None if able is None else completing(client, server, able, codec))


class HttpModel:
    """Completions where the server has them; chats by the tokenizer's template, or else by the chat endpoint."""

    def __init__(self, client: Client, server: Server, codec: LocalCodec | None, text: Endpoint | None) -> None:
        self.client, self.server, self.codec, self.text = client, server, codec, text
        self.meter = client.meter
        self._chatting: Endpoint | None = None
        self._latest = text if text is not None else self._chat_part()

    @property
    def info(self) -> Mapping[str, Any]:
        way = self._latest.way
        how = f"{way.by} of the prompt" if isinstance(way, EchoScorer) else "next token"
        at = "http chat" if isinstance(self._latest.form, Conversation) else "http"
        known = {
            "id": f"{self.client.address.api.removesuffix('/v1')}#{self.server.model}",
            "revision": None,
            "dtype": None,
            "backend": f"{at} ({how})",
            "tokens": self._latest.vocabulary.about,
            "top_logprobs": way.top,
        }
        return known | ({"recover": True} if isinstance(way, NextTokenScorer) and way.bias else {})

    @property
    def ordinary_ids(self) -> Ids:
        return np.array(list(self._latest.vocabulary.ordinary), dtype=np.int64)

    @property
    def ordinary_texts(self) -> tuple[str, ...]:
        return tuple(self._latest.vocabulary.ordinary.values())

    # --- text to tokens ---

    def case(self, prompt: str, target: str | None = None, max_new_tokens: int = 10) -> Case:
        part, source, special = self._read(prompt)
        return self._case(part, prompt, source, special, target, max_new_tokens)

    def chat(self, messages: Chat, target: str | None = None, max_new_tokens: int = 10) -> Case:
        part, text, source, places, special = self._read_chat(messages, target)
        return replace(self._case(part, text, source, special, target, max_new_tokens), messages=places)

    def outline(self, prompt: str | Chat, target: str | None = None, max_new_tokens: int = 10) -> Case:
        """The case as far as it is known without a paid request: the output is as long as it may become."""
        if isinstance(prompt, str):
            text, (part, source, special) = prompt, self._read(prompt)
        else:
            part, text, source, _, special = self._read_chat(prompt, None)
        ids = [i for token in source for i in token.ids]
        if target is None:
            length = 1 if part.first_only else max_new_tokens
            return Case(text, "…" * length, source, tuple(Token((ids[-1],), "…", i, i + 1) for i in range(length)))
        if isinstance(part.vocabulary, Pieces):
            return Case(text, target, source, part.vocabulary.in_a_row([target[a:b] for a, b in split_words(target)]))
        return Case(text, target, source, part.vocabulary.read_target(text, ids, target, special))

    def _read(self, prompt: str) -> tuple[Endpoint, tuple[Token, ...], bool]:
        if not prompt.strip():
            raise InputError("the prompt is empty: give some text to explain")
        if self.text is None:  # a server that only chats: the prompt is what the user says
            part, _, source, _, special = self._read_chat([{"role": "user", "content": prompt}], None)
            return part, source, special
        self._latest = self.text
        return self.text, self.text.vocabulary.read(prompt), True

    def _read_chat(
        self, messages: Chat, target: str | None
    ) -> tuple[Endpoint, str, tuple[Token, ...], tuple[Message, ...], bool]:
        if self.text is not None and self.codec is not None and getattr(self.codec.tokenizer, "chat_template", None):
            text, places = render(self.codec.tokenizer, messages, self.server.model)
            if target is not None:
                check_target(self.codec.tokenizer, messages, target, self.server.model)
            self._latest = self.text
            return self.text, text, read_chat(self.codec, text, places), places, False
        part = self._latest = self._chat_part()
        assert isinstance(part.vocabulary, Pieces)
        text, source, places = _as_pieces(part.vocabulary, messages)
        return part, text, source, places, False

    def _case(
        self, part: Endpoint, prompt: str, source: tuple[Token, ...], special: bool, target: str | None, new: int
    ) -> Case:
        ids = [i for token in source for i in token.ids]
        if target is not None:
            self._check_length(len(ids), "the target")
            output = part.vocabulary.read_target(prompt, ids, target, special)
            if part.first_only and len(output) > 1:
                raise InputError(
                    f"this chat endpoint does not continue an answer that is begun, so that only the first token of "
                    f"one can be asked for: give {output[0].text!r} alone as --target, not {target!r}"
                )
            return Case(prompt, target, source, output)
        if part.first_only and new > 1:
            say("this chat endpoint does not continue an answer that is begun: only its first token is explained")
            new = 1
        self._check_length(len(ids) + new, f"{new} new tokens")
        body = part.form.body(ids, new, 1)
        (reply,) = self.client.ask(part.form.path, [body], read_with_logprobs)
        completion, output = part.vocabulary.follow(prompt, ids, reply, special)
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

    def remember(self, text: str) -> None:
        """Know pieces of a text again by their ids: those of an output that another run has explained."""
        for part in (self.text, self._chatting):
            if part is not None and isinstance(part.vocabulary, Pieces):
                part.vocabulary.remember(text)

    # --- questions to the server ---

    def score(self, sequences: Ids, positions: Ids, targets: Ids) -> TargetScores:
        return self._part_of(sequences[0]).way.score(sequences, positions, targets)

    def predict(self, sequence: Ids, k: int) -> Predictions:
        part, ids = self._part_of(sequence), tuple(sequence.tolist())
        # What is missing is filled with the original, which never stands in for itself.
        best = np.repeat(sequence[1:, None], k, axis=1)
        logprob = np.full(best.shape, _NEVER)
        for row, top in enumerate(part.way.likeliest(ids, k + _SPARE)):
            known: dict[int, float] = {}
            for entry in top:
                token = part.vocabulary.id_of(entry, ids[row + 1])
                if token is not None:
                    known.setdefault(token, entry.logprob)
            for column, (token, p) in enumerate(list(known.items())[:k]):
                best[row, column], logprob[row, column] = token, p
        return Predictions(best, logprob)

    def _part_of(self, ids: Ids) -> Endpoint:
        """A chat begins with a role."""
        chat = self._chatting
        if chat is not None and isinstance(chat.vocabulary, Pieces) and int(ids[0]) in chat.vocabulary.roles:
            return chat
        assert self.text is not None
        return self.text

    def _chat_part(self) -> Endpoint:
        if self._chatting is None:
            self._chatting = chatting(self.client, self.server, self.codec)
        return self._chatting


def _as_pieces(pieces: Pieces, messages: Chat) -> tuple[str, tuple[Token, ...], tuple[Message, ...]]:
    """A chat as one text, its tokens, and where each message stands; every message begins with its role."""
    text, tokens, places = "", [], []
    for message in messages:
        between = BETWEEN if text else ""
        tokens.append(pieces.role(message["role"], between, len(text)))
        start = len(text + between)
        tokens += [replace(t, start=t.start + start, end=t.end + start) for t in pieces.read(message["content"])]
        text += between + message["content"]
        places.append(Message(message["role"], start, len(text)))
    tokens.append(pieces.role("assistant", "", len(text), pieces.answer))
    return text, tuple(tokens), tuple(places)
