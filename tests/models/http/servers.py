"""Real servers on the loopback device: one around `transformers` that can do what it is told to, and llama.cpp's.

And a proxy before them that makes things go wrong on purpose.
"""

import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers.convert_slow_tokenizer import bytes_to_unicode

from reagent.models.tokenization import decode_each

LOCK = threading.Lock()  # one network, many servers


@dataclass(frozen=True)
class Can:
    """What the server does; the usual is vLLM's."""

    name: str = "tiny"
    completions: bool = True
    chat: bool = False
    continues: bool = True  # an answer that is begun
    echo: bool = True
    prompt_logprobs: bool = False
    ids: bool = True  # prompts may be token ids
    reports_ids_on_request: bool = False  # return_tokens_as_token_ids
    tokenize: str | None = "pieces"  # or "ids", without their text
    most: int = 20  # log-probabilities
    bias: str = ""  # "biased", "unbiased", or refused
    lists_models: bool = True
    key: str | None = None
    answer_key: bool = False  # repeats the key in its errors, as no server should


class Refusal(Exception):  # noqa: N818
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Echoing:
    """A causal LM of `transformers` behind the API."""

    network: Any
    tokenizer: Any
    can: Can = Can()
    seen: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)

    def get(self, path: str, headers: dict[str, str]) -> Any:
        self.seen.append((path, None, headers))
        self._check_key(headers)
        if path == "/v1/models" and self.can.lists_models:
            room = getattr(self.network.config, "max_position_embeddings", None)
            return {"object": "list", "data": [{"id": self.can.name, "object": "model", "max_model_len": room}]}
        raise Refusal(404, "there is nothing here")

    def post(self, path: str, body: Any, headers: dict[str, str]) -> Any:
        self.seen.append((path, body, headers))
        self._check_key(headers)
        if path == "/tokenize" and self.can.tokenize:
            ids = self.tokenizer(body["prompt"], add_special_tokens=body["add_special_tokens"])["input_ids"]
            return {"tokens": [self._piece(i) for i in ids] if self.can.tokenize == "pieces" else ids}
        if path == "/detokenize" and self.can.tokenize:
            return {"prompt": self._decode(body["tokens"])}
        if body.get("model") != self.can.name:
            raise Refusal(404, f"The model `{body.get('model')}` does not exist.")
        if path == "/v1/completions" and self.can.completions:
            return self._complete(body)
        if path == "/v1/chat/completions" and self.can.chat:
            return self._chat(body)
        raise Refusal(404, "Not Found")

    def _check_key(self, headers: dict[str, str]) -> None:
        given = headers.get("Authorization", "")
        if self.can.key is not None and given != f"Bearer {self.can.key}":
            raise Refusal(401, f"wrong key: {given}" if self.can.answer_key else "wrong key")

    def _complete(self, body: Any) -> Any:
        prompt, k = body["prompt"], body.get("logprobs")
        if not isinstance(prompt, str) and not self.can.ids:
            raise Refusal(422, "prompt must be a string")
        self._check_count(k)
        ids = self.tokenizer(prompt)["input_ids"] if isinstance(prompt, str) else list(prompt)
        if max(ids) >= self.network.config.vocab_size:
            raise Refusal(400, "prompt contains invalid tokens")
        read = self._logprobs(ids)
        new, told = self._generate(ids, body, read[-1])
        text = self._decode([*ids, *new])[len(self._decode(ids)) :]
        choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": "length", "logprobs": None}
        named = bool(body.get("return_tokens_as_token_ids")) and self.can.reports_ids_on_request
        if k is not None:
            shown, rows = new, told
            if body.get("echo") and self.can.echo:
                shown, rows = [*ids, *new], [None, *read[:-1], *told]
                choice["text"] = self._decode(ids) + text
            choice["logprobs"] = self._legacy(shown, rows, k, named)
        if body.get("prompt_logprobs") is not None and self.can.prompt_logprobs:
            rows = [None, *read[:-1]]
            entries = [self._as_prompt(i, row, body["prompt_logprobs"]) for i, row in zip(ids, rows, strict=True)]
            choice["prompt_logprobs"] = entries
        return {"object": "text_completion", "model": self.can.name, "choices": [choice]}

    def _chat(self, body: Any) -> Any:
        self._check_count(body.get("top_logprobs"))
        messages = list(body["messages"])
        last = messages.pop()["content"] if messages[-1]["role"] == "assistant" and self.can.continues else ""
        text = "".join(f"{m['role']}: {m['content']}\n" for m in messages) + "assistant:" + last
        ids = self.tokenizer(text)["input_ids"]
        new, told = self._generate(ids, body, self._logprobs(ids)[-1])
        content = []
        for i, row in zip(new, told, strict=True):
            best = row.topk(body["top_logprobs"])
            entries = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            listed = [{"token": self._texts([j])[0], "logprob": p, "bytes": None} for j, p in entries]
            content.append({"token": self._texts([i])[0], "logprob": float(row[i]), "top_logprobs": listed})
        message = {"role": "assistant", "content": "".join(self._texts(new))}
        return {"choices": [{"index": 0, "message": message, "logprobs": {"content": content}}]}

    def _check_count(self, k: int | None) -> None:
        if k is not None and k > self.can.most:
            raise Refusal(400, f"logprobs must be at most {self.can.most}")

    def _generate(self, ids: list[int], body: Any, last: torch.Tensor) -> tuple[list[int], list[torch.Tensor]]:
        """Greedy tokens, and what is reported of each."""
        if body.get("logit_bias") and not self.can.bias:
            raise Refusal(400, "logit_bias is not supported")
        new, told = [], []
        for _ in range(body["max_tokens"]):
            plain = self._logprobs([*ids, *new])[-1] if new else last
            biased = plain.clone()
            for token, bias in (body.get("logit_bias") or {}).items():
                biased[int(token)] += bias
            new.append(int(biased.argmax()))
            told.append(biased.log_softmax(-1) if self.can.bias == "biased" else plain)
        return new, told

    def _logprobs(self, ids: list[int]) -> torch.Tensor:
        with LOCK, torch.inference_mode():
            return self.network(torch.tensor([ids])).logits[0].float().log_softmax(-1)

    def _legacy(self, ids: list[int], rows: list[Any], k: int, named: bool) -> Any:
        texts = [f"token_id:{i}" for i in ids] if named else self._texts(ids)
        offsets = [sum(map(len, texts[:i])) for i in range(len(texts))]
        tops: list[Any] = []
        for i, row in zip(ids, rows, strict=True):
            if row is None:
                tops.append(None)
                continue
            chosen = dict.fromkeys([*row.topk(k).indices.tolist(), i])
            names = [f"token_id:{j}" for j in chosen] if named else self._texts(list(chosen))
            tops.append(dict(zip(names, (float(row[j]) for j in chosen), strict=True)))
        own = [None if row is None else float(row[i]) for i, row in zip(ids, rows, strict=True)]
        return {"tokens": texts, "token_logprobs": own, "top_logprobs": tops, "text_offset": offsets}

    def _as_prompt(self, token: int, row: torch.Tensor | None, k: int) -> Any:
        if row is None:
            return None
        chosen = dict.fromkeys([token, *row.topk(k).indices.tolist()])
        return {
            str(i): {
                "logprob": float(row[i]), "rank": int((row > row[i]).sum()) + 1, "decoded_token": self._texts([i])[0]
            }
            for i in chosen
        }  # fmt: skip

    def _piece(self, token: int) -> Any:
        """As llama.cpp tells it: a part of a character as its bytes."""
        (text,) = self._texts([token])
        if "\N{REPLACEMENT CHARACTER}" not in text:
            return {"id": token, "piece": text}
        to_byte = {char: byte for byte, char in bytes_to_unicode().items()}
        return {"id": token, "piece": [to_byte[char] for char in self.tokenizer.convert_ids_to_tokens(token)]}

    def _texts(self, ids: list[int]) -> list[str]:
        return [self._spelled[i] for i in ids]

    @cached_property
    def _spelled(self) -> list[str]:
        return decode_each(self.tokenizer, range(len(self.tokenizer)))

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


