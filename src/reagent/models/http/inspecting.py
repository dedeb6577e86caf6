"""What a server can do, for people."""

from reagent.models.base import Meter
from reagent.models.http.capabilities import (
    TEXT,
    Chatting,
    Completions,
    Server,
    find_chat,
    find_completions,
    find_server,
)
from reagent.models.http.client import Client
from reagent.models.http.config import Address, Connection
from reagent.models.http.tokenizers import load_tokenizer

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
_PROBED = (10, 20, 30)  # token ids that every vocabulary has


def inspect(url: str, connection: Connection) -> list[tuple[str, str]]:
    """Pairs of what was asked and what was found."""
    client = Client(Address.of(url), connection, Meter())
    codec = None if connection.tokenizer is None else load_tokenizer(connection.tokenizer)
    server = find_server(client)
    ids = server.ids if codec is None else codec.encode(TEXT, special=True)[0]
    learn = (lambda listed: listed.id) if codec is None else codec.learn
    completions = find_completions(client, server.model, ids or _PROBED, learn, bias=True)
    chat = find_chat(client, server.model)
    client.close()
    return [
        ("server", client.address.api),
        ("model", server.model),
        *(
            [("other models", ", ".join(m for m in server.models if m != server.model))]
            if len(server.models) > 1
            else []
        ),
        ("context", "not told" if server.context is None else f"{server.context:,} tokens"),
        ("tokens (/tokenize)", "yes" if server.tokenizes else "no: --tokenizer names one, else words are explained"),
        *_of_completions(server, completions),
        *_of_chat(chat),
    ]


def _of_completions(server: Server, able: Completions | None) -> list[tuple[str, str]]:
    if able is None:
        return [("completions", "no, or without log-probabilities")]
    known = "yes" if able.takes_ids else "no"
    if able.misread:  # without a tokenizer, the ids that were tried spell nothing
        known = "yes, but of another tokenizer" if server.tokenizes else "yes"
    return [
        ("completions", "yes"),
        ("prompt log-probabilities", _ECHO[able.echo]),
        ("prompts as token ids", known),
        ("top log-probabilities", str(able.top)),
        ("token ids in replies", "yes" if able.tells_ids else "on request" if able.names_ids else "no"),
        ("logit_bias", _BIAS[able.bias]),
    ]


def _of_chat(able: Chatting | None) -> list[tuple[str, str]]:
    if able is None:
        return [("chat", "no, or without log-probabilities")]
    begun = "continues an answer that is begun" if able.continues else "only the first token of an answer can be scored"
    return [("chat", f"yes, top {able.top}; {begun}")]
