"""The capabilities of a server, detected with a few small requests."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from reagent.errors import InputError, ServerError, UnknownNameError
from reagent.models.base import Meter
from reagent.models.http.client import Client, RequestRejectedError
from reagent.models.http.config import ServerAddress, ServerOptions
from reagent.models.http.responses import (
    LARGEST_ID,
    ParsedResponse,
    TokenLogprob,
    parse_generated,
    parse_response,
    visible,
)
from reagent.models.http.tokenizers import load_tokenizer, parse_tokens, tokenize_request

TEXT = "The sun rises in the east and sets in the"
QUESTION = "Which is larger, the sun or the moon?"
FEWER = (20, 5, 1)  # numbers of log-probabilities to try if the server rejects more
LARGEST_BIAS = 100.0  # the limit of OpenAI
TOLERANCE = 0.3  # nats by which two responses to one request may differ, because of rounding and batching
NOT_FOUND = (404, 405, 501)
_SHOWN = 12  # models to name in an error


@dataclass(frozen=True)
class ServerInfo:
    """The model on the server, and what the server reports about it."""

    model: str
    models: tuple[str, ...] = ()
    context: int | None = None  # the largest number of tokens
    vocabulary: int | None = None  # the number of tokens
    ids: tuple[int, ...] = ()  # of TEXT, from its /tokenize; empty without one

    @property
    def tokenizes(self) -> bool:
        return bool(self.ids)


@dataclass(frozen=True)
class CompletionCapabilities:
    """The capabilities of /completions."""

    top: int  # how many of the requested likeliest tokens it lists
    echo: str = ""  # how it reports log-probabilities of the prompt: echo, prompt_logprobs, or not at all
    accepts_ids: bool = False  # whether a prompt may be token ids, with the same result as the text
    wrong_tokenizer: bool = False  # whether ids are accepted with another result: another tokenizer
    reports_ids: bool = False  # whether a response has the ids of its tokens
    reports_ids_on_request: bool = False  # whether it does with vLLM's return_tokens_as_token_ids
    bias: str = ""  # whether reported values include a logit_bias (biased) or not (unbiased); empty if there is none


class Continuation(NamedTuple):
    """How a request asks for more of an unfinished answer: parameters of the body, and of the last message."""

    body: Mapping[str, Any]
    message: Mapping[str, Any]


CONTINUATIONS = (
    Continuation({"add_generation_prompt": False, "continue_final_message": True}, {}),  # vLLM
    Continuation({}, {}),  # servers that continue every unfinished answer
    Continuation({}, {"prefix": True}),  # DeepSeek, Mistral
)


@dataclass(frozen=True)
class ChatCapabilities:
    """The capabilities of /chat/completions."""

    top: int
    continues: bool  # whether the server continues an unfinished message of the assistant
    limit: str = "max_tokens"
    continuation: Continuation = CONTINUATIONS[0]


def detect_server(client: Client) -> ServerInfo:
    """The model that was named, or the only one on the server."""
    name = client.address.model
    try:
        listed = client.get("models")
        entries: dict[str, Mapping[str, Any]] = {str(entry["id"]): dict(entry) for entry in listed["data"]}
        names = {str(alias): entry for entry in entries.values() for alias in entry.get("aliases") or ()} | entries
    except RequestRejectedError as error:
        if error.status not in NOT_FOUND:
            raise
        entries = names = {}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ServerError(
            f"{client.address.api} is not an OpenAI-compatible API: it returned no list of models"
        ) from error
    if name is None and len(entries) != 1:
        shown = ", ".join([*map(visible, list(entries)[:_SHOWN]), *(["…"] if len(entries) > _SHOWN else [])])
        available = f"it has {shown}" if entries else "it does not list its models"
        raise InputError(f"name the model on this server, as {client.address.root}#NAME: {available}")
    if name is not None and names and name not in names:
        raise UnknownNameError(
            f"model on {client.address.root}", name, [visible(known) for known in list(entries)[:_SHOWN]]
        )
    chosen = name or next(iter(entries))
    entry = names.get(chosen, {})
    meta = entry.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    return ServerInfo(
        model=chosen,
        models=tuple(entries),
        context=_size(entry.get("max_model_len")) or _size(meta.get("n_ctx")),
        vocabulary=_size(meta.get("n_vocab")),
        ids=_tokenize_text(client, chosen),
    )


def _size(value: Any) -> int | None:
    """A size that a server reports, if it is one."""
    is_size = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST_ID
    return value if is_size else None


def _tokenize_text(client: Client, model: str) -> tuple[int, ...]:
    try:
        data = client.post("/tokenize", tokenize_request(model, TEXT, True))
    except RequestRejectedError:
        return ()
    try:
        return tuple(token for token, _ in parse_tokens(data))
    except ServerError:
        return ()


def detect_completions(
    client: Client, model: str, ids: Sequence[int], id_of: Callable[[TokenLogprob], int | None], bias: bool
) -> CompletionCapabilities | None:
    """The capabilities of /completions; None if the server has no such endpoint, or one without log-probabilities.

    `ids` are those of TEXT, from a local tokenizer or from the server; `id_of` finds the id of a listed token.
    """
    body = {"model": model, "prompt": TEXT, "max_tokens": 1, "temperature": 0}
    first = _request_most_logprobs(client, "completions", body, lambda k: {"logprobs": k})
    if first is None:
        return None
    k, plain = first
    body |= {"logprobs": k}
    top = plain.positions[0].top
    capabilities = CompletionCapabilities(top=min(k, len(top)), reports_ids=top[0].id is not None)
    capabilities = _detect_echo(client, body, capabilities)
    if ids:
        response = _try(client, body | {"prompt": list(ids)})
        same = response is not None and _agree(response.positions[0].top, top)
        capabilities = replace(capabilities, accepts_ids=same, wrong_tokenizer=response is not None and not same)
    return replace(capabilities, bias=_detect_bias(client, body, plain, id_of)) if bias else capabilities


def detect_chat(client: Client, model: str) -> ChatCapabilities | None:
    """The capabilities of /chat/completions; None as in `detect_completions`."""
    question = {"role": "user", "content": QUESTION}
    body = {"model": model, "messages": [question], "temperature": 0, "logprobs": True}
    for limit in ("max_tokens", "max_completion_tokens"):
        path = "chat/completions"
        try:
            result = _request_most_logprobs(client, path, body | {limit: 2}, lambda k: {"top_logprobs": k})
        except RequestRejectedError as error:
            if limit in str(error) and limit == "max_tokens":
                continue
            raise
        if result is None:
            return None
        k, response = result
        first, *later = response.positions
        top = min(k, len(first.top))
        for continuation in CONTINUATIONS if later else ():
            unfinished = {"role": "assistant", "content": first.text, **continuation.message}
            more = {"messages": [question, unfinished], **continuation.body, limit: 1, "top_logprobs": k}
            again = _try(client, body | more, path)
            if again is not None and _agree(again.positions[0].top, later[0].top):
                return ChatCapabilities(top, True, limit, continuation)
        return ChatCapabilities(top, False, limit)
    return None


def _request_most_logprobs(
    client: Client, path: str, body: Mapping[str, Any], parameters: Callable[[int], dict[str, Any]]
) -> tuple[int, ParsedResponse] | None:
    """Request `top` log-probabilities, and fewer if the server rejects that."""
    rejection: RequestRejectedError | None = None
    for k in _fewer(client.options.top):
        try:
            response = parse_response(client.post(path, {**body, **parameters(k)}))
        except RequestRejectedError as error:
            if error.status in NOT_FOUND:
                if "model" in str(error).lower() and client.address.model:
                    raise InputError(f"{error} (the requested model is {client.address.model!r})") from error
                return None
            if error.status in (401, 403) or error.status >= 429:
                raise
            rejection = error
            continue
        return (k, response) if response.positions and response.positions[0].top else None
    assert rejection is not None
    raise rejection


def _fewer(top: int) -> Iterator[int]:
    yield top
    yield from (k for k in FEWER if k < top)


def _detect_echo(
    client: Client, body: Mapping[str, Any], capabilities: CompletionCapabilities
) -> CompletionCapabilities:
    """Whether log-probabilities of the prompt are reported, and which parameter requests them."""
    extra = {"prompt_logprobs": 1, "return_tokens_as_token_ids": True}
    response = _try(client, {**body, "echo": True, **extra}) or _try(client, {**body, "echo": True})
    if response is None:
        return capabilities
    last = response.positions[-1].top if response.positions else ()
    if not capabilities.reports_ids and any(entry.id is not None for entry in last):
        # Without ids, tokens with the same text are listed as one.
        capabilities = replace(capabilities, reports_ids_on_request=True, top=min(int(body["logprobs"]), len(last)))
    if len(response.prompt_positions) > 1:
        return replace(capabilities, echo="prompt_logprobs")
    reported = sum(position.actual is not None for position in response.positions)
    return replace(capabilities, echo="echo" if reported > 2 else "")


def _detect_bias(
    client: Client, body: Mapping[str, Any], plain: ParsedResponse, id_of: Callable[[TokenLogprob], int | None]
) -> str:
    """Raise the logit of the second token so far that it must be chosen, and compare its reported value."""
    top = plain.positions[0].top
    if len(top) < 2 or (token := id_of(top[1])) is None:
        return ""
    lift = 2 + top[0].logprob - top[1].logprob
    if lift > LARGEST_BIAS:
        return ""
    response = _try(client, {**body, "logit_bias": {str(token): lift}})
    if response is None:
        return ""
    position = response.positions[0]
    second = (top[1].id, top[1].text)
    listed = next((e for e in (*position.top, position.actual) if e and (e.id, e.text) == second), None)
    if listed is None:
        return ""
    p = math.exp(top[1].logprob)
    raised = top[1].logprob + lift - math.log1p(p * math.expm1(lift))
    if abs(listed.logprob - raised) < TOLERANCE and raised - top[1].logprob > TOLERANCE:
        return "biased"
    chosen = position.actual is not None and (position.actual.id, position.actual.text) == second
    return "unbiased" if chosen and abs(listed.logprob - top[1].logprob) < TOLERANCE else ""


def _try(client: Client, body: Mapping[str, Any], path: str = "completions") -> ParsedResponse | None:
    """The response, or None if the server rejects the request."""
    try:
        data = client.post(path, body)
    except RequestRejectedError:
        return None
    try:
        return parse_generated(data)
    except ServerError:
        return None


def _agree(one: Sequence[TokenLogprob], two: Sequence[TokenLogprob]) -> bool:
    """Whether two lists agree on their likeliest token."""
    if not one or not two:
        return False
    return one[0].text == two[0].text and abs(one[0].logprob - two[0].logprob) < TOLERANCE


# --- a readable summary: `reagent models inspect` ---

_ECHO = {
    "": "no: one request for each probe and target",
    "echo": "yes (echo): one request for each probe",
    "prompt_logprobs": "yes (prompt_logprobs, with ranks): one request for each probe",
}
_BIAS = {
    "": "no, or the ids of its tokens are not known",
    "biased": "yes, and reports log-probabilities after it",
    "unbiased": "yes, and reports log-probabilities as before it",
}
_TRIED_IDS = (10, 20, 30)  # exist in every vocabulary


def inspect_server(url: str, options: ServerOptions) -> list[tuple[str, str]]:
    """The capabilities of a server as pairs of a label and a text."""
    client = Client(ServerAddress.parse(url), options, Meter())
    codec = None if options.tokenizer is None else load_tokenizer(options.tokenizer)
    server = detect_server(client)
    ids = server.ids if codec is None else codec.encode(TEXT, special=True)[0]
    find_id = (lambda listed: listed.id) if codec is None else codec.find_id
    completions = detect_completions(client, server.model, ids or _TRIED_IDS, find_id, bias=True)
    chat = detect_chat(client, server.model)
    client.close()
    return [
        ("server", client.address.api),
        ("model", visible(server.model)),
        *(
            [("other models", ", ".join(visible(m) for m in server.models if m != server.model))]
            if len(server.models) > 1
            else []
        ),
        ("context", "not reported" if server.context is None else f"{server.context:,} tokens"),
        ("tokens (/tokenize)", "yes" if server.tokenizes else "no: give a tokenizer, or words are explained"),
        *_describe_completions(server, completions),
        *_describe_chat(chat),
    ]


def _describe_completions(server: ServerInfo, capabilities: CompletionCapabilities | None) -> list[tuple[str, str]]:
    if capabilities is None:
        return [("completions", "no, or without log-probabilities")]
    ids = "yes" if capabilities.accepts_ids else "no"
    reported = "on request" if capabilities.reports_ids_on_request else "no"
    if capabilities.wrong_tokenizer:  # without a tokenizer, the tried ids are arbitrary
        ids = "yes, but of another tokenizer" if server.tokenizes else "yes"
    return [
        ("completions", "yes"),
        ("prompt log-probabilities", _ECHO[capabilities.echo]),
        ("prompts as token ids", ids),
        ("top log-probabilities", str(capabilities.top)),
        ("token ids in responses", "yes" if capabilities.reports_ids else reported),
        ("logit_bias", _BIAS[capabilities.bias]),
    ]


def _describe_chat(capabilities: ChatCapabilities | None) -> list[tuple[str, str]]:
    if capabilities is None:
        return [("chat", "no, or without log-probabilities")]
    limit = (
        "continues an unfinished answer"
        if capabilities.continues
        else "scores an answer up to the first token that changes"
    )
    return [("chat", f"yes, top {capabilities.top}; {limit}")]
