"""Attacks of a server on its client: each ends in a valid explanation or in one clear line.

`ATTACKS` has a function for each kind of attack, which draws its details from a random generator.
"""

import json
import math
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import numpy as np

import reagent
from hostile.scripted_server import Rejection, ScriptedServer, endless, gzip_bomb, running, trickle
from reagent.errors import ReagentError

Attack = Callable[[np.random.Generator], None]

PROMPT = "The moon rises in the east of Japan, and music is"
BRISK: dict[str, Any] = {"backoff": 0.001, "retries": 1, "timeout": 2.0, "deadline": 3.0, "megabytes": 1}
KINDS: tuple[dict[str, bool], ...] = (
    {"echo": True},
    {"echo": False},
    {"echo": True, "tokenizes": True},
    {"echo": False, "tokenizes": True},
    {"echo": False, "chats": True},
)


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


POISONS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, -1.5, 0.5, 2**31, -(2**63), 2**64, 10**400, -(10**400), math.nan, math.inf, -math.inf,
    "", "text", "3", "-0.5", "\x1b[31mred\x07", "\ud800", "a\ud800b", "\u202e", "\x00", "x" * 5000, " " * 50, "</s>",
    [], [[]], [None], {}, {"a": 1}, [1, 2, 3], ["a"] * 50, deep(50), -1000.0, "token_id:99999999999", "token_id:-1",
)  # fmt: skip


def assert_holds(server: ScriptedServer, **options: Any) -> None:
    """Explain by this server: a valid explanation, or one line."""
    with running(server) as url:
        try:
            model = reagent.load_model(url, **BRISK | options)
            prompt = [{"role": "user", "content": PROMPT}] if server.chats else PROMPT
            why = reagent.explain(model, prompt, max_new_tokens=2, probes=6)
        except ReagentError as raised:
            assert_one_line(str(raised))
            return
    again = reagent.Explanation.from_dict(json.loads(why.to_json()))
    assert again == why
    why.to_html()


def assert_one_line(message: str) -> None:
    assert message, "an empty message"
    assert message.isprintable(), f"not one printable line: {message!r}"
    assert len(message) < 2000, f"a message of {len(message)} characters"


def spoiling(rng: np.random.Generator, spoil: Callable[[Any], Any]) -> ScriptedServer:
    """A server of any kind that spoils some of its replies."""
    server = ScriptedServer(**KINDS[rng.integers(len(KINDS))])
    begin, share = int(rng.integers(0, 8)), rng.choice([0.1, 0.5, 1.0])
    own = np.random.default_rng(int(rng.integers(2**32)))

    def act(_path: str, reply: Any) -> Any:
        with server.lock:
            spoiled = len(server.paths) > begin and own.random() < share
        return spoil(reply) if spoiled else reply

    server.spoil = act
    return server


# --- replies of another form ---


