"""The forms in which servers report log-probabilities, as one.

completions      {"tokens": […], "token_logprobs": […], "top_logprobs": [{text: logprob}, …], "text_offset": […]}
chat, llama.cpp  {"content": [{"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", …}]}]}
vLLM             "prompt_logprobs": [null, {id: {"logprob", "rank", "decoded_token"}}, …]
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from reagent.errors import ServerError

UNLIKELY = -9999.0  # what OpenAI and vLLM write for "below anything worth a number"
_AS_ID = "token_id:"


class Listed(NamedTuple):
    """A token and how likely it was; its id and its bytes are known where the server tells them."""

    text: str
    logprob: float
    id: int | None = None
    raw: bytes | None = None

    @property
    def is_special(self) -> bool:
        """llama.cpp writes nothing for a special token; most others write its name."""
        return not self.text and self.raw == b""


class Place(NamedTuple):
    """One position: the token that stands there, and the likeliest ones, best first."""

    text: str
    own: Listed | None  # None where its log-probability is not told, as of the very first token
    top: tuple[Listed, ...]
    offset: int = 0  # of its first character
    rank: int | None = None  # of the token that stands there, where the server tells it


class Reply(NamedTuple):
    """What a server said: its text, every position in order, and the prompt's positions where they are told apart."""

    text: str
    places: tuple[Place, ...]
    prompt: tuple[Place, ...] = ()


def read(data: Any) -> Reply:
    """The one choice that was asked for; anything else is an error in one line."""
    try:
        choices = data["choices"]
        if len(choices) != 1:
            raise ServerError(f"the server gave {len(choices)} choices where 1 was asked for")
        choice = choices[0]
        text = choice["message"].get("content") if "message" in choice else choice["text"]
        prompt = choice.get("prompt_logprobs") or data.get("prompt_logprobs") or ()
        return Reply(text or "", _places(choice.get("logprobs")), tuple(_of_prompt(entry) for entry in prompt))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ServerError(f"the server's reply has not the form of an OpenAI-compatible one ({error!r})") from error


def read_with_logprobs(data: Any) -> Reply:
    """The same, where log-probabilities were asked for."""
    reply = read(data)
    if not any(place.top or place.own for place in (*reply.places, *reply.prompt)):
        raise ServerError("the server gave no log-probabilities, which were asked for: it may not have them")
    return reply


def _places(logprobs: Any) -> tuple[Place, ...]:
    if logprobs is None:
        return ()
    if logprobs.get("content") is not None:
        return tuple(_of_content(entry) for entry in logprobs["content"])
    tokens = logprobs.get("tokens") or ()
    tops = logprobs.get("top_logprobs") or [None] * len(tokens)
    offsets = logprobs.get("text_offset") or _counted(tokens)
    return tuple(
        Place(token, _listed(token, p), _best(_listed(t, q) for t, q in (top or {}).items()), offset)
        for token, p, top, offset in zip(tokens, logprobs["token_logprobs"], tops, offsets, strict=True)
    )


def _of_content(entry: Mapping[str, Any]) -> Place:
    def listed(e: Mapping[str, Any]) -> Listed | None:
        return _listed(e["token"], e["logprob"], e.get("id"), e.get("bytes"))

    return Place(entry["token"], listed(entry), _best(map(listed, entry.get("top_logprobs") or ())))


def _of_prompt(entries: Mapping[str, Any] | None) -> Place:
    """A position of vLLM's prompt_logprobs; the token that stands there comes first."""
    listed = [_listed(e.get("decoded_token") or "", e["logprob"], int(i)) for i, e in (entries or {}).items()]
    if not entries:
        return Place("", None, ())
    first = next(iter(entries.values()))
    rank = first.get("rank")
    return Place(first.get("decoded_token") or "", listed[0], _best(listed), rank=None if rank is None else rank - 1)


def _listed(token: str, logprob: float | None, identity: int | None = None, raw: Any = None) -> Listed | None:
    """A token with its log-probability, checked; None where there is none."""
    if logprob is None or logprob <= UNLIKELY:
        return None
    if math.isnan(logprob) or logprob > 0.01:
        raise ServerError(f"the server gave {logprob} as a log-probability: something is wrong with it or its model")
    if token.startswith(_AS_ID) and token[len(_AS_ID) :].isdecimal():  # vLLM, asked to name tokens so
        token, identity = "", int(token[len(_AS_ID) :])
    return Listed(token, min(0.0, float(logprob)), identity, None if raw is None else bytes(raw))


def _best(listed: Iterable[Listed | None]) -> tuple[Listed, ...]:
    return tuple(sorted((entry for entry in listed if entry is not None), key=lambda entry: -entry.logprob))


def _counted(tokens: Sequence[str]) -> list[int]:
    """Where each token begins, if they follow each other without gaps."""
    offsets, end = [], 0
    for token in tokens:
        offsets.append(end)
        end += len(token)
    return offsets
