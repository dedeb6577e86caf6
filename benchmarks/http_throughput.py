"""Models behind HTTP: requests per second by concurrency, requests per explanation by endpoint, effects of censoring.

python benchmarks/http_throughput.py            # prints JSON; a few minutes on one core

There are two servers, both in this process. llama.cpp serves the embedded model and is limited by its single thread.
The other sends a fixed response after 50 ms, like a remote server. It is limited by the number of concurrent requests
and by the client.
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


class FixedResponse(BaseHTTPRequestHandler):
    """Sends the same 20 tokens after a delay."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # send headers and body without delay

    def do_GET(self) -> None:
        self.send_json({"data": [{"id": "fixed"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(LATENCY)
        entries = [{"id": i, "token": f" t{i}", "logprob": -1.0 - i, "bytes": None} for i in range(20)]
        content = [entries[0] | {"top_logprobs": entries}]
        self.send_json(
            {"choices": [{"text": " t0", "logprobs": {"content": content}}], "tokens": [{"id": 1, "piece": "a"}]}
        )

    def send_json(self, reply: Any) -> None:
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def fixed_response() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FixedResponse)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def requests_per_second(url: str, concurrency: int, count: int) -> float:
    """Throughput for texts that differ from their first token on, so that no cache helps."""
    model = reagent.load_model(url, concurrency=concurrency)
    rng = np.random.default_rng(concurrency)
    sequences = rng.integers(1000, 20000, (count, 30))
    begin = time.perf_counter()
    model.score(sequences, np.array([29]), np.array([5]))
    return round(count / (time.perf_counter() - begin), 2)


def requests_per_explanation() -> list[dict[str, Any]]:
    """The maximal number of requests for one explanation of the demo prompt, by preset, output tokens and endpoint."""
    model = reagent.load_model("smollm2")
    rows = []
    for preset in ("fast", "paper"):
        for new in (1, 10):
            dry_run = DryRunModel(model)
            reagent.explain(dry_run, DEMO, max_new_tokens=new, preset=preset, replacer="self")
            rows.append(
                {
                    "preset": preset,
                    "output tokens": new,
                    "echo": vars(dry_run.echo),
                    "next token": vars(dry_run.next_token),
                }
            )
    return rows


def censoring(url: str) -> list[dict[str, Any]]:
    """The five largest effects: of the local model, of llama.cpp with censored values, and with recovered values."""
    options: dict[str, Any] = {"max_new_tokens": 1, "replacer": "self", "probes": PROBES}
    models = {
        "here": reagent.load_model("smollm2"),
        "top 20": reagent.load_model(url),
        "top 20, recovered": reagent.load_model(url, recover=True),
        "top 1000": reagent.load_model(url, top=1000),
    }
    rows = []
    for name, model in models.items():
        why = reagent.explain(model, DEMO, **options)
        top = [[c.token.text, round(c.effect or 0.0, 2)] for c in why.top(5)]
        rows.append({"model": name, "top": top, "requests": why.cost.requests, "censored": why.cost.censored})
    return rows


def main() -> None:
    with llama_cpp() as real, fixed_response() as remote:
        result = {
            "requests per second": {
                "llama.cpp, 1 thread": {n: requests_per_second(real, n, 32) for n in CONCURRENCY},
                "50 ms away": {n: requests_per_second(remote, n, 40 * n) for n in CONCURRENCY},
            },
            "requests for one explanation": requests_per_explanation(),
            "censoring": censoring(real),
        }
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