def mutate(value: Any, rng: np.random.Generator) -> Any:
    """A copy of a JSON value that differs in one place."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[rng.integers(len(value))]
        rest = {name: inside for name, inside in value.items() if name != key}
        return rest if rng.random() < 0.1 else {**value, key: mutate(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        i = int(rng.integers(len(value)))
        change = rng.random()
        if change < 0.1:
            return value[:i] + value[i + 1 :]
        if change < 0.2:
            return value[: i + 1] + value[i:]
        return [*value[:i], mutate(value[i], rng), *value[i + 1 :]]
    return POISONS[rng.integers(len(POISONS))]


def mutated_replies(rng: np.random.Generator) -> None:
    own = np.random.default_rng(int(rng.integers(2**32)))
    assert_holds(spoiling(rng, lambda reply: mutate(reply, own)))


def logprobs_in(reply: Any) -> list[dict[str, Any]]:
    """The log-probabilities in the form of completions."""
    choices = reply.get("choices", []) if isinstance(reply, dict) else []
    return [choice["logprobs"] for choice in choices if "tokens" in choice["logprobs"]]


def exchanged_numbers(rng: np.random.Generator) -> None:
    """All log-probabilities become the same odd value."""
    poison = POISONS[rng.integers(len(POISONS))]

    def spoil(reply: Any) -> Any:
        for logprobs in logprobs_in(reply):
            logprobs["token_logprobs"] = [poison for _ in logprobs["token_logprobs"]]
            logprobs["top_logprobs"] = [top and dict.fromkeys(top, poison) for top in logprobs["top_logprobs"]]
        return reply

    assert_holds(spoiling(rng, spoil))


def other_pieces(rng: np.random.Generator) -> None:
    """Tokens that do not spell the prompt."""
    change = ("x", "", "\N{REPLACEMENT CHARACTER}", "upper", "reverse")[rng.integers(5)]

    def spoil(reply: Any) -> Any:
        for logprobs in logprobs_in(reply):
            tokens = logprobs["tokens"]
            other = {"upper": [token.upper() for token in tokens], "reverse": tokens[::-1]}
            logprobs["tokens"] = other.get(change, [change] * len(tokens))
        return reply

    assert_holds(spoiling(rng, spoil))


# --- bytes that are no reply ---


def broken_bytes(rng: np.random.Generator) -> None:
    own = np.random.default_rng(int(rng.integers(2**32)))

    def spoil(reply: Any) -> bytes:
        data = bytearray(json.dumps(reply).encode())
        kind = own.integers(6)
        if kind == 0:
            return bytes(data[: own.integers(len(data) + 1)])
        if kind == 1:
            return own.bytes(int(own.integers(2000)))
        if kind == 2:
            data[own.integers(len(data))] ^= 1 << own.integers(8)
            return bytes(data)
        if kind == 3:
            return b"[" * 100_000 + b"]" * 100_000
        return b"1" * 6000 if kind == 4 else b"\xff\xfe" + bytes(data)

    assert_holds(spoiling(rng, spoil))


def odd_statuses(rng: np.random.Generator) -> None:
    status = int(rng.choice([204, 301, 302, 400, 401, 403, 404, 413, 418, 422, 429, 500, 503, 529, 599]))
    message = str(rng.choice(["on purpose", "\x1b[2J\x1b[31mred\x07", "\u202etxt", "", "x" * 100_000]))

    def spoil(_reply: Any) -> Any:
        raise Rejection(status, message)

    assert_holds(spoiling(rng, spoil))


def odd_headers(rng: np.random.Generator) -> None:
    value = str(rng.choice(["9" * 400, "-1", "soon", "Thu, 99 Foo 99999 99:99:99 GMT", "1e9"]))

    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(429, "\tToo many")
        for name, text in (("Retry-After", value), ("Content-Encoding", "gzip"), ("Content-Length", "0")):
            handler.send_header(name, text)
        handler.end_headers()

    assert_holds(spoiling(rng, lambda _reply: write))


# --- replies without bounds ---


def endless_body(rng: np.random.Generator) -> None:
    assert_holds(spoiling(rng, lambda _reply: endless))


def compressed_bomb(rng: np.random.Generator) -> None:
    bomb = gzip_bomb(int(rng.integers(2, 64)) * 2**20)
    assert_holds(spoiling(rng, lambda _reply: bomb))


def too_many_tokens(rng: np.random.Generator) -> None:
    """More tokens than were requested, in generated text and from /tokenize."""
    times = int(rng.integers(2, 200))

    def spoil(reply: Any) -> Any:
        for choice in reply.get("choices", []):
            for name, values in choice["logprobs"].items():
                choice["logprobs"][name] = values * times
        if "tokens" in reply:
            reply["tokens"] *= times
        return reply

    assert_holds(spoiling(rng, spoil))


def trickled_body(rng: np.random.Generator) -> None:
    """Each byte comes in time, and the body never ends. Takes as long as the deadline."""
    assert_holds(spoiling(rng, lambda _reply: trickle(0.05)), deadline=0.3, retries=0)


def changing_replies(rng: np.random.Generator) -> None:
    """Another log-probability for every request."""
    noise = float(10 ** rng.uniform(-8, 2))
    server = ScriptedServer(**KINDS[rng.integers(len(KINDS))], noise=noise)
    server.rng = np.random.default_rng(int(rng.integers(2**32)))
    assert_holds(server)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        mutated_replies,
        exchanged_numbers,
        other_pieces,
        broken_bytes,
        odd_statuses,
        odd_headers,
        endless_body,
        compressed_bomb,
        too_many_tokens,
        trickled_body,
        changing_replies,
    )
}
