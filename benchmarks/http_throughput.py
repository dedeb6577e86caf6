"""Black boxes over HTTP: requests per second by concurrency, requests by the way of asking, and what censoring does.

python benchmarks/http_throughput.py            # prints JSON; a few minutes on one core

Two servers, both in this process: llama.cpp's with the embedded model, whose one thread is what limits it, and
one that answers by rote after 50 ms, as a machine far away would: what limits that is how many requests are under
way at once, and the client itself.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import xllamacpp
from prompts import DEMO

import reagent
from reagent.models.bundled import fetch_gguf
from reagent.models.dry_run import DryRunModel

CONCURRENCY = (1, 4, 16)
LATENCY = 0.05
PROBES = 128


@contextmanager
def llama_cpp() -> Iterator[str]:
    params = xllamacpp.CommonParams()
    params.model.path = str(fetch_gguf("smollm2"))
    params.model_alias = {"smollm2"}
    params.n_ctx, params.n_parallel = 16 * 256, 16
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.warmup, params.verbosity = False, -1
    server = xllamacpp.Server(params)
    yield server.listening_address


class ByRote(BaseHTTPRequestHandler):
    """Always the same 20 tokens, after a while."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body go out at once

    def do_GET(self) -> None:
        self.answer({"data": [{"id": "rote"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(LATENCY)
        entries = [{"id": i, "token": f" t{i}", "logprob": -1.0 - i, "bytes": None} for i in range(20)]
        content = [entries[0] | {"top_logprobs": entries}]
        self.answer(
            {"choices": [{"text": " t0", "logprobs": {"content": content}}], "tokens": [{"id": 1, "piece": "a"}]}
        )

    def answer(self, reply: Any) -> None:
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def by_rote() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ByRote)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def requests_per_second(url: str, concurrency: int, count: int) -> float:
    """Texts that differ from their first token on: no cache helps."""
    model = reagent.load_model(url, concurrency=concurrency)
    rng = np.random.default_rng(concurrency)
    sequences = rng.integers(1000, 20000, (count, 30))
    begin = time.perf_counter()
    model.score(sequences, np.array([29]), np.array([5]))
    return round(count / (time.perf_counter() - begin), 2)


def needed() -> list[dict[str, Any]]:
    """Requests for one explanation of the demo prompt, at most, by what is asked and by the way of asking."""
    model = reagent.load_model("smollm2")
    rows = []
    for preset in ("fast", "paper"):
        for new in (1, 10):
            stand_in = DryRunModel(model)
            reagent.explain(stand_in, DEMO, max_new_tokens=new, preset=preset, replacer="self")
            rows.append(
                {
                    "preset": preset,
                    "output tokens": new,
                    "echo": vars(stand_in.echo),
                    "next token": vars(stand_in.next_token),
                }
            )
    return rows


def censoring(url: str) -> list[dict[str, Any]]:
    """The five strongest tokens: of the model itself, through llama.cpp as listed, and with recovered values."""
    asked: dict[str, Any] = {"max_new_tokens": 1, "replacer": "self", "probes": PROBES}
    models = {
        "here": reagent.load_model("smollm2"),
        "top 20": reagent.load_model(url),
        "top 20, recovered": reagent.load_model(url, recover=True),
        "top 1000": reagent.load_model(url, top=1000),
    }
    rows = []
    for name, model in models.items():
        why = reagent.explain(model, DEMO, **asked)
        top = [[c.token.text, round(c.effect or 0.0, 2)] for c in why.top(5)]
        rows.append({"model": name, "top": top, "requests": why.cost.requests, "censored": why.cost.censored})
    return rows


def main() -> None:
    with llama_cpp() as real, by_rote() as rote:
        result = {
            "requests per second": {
                "llama.cpp, 1 thread": {n: requests_per_second(real, n, 32) for n in CONCURRENCY},
                "50 ms away": {n: requests_per_second(rote, n, 40 * n) for n in CONCURRENCY},
            },
            "requests for one explanation": needed(),
            "censoring": censoring(real),
        }
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
