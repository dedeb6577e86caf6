"""A small server with an OpenAI-compatible API whose model is a formula, so that thousands of requests take seconds.

The tokens of its model are words with the space before them. The logit of each of a few dozen known words is a sum over
the words of the context, so that every word of a prompt has an effect.
"""

import gzip
import json
import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from zlib import crc32

import numpy as np

WORDS = (
    "the", "a", "sun", "moon", "rises", "sets", "east", "west", "north", "and", "in", "is", "of", "Japan", "Tokyo"
)  # fmt: skip
KNOWN = tuple(f" {word}" for word in WORDS)
PIECES = re.compile(r"\s*</s>|\s*\w+|\s*[^\w\s]|\s+$")


class Rejection(Exception):  # noqa: N818
    """The status and the message of an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class ScriptedServer:
    """What the server can do, and how its replies are spoiled."""

    echo: bool = True
    tokenizes: bool = False
    chats: bool = False
    noise: float = 0.0  # standard deviation of the log-probability of every token, drawn anew for each request
    top: int = 5
    spoil: Callable[[str, Any], Any] | None = (
        None  # from path and reply to another reply; bytes are written as they are
    )
    headers: dict[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, path: str, body: Any) -> Any:
        with self.lock:
            self.paths.append(path)
            noise = self.rng.normal(0, self.noise) if self.noise else 0.0
        reply = self._reply(path, body, noise)
        return reply if self.spoil is None else self.spoil(path, reply)

    def _reply(self, path: str, body: Any, noise: float) -> Any:
        if path == "/v1/models":
            return {"data": [{"id": "scripted"}]}
        if path == "/tokenize" and self.tokenizes:
            return {"tokens": [{"id": token_id(piece), "piece": piece} for piece in split(body["prompt"])]}
        if path == "/v1/completions" and isinstance(body["prompt"], str):
            return {"choices": [self._complete(body, noise)]}
        if path == "/v1/chat/completions" and self.chats:
            return {"choices": [self._answer(body, noise)]}
        raise Rejection(404 if path != "/v1/completions" else 400, "there is nothing here")

    def _complete(self, body: Any, noise: float) -> Any:
        context = split(body["prompt"])
        new = generate(context, body["max_tokens"])
        tokens = context + new if body.get("echo") and self.echo else new
        before = len(context) + len(new) - len(tokens)
        rows = [next_logprobs((context + new)[: before + i]) for i in range(len(tokens))]
        own = [min(0.0, logprob_of(row, token) + noise) for row, token in zip(rows, tokens, strict=True)]
        top = [self._likeliest(row, body["logprobs"], noise) for row in rows]
        own, top = ([None, *own[1:]], [None, *top[1:]]) if before == 0 else (own, top)
        offsets = np.cumsum([0, *map(len, tokens)])[:-1].tolist()
        logprobs = {"tokens": tokens, "token_logprobs": own, "top_logprobs": top, "text_offset": offsets}
        return {"index": 0, "text": "".join(tokens), "logprobs": logprobs}

    def _answer(self, body: Any, noise: float) -> Any:
        context = [piece for message in body["messages"] for piece in split(message["content"])]
        new = generate(context, body.get("max_tokens") or body.get("max_completion_tokens"))
        content = []
        for i, token in enumerate(new):
            row = next_logprobs(context + new[:i])
            listed = self._likeliest(row, body["top_logprobs"], noise)
            cut = 0 if i else 1  # an answer begins without a space
            entries = [{"token": text[cut:], "logprob": p} for text, p in listed.items()]
            own = min(0.0, logprob_of(row, token) + noise)
            content.append({"token": token[cut:], "logprob": own, "top_logprobs": entries})
        return {"message": {"content": "".join(new)}, "logprobs": {"content": content}}

    def _likeliest(self, row: np.ndarray, count: int, noise: float) -> dict[str, float]:
        best = np.argsort(-row, kind="stable")[: min(count, self.top)]
        return {KNOWN[i]: min(0.0, float(row[i]) + noise) for i in best}


def split(text: str) -> list[str]:
    """Words with the white space before them; all characters are in one of them."""
    ends = [match.end() for match in PIECES.finditer(text)]
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=False) if a < b]


def token_id(piece: str) -> int:
    return crc32(piece.encode("utf-8", "surrogatepass")) % 50_000


def next_logprobs(context: list[str]) -> np.ndarray:
    """Log-probabilities of KNOWN; a hundredth is left for all other words."""
    hashes = np.array([token_id(piece.strip()) for piece in context], dtype=np.int64)
    columns = np.arange(1, len(KNOWN) + 1)
    logits = ((hashes[:, None] * columns * 7919) % 1009 / 1009 - 0.5).sum(0)
    return logits - np.log(np.exp(logits).sum()) + math.log(0.99)


def logprob_of(row: np.ndarray, token: str) -> float:
    return float(row[KNOWN.index(token)]) if token in KNOWN else -9.0


def generate(context: list[str], count: int) -> list[str]:
    new: list[str] = []
    for _ in range(count):
        new.append(KNOWN[int(next_logprobs(context + new).argmax())])
    return new


@contextmanager
def running(server: ScriptedServer) -> Iterator[str]:
    """The address at which the server answers until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body go out at once

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            try:
                status, reply = 200, server.reply(self.path, body)
            except Rejection as rejection:
                status, reply = rejection.status, {"error": {"message": str(rejection)}}
            try:
                self._write(status, reply)
            except OSError:  # the other side gave up
                self.close_connection = True

        def _write(self, status: int, reply: Any) -> None:
            if callable(reply):
                reply(self)
                return
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            for name, value in ({"Content-Type": "application/json"} | server.headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def handle(self) -> None:
            with suppress(OSError):  # the other side gave up
                super().handle()

        def log_message(self, *_: Any) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}"
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def endless(handler: BaseHTTPRequestHandler) -> None:
    """A body that does not end until the client closes the connection."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    handler.close_connection = True
    while True:
        handler.wfile.write(b" " * 2**16)


def gzip_bomb(size: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """`size` bytes in a thousandth of them."""
    data = gzip.compress(b" " * size, 1)

    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return write


def trickle(pause: float) -> Callable[[BaseHTTPRequestHandler], None]:
    """One byte after another, each within the time limit of a read."""

    def write(handler: BaseHTTPRequestHandler) -> None:
        stop = threading.Event()
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        while True:
            handler.wfile.write(b" ")
            stop.wait(pause)

    return write