@contextmanager
def serving(app: Echoing, port: int = 0) -> Iterator[str]:
    """The address of a server that answers as `app` does, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body go out at once

        def do_GET(self) -> None:
            self._answer(lambda: app.get(self.path, dict(self.headers)))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(lambda: app.post(self.path, body, dict(self.headers)))

        def _answer(self, act: Callable[[], Any]) -> None:
            try:
                status, reply = 200, act()
            except Refusal as refusal:
                status, reply = refusal.status, {"error": {"message": str(refusal), "code": refusal.status}}
            _write(self, status, json.dumps(reply).encode(), {})

        def log_message(self, *_: Any) -> None:
            pass

    with _running(Handler, port) as address:
        yield address


@contextmanager
def _running(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# --- llama.cpp ---


@contextmanager
def llama_cpp(gguf: Path) -> Iterator[str]:
    """llama.cpp's own server, in this process."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.model_alias = {"smollm2"}
    params.n_ctx, params.n_parallel = 1024, 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.warmup, params.verbosity = False, -1
    server = xllamacpp.Server(params)
    yield server.listening_address
    del server  # which ends its threads


# --- what goes wrong ---


@dataclass
class Fault:
    """What happens to a request; `act` gets the connection and the true reply's bytes, and writes what it likes."""

    act: Callable[[BaseHTTPRequestHandler, int, bytes], None]


