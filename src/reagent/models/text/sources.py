"""Where the answers of a text-only model come from: a Python function, a server, or any other model."""

import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from reagent.errors import CapabilityError, EmptyGenerationError, InputError, ReagentError, ServerError
from reagent.models.base import HasChatTemplate, Meter, Model
from reagent.models.chat import Chat
from reagent.models.http.capabilities import CONTINUATIONS, NOT_FOUND, QUESTION, Continuation, detect_server
from reagent.models.http.client import Client, RequestRejectedError
from reagent.models.http.config import ServerAddress, ServerOptions
from reagent.models.http.responses import parse_response
from reagent.models.text.similarity import normalize

logger = logging.getLogger(__name__)

LIMITS = ("max_tokens", "max_completion_tokens")  # newer servers know only the second one
NO_CONTINUATION = "a function does not continue an answer: leave out `parts`, or give an AnswerSource"
COMPARED = 8  # characters of a continued answer that must be those of the answer itself


class Request(NamedTuple):
    """A prompt to answer; further samples of one prompt have the numbers 1, 2, …

    An answer may have begun already (`parts` of `TextOptions`): then only what follows is asked for.
    """

    prompt: str | Chat
    max_new_tokens: int
    sample: int = 0
    begin: str = ""


@runtime_checkable
class AnswerSource(Protocol):
    """Answers prompts with text."""

    meter: Meter

    @property
    def at_once(self) -> int:
        """The number of requests in one call. If one of them fails, the answers of its call are lost."""
        ...

    @property
    def info(self) -> Mapping[str, Any]:
        """Provenance: id, revision, dtype, backend."""
        ...

    def answer(self, requests: Sequence[Request]) -> list[str]:
        """The answers to some requests, in order. Samples of one prompt are drawn independently."""
        ...


class FunctionSource:
    """A Python function from a prompt to an answer; it gets a chat as a list of messages."""

    at_once = 1

    def __init__(self, function: Callable[[Any], str]) -> None:
        self.function, self.meter = function, Meter()

    @property
    def info(self) -> Mapping[str, Any]:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return {"id": f"python:{name}", "revision": None, "dtype": None, "backend": "python function"}

    def answer(self, requests: Sequence[Request]) -> list[str]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> str:
        if request.begin:
            raise InputError(NO_CONTINUATION)
        self.meter.requests += 1
        prompt = request.prompt
        try:
            text = self.function(prompt if isinstance(prompt, str) else [dict(message) for message in prompt])
        except ReagentError:
            raise
        except Exception as error:  # the user's code
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ServerError(f"the function {self.info['id']!r} failed on a prompt: {problem}") from error
        if not isinstance(text, str):
            raise InputError(f"the function must return a text, got a {type(text).__name__}")
        return text


class ModelSource:
    """The greedy answers of any other model."""

    at_once = 1

    def __init__(self, model: Model) -> None:
        self.model, self.meter = model, model.meter

    @property
    def info(self) -> Mapping[str, Any]:
        return self.model.info

    def answer(self, requests: Sequence[Request]) -> list[str]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> str:
        self.meter.requests += 1
        try:
            if isinstance(request.prompt, str):
                return self.model.case(request.prompt + request.begin, None, request.max_new_tokens).completion
            if request.begin:
                raise InputError("a chat with a model on this machine does not continue an answer: leave out `parts`")
            if not isinstance(self.model, HasChatTemplate):
                raise CapabilityError(f"the model {self.info['id']!r} has no chat template: give a text as the prompt")
            return self.model.chat(request.prompt, None, request.max_new_tokens).completion
        except EmptyGenerationError:
            return ""


