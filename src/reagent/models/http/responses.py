"""Responses of servers: the different formats of log-probabilities, parsed into one.

completions      {"tokens": […], "token_logprobs": […], "top_logprobs": [{text: logprob}, …], "text_offset": […]}
chat, llama.cpp  {"content": [{"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", …}]}]}
vLLM             "prompt_logprobs": [null, {id: {"logprob", "rank", "decoded_token"}}, …]
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from reagent.errors import ServerError

UNLIKELY = -9999.0  # OpenAI and vLLM write it for "too unlikely to be reported"
LARGEST_ID = 2**31 - 1
_LARGEST_SHOWN = 1e15
_AS_ID = "token_id:"
T = TypeVar("T")


class TokenLogprob(NamedTuple):
    """A token and its log-probability; with its id and its bytes if the server reports them."""

    text: str
    logprob: float
    id: int | None = None
    raw: bytes | None = None

    @property
    def is_special(self) -> bool:
        """llama.cpp reports an empty text for a special token; most other servers report its name."""
        return not self.text and self.raw == b""


class PositionLogprobs(NamedTuple):
    """One position: the token there, and the likeliest tokens, best first."""

    text: str
    actual: TokenLogprob | None  # the token there; None without a log-probability, as for the first token of a text
    top: tuple[TokenLogprob, ...]
    offset: int = 0  # of its first character
    rank: int | None = None  # of the token there, if the server reports it


class ParsedResponse(NamedTuple):
    """The text of a response, its positions in order, and the positions of the prompt if they are listed separately."""

    text: str
    positions: tuple[PositionLogprobs, ...]
    prompt_positions: tuple[PositionLogprobs, ...] = ()


def parse_response(data: Any) -> ParsedResponse:
    """Parse a response with exactly one choice; anything else is an error."""
    try:
        choices = _as(list, data["choices"])
        if len(choices) != 1:
            raise ServerError(f"the server returned {len(choices)} choices where 1 was requested")
        choice = choices[0]
        text = choice["message"].get("content") if "message" in choice else choice["text"]
        prompt = choice.get("prompt_logprobs") or data.get("prompt_logprobs") or []
        positions = _parse_positions(choice.get("logprobs"))
        listed = tuple(map(_parse_prompt_position, _as(list, prompt)))
        return ParsedResponse("" if text is None else _as(str, text), positions, listed)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        reason = visible(repr(error))[:200]
        raise ServerError(f"the response of the server is not that of an OpenAI-compatible API ({reason})") from error


def parse_with_logprobs(data: Any) -> ParsedResponse:
    """Parse a response that must have log-probabilities."""
    response = parse_response(data)
    if not any(p.top or p.actual for p in (*response.positions, *response.prompt_positions)):
        raise ServerError("the server returned no log-probabilities, which were requested: it may not support them")
    return response


def parse_generated(data: Any) -> ParsedResponse:
    """Parse a response that must have a generated token with log-probabilities."""
    response = parse_with_logprobs(data)
    if not response.positions:
        raise ServerError("the server returned no log-probabilities of the generated token, which were requested")
    return response


def visible(text: str) -> str:
    """A text of a server in one line, without characters that a terminal obeys.

    >>> visible("a\\x1b[31m b\\n")
    'a?[31m b'
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def _as(kind: type[T], value: Any) -> T:
    """The value, if it is of this type; a bool is no number."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{kind.__name__} expected, got {type(value).__name__}")
    return value


def _as_number(value: Any) -> float:
    return value if type(value) is float else _as(int, value)


def as_count(value: Any, most: int = LARGEST_ID) -> int:
    """A whole number from 0 to `most`."""
    if not 0 <= _as(int, value) <= most:
        raise ValueError("a number is negative or too large")
    return int(value)


def as_bytes(values: Any) -> bytes:
    """Bytes from a list of numbers; a number alone would be the size of what is allocated."""
    return bytes(_as(list, values))


def _parse_positions(logprobs: Any) -> tuple[PositionLogprobs, ...]:
    if logprobs is None:
        return ()
    if logprobs.get("content") is not None:
        return tuple(_parse_content(entry) for entry in _as(list, logprobs["content"]))
    tokens = [_as(str, token) for token in _as(list, logprobs.get("tokens") or [])]
    tops = _as(list, logprobs.get("top_logprobs") or [None] * len(tokens))
    offsets = [as_count(offset) for offset in _as(list, logprobs.get("text_offset") or _offsets(tokens))]
    return (
        tuple(
            PositionLogprobs(
                token, _check_token(token, p), _sort(_check_token(t, q) for t, q in (top or {}).items()), offset
            )
            for token, p, top, offset in zip(tokens, _as(list, logprobs["token_logprobs"]), tops, offsets, strict=True)
        )
        if tokens
        else ()
    )


def _parse_content(entry: Mapping[str, Any]) -> PositionLogprobs:
    def parse_listed(e: Mapping[str, Any]) -> TokenLogprob | None:
        return _check_token(e["token"], e["logprob"], e.get("id"), e.get("bytes"))

    return PositionLogprobs(
        _as(str, entry["token"]), parse_listed(entry), _sort(map(parse_listed, entry.get("top_logprobs") or ()))
    )


def _parse_prompt_position(entries: Mapping[str, Any] | None) -> PositionLogprobs:
    """A position of vLLM's prompt_logprobs; the token of the prompt comes first."""
    listed = [_check_token(e.get("decoded_token") or "", e["logprob"], int(i)) for i, e in (entries or {}).items()]
    if not entries:
        return PositionLogprobs("", None, ())
    first = next(iter(entries.values()))
    rank = first.get("rank")
    return PositionLogprobs(
        first.get("decoded_token") or "",
        listed[0],
        _sort(listed),
        rank=None if rank is None else as_count(_as(int, rank) - 1),
    )


def _check_token(token: Any, logprob: Any, identity: Any = None, raw: Any = None) -> TokenLogprob | None:
    """A token with its checked log-probability; None if it has none."""
    if logprob is None or _as_number(logprob) <= UNLIKELY:
        return None
    if logprob != logprob or logprob > 0.01:
        shown = "a huge number" if logprob > _LARGEST_SHOWN else logprob
        raise ServerError(f"the server returned {shown} as a log-probability: the server or its model is faulty")
    if _as(str, token).startswith(_AS_ID) and token[len(_AS_ID) :].isdecimal():  # vLLM: return_tokens_as_token_ids
        token, identity = "", int(token[len(_AS_ID) :])
    identity = None if identity is None else as_count(identity)
    return TokenLogprob(token, min(0.0, float(logprob)), identity, None if raw is None else as_bytes(raw))


def _sort(listed: Iterable[TokenLogprob | None]) -> tuple[TokenLogprob, ...]:
    return tuple(sorted((entry for entry in listed if entry is not None), key=lambda entry: -entry.logprob))


def _offsets(tokens: Sequence[str]) -> list[int]:
    """Where each token begins if there are no gaps between them."""
    offsets, end = [], 0
    for token in tokens:
        offsets.append(end)
        end += len(token)
    return offsets