def status(code: int, headers: dict[str, str] | None = None, message: str = "on purpose") -> Fault:
    def act(handler: BaseHTTPRequestHandler, _status: int, _data: bytes) -> None:
        _write(handler, code, json.dumps({"error": {"message": message}}).encode(), headers or {})

    return Fault(act)


def dropped() -> Fault:
    def act(handler: BaseHTTPRequestHandler, _status: int, _data: bytes) -> None:
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    return Fault(act)


def stalled(stop: threading.Event) -> Fault:
    def act(handler: BaseHTTPRequestHandler, _status: int, _data: bytes) -> None:
        stop.wait(30)
        handler.close_connection = True

    return Fault(act)


def half_a_body() -> Fault:
    def act(handler: BaseHTTPRequestHandler, code: int, data: bytes) -> None:
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[: len(data) // 2])
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    return Fault(act)


def changed(change: Callable[[Any], Any]) -> Fault:
    """The reply, changed; bytes are written as they are."""

    def act(handler: BaseHTTPRequestHandler, code: int, data: bytes) -> None:
        new = change(json.loads(data))
        _write(handler, code, new if isinstance(new, bytes) else json.dumps(new).encode(), {})

    return Fault(act)


def not_json() -> Fault:
    return changed(lambda _: b'{"choices": [')


def with_nan() -> Fault:
    def spoil(reply: Any) -> Any:
        logprobs = reply["choices"][0]["logprobs"]
        logprobs["token_logprobs"] = [math.nan for _ in logprobs["token_logprobs"]]
        return reply

    return changed(spoil)


def with_choices(count: int) -> Fault:
    return changed(lambda reply: reply | {"choices": reply["choices"] * count})


def _write(handler: BaseHTTPRequestHandler, code: int, data: bytes, headers: dict[str, str]) -> None:
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@dataclass
class Proxy:
    """Passes requests on; those of `plan` (by their number among the completions, from 0) go wrong."""

    to: str
    plan: dict[int, Fault] = field(default_factory=dict)
    always: Fault | None = None
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    times: list[float] = field(default_factory=list)

    def fault(self) -> Fault | None:
        with self.lock:
            number, self.count = self.count, self.count + 1
            self.times.append(time.monotonic())
        return self.always or self.plan.get(number)


@contextmanager
def proxied(proxy: Proxy) -> Iterator[str]:
    import httpx2

    client = httpx2.Client(base_url=proxy.to, timeout=60)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body go out at once

        def do_GET(self) -> None:
            reply = client.get(self.path)
            _write(self, reply.status_code, reply.content, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            counted = self.path.endswith("completions")
            fault = proxy.fault() if counted else None
            reply = client.post(self.path, content=body, headers={"Content-Type": "application/json"})
            if fault is None:
                _write(self, reply.status_code, reply.content, {})
            else:
                fault.act(self, reply.status_code, reply.content)

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # the other side gave up
                super().handle()

    with _running(Handler) as address:
        yield address
    client.close()


def a_port_where_nobody_listens() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