class ServerSource:
    """A server with an OpenAI-compatible API. Texts are completed if it completes texts, otherwise they are chats."""

    at_once = 64  # the client keeps every response

    def __init__(self, url: str, options: ServerOptions, temperature: float) -> None:
        self.client = Client(ServerAddress.parse(url), options, Meter())
        self.meter, self.temperature = self.client.meter, temperature
        self.server = detect_server(self.client)
        self._completes: bool | None = None  # found out at the first text
        self._parameters: dict[str, Any] | None = None  # of a chat, found out at the first one
        self._continuation: Continuation | None = None  # of an answer in a chat, found out at the first one

    @property
    def info(self) -> Mapping[str, Any]:
        address = self.client.address.api.removesuffix("/v1")
        kind = "http" if self._completes else "http chat"
        return {
            "id": f"{address}#{self.server.model}",
            "revision": None,
            "dtype": None,
            "backend": f"{kind} (text only)",
        }

    def answer(self, requests: Sequence[Request]) -> list[str]:
        bodies: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        for i, request in enumerate(requests):
            path, body = self._request(request)
            bodies.setdefault(path, []).append((i, body))
        answers = [""] * len(requests)
        for path, numbered in bodies.items():
            responses = self.client.request_all(path, [body for _, body in numbered], parse_response)
            for (i, _), response in zip(numbered, responses, strict=True):
                answers[i] = response.text
        return answers

    def _request(self, request: Request) -> tuple[str, dict[str, Any]]:
        body: dict[str, Any] = {"model": self.server.model}
        if self.temperature > 0 or request.sample:
            begin = (request.begin,) if request.begin else ()
            body["seed"] = zlib.crc32(repr((request.prompt, request.sample, *begin)).encode()) % 2**31
        if isinstance(request.prompt, str) and self._completes_texts():
            body |= {"temperature": self.temperature, "max_tokens": request.max_new_tokens}
            return "completions", {**body, "prompt": request.prompt + request.begin}
        user = [{"role": "user", "content": request.prompt}]
        messages = user if isinstance(request.prompt, str) else [dict(message) for message in request.prompt]
        body |= self._chat_parameters(request.max_new_tokens)
        if not request.begin:
            return "chat/completions", {**body, "messages": messages}
        if self._continuation is None:
            self._continuation = self._detect_continuation()
        return "chat/completions", {**body, **_continued(messages, request.begin, self._continuation)}

    def _detect_continuation(self) -> Continuation:
        """How this server is asked to continue an answer: after half of its own answer it must give the rest."""
        asked = [{"role": "user", "content": QUESTION}]
        body = {"model": self.server.model, **self._chat_parameters(len(QUESTION))}
        own = parse_response(self.client.post("chat/completions", {**body, "messages": asked})).text
        half = own[: len(own) // 2]
        for continuation in CONTINUATIONS if half.strip() else ():
            try:
                data = self.client.post("chat/completions", {**body, **_continued(asked, half, continuation)})
            except RequestRejectedError as error:
                if error.status not in (400, 422):
                    raise
                continue
            rest = normalize(own[len(half) :])[:COMPARED]
            if rest and normalize(parse_response(data).text).startswith(rest):
                return continuation
        raise CapabilityError(f"{self.client.address.api} does not continue an unfinished answer: leave out `parts`")

    def _completes_texts(self) -> bool:
        if self._completes is None:
            body = {"model": self.server.model, "prompt": "The sun", "max_tokens": 1, "temperature": 0}
            self._completes = self._accepts("completions", body)
        return self._completes

    def _chat_parameters(self, max_new_tokens: int) -> dict[str, Any]:
        """The temperature, if the server takes one, and the largest number of new tokens under its name."""
        if self._parameters is None:
            body = {"model": self.server.model, "messages": [{"role": "user", "content": "Hello"}]}
            temperatures = [{"temperature": self.temperature}, {}]
            choices = [{**given, limit: 1} for given in temperatures for limit in LIMITS]
            accepted = (choice for choice in choices if self._accepts("chat/completions", {**body, **choice}))
            self._parameters = next(accepted, choices[0])
            if "temperature" not in self._parameters:
                self._note_temperature()
        return {name: value if name == "temperature" else max_new_tokens for name, value in self._parameters.items()}

    def _note_temperature(self) -> None:
        if self.temperature > 0:
            raise InputError(f"{self.client.address.api} refuses temperature {self.temperature:g}: leave it out")
        logger.warning(
            "%s refuses temperature 0 and samples its answers: give `answers` for the noise in standard errors",
            self.client.address.api,
        )

    def _accepts(self, path: str, body: dict[str, Any]) -> bool:
        try:
            self.client.post(path, body)
        except RequestRejectedError as error:
            if error.status in (*NOT_FOUND, 400, 422):
                return False
            raise
        return True


def _continued(messages: Sequence[Mapping[str, Any]], begin: str, continuation: Continuation) -> dict[str, Any]:
    """The part of a request that has the messages and the beginning of the answer."""
    answer = {"role": "assistant", "content": begin, **continuation.message}
    return {"messages": [*messages, answer], **continuation.body}
