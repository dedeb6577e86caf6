"""What a server can do, found out with a few small requests and remembered for the run."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reagent.errors import InputError, ServerError, UnknownNameError
from reagent.models.http.client import Client, RequestRejectedError
from reagent.models.http.responses import Listed, Reply, read, read_with_logprobs
from reagent.models.http.tokenizers import read_tokens, tokenize_request

TEXT = "The sun rises in the east and sets in the"
QUESTION = "Which is larger, the sun or the moon?"
FEWER = (20, 5, 1)  # log-probabilities that a server may allow where it does not allow more
SAME = 0.3  # nats by which two answers to one question may differ: servers round, and batch
NOT_THERE = (404, 405, 501)
_SHOWN = 12  # models to name in an error


@dataclass(frozen=True)
class Server:
    """The model that is asked, and what the server tells about it."""

    model: str
    models: tuple[str, ...] = ()
    context: int | None = None  # tokens that it reads at most
    vocabulary: int | None = None  # how many tokens it knows
    ids: tuple[int, ...] = ()  # of TEXT, by its own /tokenize; none where it has none

    @property
    def tokenizes(self) -> bool:
        return bool(self.ids)


@dataclass(frozen=True)
class Completions:
    """What /completions can do."""

    top: int  # likeliest tokens that it lists, of those asked for
    echo: str = ""  # how it reports log-probabilities of the prompt: echo, prompt_logprobs, or not at all
    takes_ids: bool = False  # whether a prompt may be token ids, and means the same as the text
    misread: bool = False  # whether it takes them, but reads another text: they are of another tokenizer
    tells_ids: bool = False  # whether a reply tells the ids of its tokens
    names_ids: bool = False  # whether it does so when asked in vLLM's words
    bias: str = ""  # what logit_bias does: reports after it (biased), reports as before it (unbiased), nothing


@dataclass(frozen=True)
class Chatting:
    """What /chat/completions can do."""

    top: int
    continues: bool  # whether a message of the assistant that is begun is continued
    limit: str = "max_tokens"


def find_server(client: Client) -> Server:
    """Which model to ask: the one that was named, or the only one."""
    name = client.address.model
    try:
        listed = client.get("models")
        entries: dict[str, Mapping[str, Any]] = {str(entry["id"]): entry for entry in listed["data"]}
        names = {alias: entry for entry in entries.values() for alias in entry.get("aliases") or ()} | entries
    except RequestRejectedError as error:
        if error.status not in NOT_THERE:
            raise
        entries = names = {}
    except (KeyError, TypeError, AttributeError) as error:
        raise ServerError(f"{client.address.api} is no OpenAI-compatible API: its list of models is none") from error
    if name is None and len(entries) != 1:
        known = ", ".join([*list(entries)[:_SHOWN], *(["…"] if len(entries) > _SHOWN else [])])
        told = f"it has {known}" if entries else "it does not say which it has"
        raise InputError(f"name the model on this server, as {client.address.root}#NAME: {told}")
    if name is not None and names and name not in names:
        raise UnknownNameError(f"model on {client.address.root}", name, list(entries)[:_SHOWN])
    chosen = name or next(iter(entries))
    entry = names.get(chosen, {})
    meta = entry.get("meta") or {}
    return Server(
        model=chosen,
        models=tuple(entries),
        context=entry.get("max_model_len") or meta.get("n_ctx"),
        vocabulary=meta.get("n_vocab"),
        ids=_ids_of(client, chosen),
    )


def _ids_of(client: Client, model: str) -> tuple[int, ...]:
    try:
        data = client.post("/tokenize", tokenize_request(model, TEXT, True))
    except RequestRejectedError:
        return ()
    try:
        return tuple(token for token, _ in read_tokens(data))
    except ServerError:
        return ()


def find_completions(
    client: Client, model: str, ids: Sequence[int], id_of: Callable[[Listed], int | None], bias: bool
) -> Completions | None:
    """What /completions can do; None where there is none, or none that reports log-probabilities.

    `ids` are those of TEXT, by a tokenizer here or by the server; `id_of` is that tokenizer's word for a listed token.
    """
    body = {"model": model, "prompt": TEXT, "max_tokens": 1, "temperature": 0}
    found = _with_most_logprobs(client, "completions", body, lambda k: {"logprobs": k})
    if found is None:
        return None
    k, plain = found
    body |= {"logprobs": k}
    able = Completions(top=min(k, len(plain.places[0].top)), tells_ids=plain.places[0].top[0].id is not None)
    able = _find_echo(client, body, able)
    if ids:
        reply = _try(client, body | {"prompt": list(ids)})
        same = reply is not None and _close(reply.places[0].top, plain.places[0].top)
        able = replace(able, takes_ids=same, misread=reply is not None and not same)
    return replace(able, bias=_find_bias(client, body, plain, id_of)) if bias else able


def find_chat(client: Client, model: str) -> Chatting | None:
    """What /chat/completions can do; None where there is none, or none that reports log-probabilities."""
    question = {"role": "user", "content": QUESTION}
    body = {"model": model, "messages": [question], "temperature": 0, "logprobs": True}
    for limit in ("max_tokens", "max_completion_tokens"):
        path = "chat/completions"
        try:
            found = _with_most_logprobs(client, path, body | {limit: 2}, lambda k: {"top_logprobs": k})
        except RequestRejectedError as error:
            if limit in str(error) and limit == "max_tokens":
                continue
            raise
        if found is None:
            return None
        k, reply = found
        begun = {"role": "assistant", "content": reply.places[0].text}
        more = {"messages": [question, begun], "add_generation_prompt": False, "continue_final_message": True}
        again = _try(client, body | {limit: 1, "top_logprobs": k} | more, path)
        continues = len(reply.places) > 1 and again is not None and _close(again.places[0].top, reply.places[1].top)
        return Chatting(min(k, len(reply.places[0].top)), continues, limit)
    return None


def _with_most_logprobs(
    client: Client, path: str, body: Mapping[str, Any], wanted: Callable[[int], dict[str, Any]]
) -> tuple[int, Reply] | None:
    """Ask for as many log-probabilities as were chosen, and for fewer where that is refused."""
    refusal: RequestRejectedError | None = None
    for k in _fewer(client.connection.top):
        try:
            reply = read(client.post(path, {**body, **wanted(k)}))
        except RequestRejectedError as error:
            if error.status in NOT_THERE:
                if "model" in str(error).lower() and client.address.model:
                    raise InputError(f"{error} (the model asked for is {client.address.model!r})") from error
                return None
            if error.status in (401, 403) or error.status >= 429:
                raise
            refusal = error
            continue
        return (k, reply) if reply.places and reply.places[0].top else None
    assert refusal is not None
    raise refusal


def _fewer(top: int) -> Iterator[int]:
    yield top
    yield from (k for k in FEWER if k < top)


def _find_echo(client: Client, body: Mapping[str, Any], able: Completions) -> Completions:
    """Whether log-probabilities of the prompt are reported, and in which words they must be asked for."""
    extra = {"prompt_logprobs": 1, "return_tokens_as_token_ids": True}
    reply = _try(client, {**body, "echo": True, **extra}) or _try(client, {**body, "echo": True})
    if reply is None:
        return able
    last = reply.places[-1].top if reply.places else ()
    if not able.tells_ids and any(entry.id is not None for entry in last):
        # Listed by their text, tokens with one spelling are listed as one.
        able = replace(able, names_ids=True, top=min(int(body["logprobs"]), len(last)))
    if len(reply.prompt) > 1:
        return replace(able, echo="prompt_logprobs")
    told = sum(place.own is not None for place in reply.places)
    return replace(able, echo="echo" if told > 2 else "")


def _find_bias(client: Client, body: Mapping[str, Any], plain: Reply, id_of: Callable[[Listed], int | None]) -> str:
    """Raise the second of the list so far that it must be chosen, and look at what is reported of it."""
    top = plain.places[0].top
    if len(top) < 2 or (token := id_of(top[1])) is None:
        return ""
    lift = 2 + top[0].logprob - top[1].logprob
    reply = _try(client, {**body, "logit_bias": {str(token): lift}})
    if reply is None:
        return ""
    place = reply.places[0]
    listed = next((e for e in (*place.top, place.own) if e and (e.id, e.text) == (top[1].id, top[1].text)), None)
    if listed is None:
        return ""
    p = math.exp(top[1].logprob)
    raised = top[1].logprob + lift - math.log1p(p * math.expm1(lift))
    if abs(listed.logprob - raised) < SAME and raised - top[1].logprob > SAME:
        return "biased"
    chosen = place.own is not None and (place.own.id, place.own.text) == (top[1].id, top[1].text)
    return "unbiased" if chosen and abs(listed.logprob - top[1].logprob) < SAME else ""


def _try(client: Client, body: Mapping[str, Any], path: str = "completions") -> Reply | None:
    """The reply, or nothing where the server does not take this."""
    try:
        data = client.post(path, body)
    except RequestRejectedError:
        return None
    try:
        return read_with_logprobs(data)
    except ServerError:
        return None


def _close(one: Sequence[Listed], two: Sequence[Listed]) -> bool:
    """Whether two lists say the same of their likeliest tokens."""
    if not one or not two:
        return False
    return one[0].text == two[0].text and abs(one[0].logprob - two[0].logprob) < SAME
