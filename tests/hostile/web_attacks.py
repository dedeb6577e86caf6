"""Attacks on the service of the page: the status is never 500, and the service goes on.

`ATTACKS` has a function for each kind of request, which draws its details from a random generator.
"""

import atexit
import json
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from hostile.file_attacks import citations_json, samples_json
from hostile.mutations import ODD_VALUES, Random, choose, mutate_bytes, mutate_document, to_json
from reagent.cli.serve import bind, configure
from reagent.web.app import create_app
from reagent.web.config import Access, Limits, ServiceConfig
from web.service import PROMPT, Service, capital_model, create_service, wait_for

Attack = Callable[[Random], None]
LIMITS = Limits(queue=4, seconds=5, probes=64, new_tokens=4)
JOB = {
    "prompt": PROMPT, "max_new_tokens": 1, "target": " Tokyo", "seed": 0, "probes": 8, "method": "reagent",
    "preset": "fast", "unit": "token", "replacer": "random", "what_if": False, "contrast": " Paris",
}  # fmt: skip
CITE = {
    "question": "capital", "documents": [{"id": "a", "text": "aunt lives in Japan"}, {"text": "Paris in France"}],
    "answer": " Tokyo", "max_new_tokens": 1, "probes": 8, "seed": 0,
}  # fmt: skip
PATHS = (
    "/", "/favicon.ico", "/assets/{}", "/docs", "/openapi.json", "/api/health", "/api/options", "/api/jobs",
    "/api/jobs/{}", "/api/history", "/api/explanations/{}", "/api/explanations/{}.html", "/api/explanations/{}.png",
    "/api/citations/{}", "/api/citations/{}.md", "/api/view", "/api/citations/estimate", "/{}",
)  # fmt: skip
NAMES = ("0" * 16, "..", "%2e%2e%2fetc%2fpasswd", "a" * 3000, "%00", "index.html", "%ff%fe", "💥", "0123456789abcdef")
REQUEST = (
    b"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 40\r\n"
    b"Origin: http://127.0.0.1\r\nCookie: a=b\r\n\r\n" + b'{"prompt": "aunt lives in", "seed": 1}   '
)


@cache
def service() -> Service:
    """One service for all attacks, in this process."""
    folder = tempfile.TemporaryDirectory()
    service = create_service(Path(folder.name), limits=LIMITS)
    service.client.__enter__()  # one event loop for all requests

    def end() -> None:
        service.queue.close()
        folder.cleanup()

    atexit.register(end)
    return service


@cache
def port() -> int:
    """The same behind a real port, for requests that no client would send."""
    import uvicorn

    folder = tempfile.TemporaryDirectory()
    listening = bind("127.0.0.1", 0)
    app = create_app(capital_model(), ServiceConfig(LIMITS, Access(), Path(folder.name)))
    server = uvicorn.Server(configure(app))
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    wait_for(lambda: server.started)

    def end() -> None:
        app.state.jobs.close()
        folder.cleanup()

    atexit.register(end)
    return int(listening.getsockname()[1])


def job_body(rng: Random) -> None:
    _post("/api/jobs", mutate_document(JOB, rng), rng)


def citation_body(rng: Random) -> None:
    _post(choose(rng, ("/api/citations", "/api/citations/estimate")), mutate_document(CITE, rng), rng)


def view_body(rng: Random) -> None:
    data = citations_json() if rng.random() < 0.3 else choose(rng, samples_json())
    _post("/api/view", mutate_document(data, rng), rng)


def odd_path(rng: Random) -> None:
    path = choose(rng, PATHS).format(choose(rng, NAMES))
    method = choose(rng, ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "ODD"))
    _check(service().client.request(method, path, content=choose(rng, (b"", b"{}", b"\xff"))))


def odd_header(rng: Random) -> None:
    name = choose(
        rng, ("Host", "Origin", "Cookie", "Authorization", "Content-Type", "Content-Length", "Range", "Accept")
    )
    value = choose(
        rng, (*(str(value).encode("utf-8", "replace")[:9000] for value in ODD_VALUES), b"null", b"a" * 9000, b"\xff")
    )
    with suppress(ValueError):  # the client refuses some itself
        _check(service().client.post("/api/view", content=b"{}", headers={name: value.replace(b"\0", b"0")}))


def raw_bytes(rng: Random) -> None:
    """A request with damaged bytes, or the first part of one; afterwards the service answers others."""
    data = mutate_bytes(REQUEST, rng)
    with socket.create_connection(("127.0.0.1", port()), timeout=20) as one:
        one.settimeout(0.05)
        with suppress(OSError):
            one.sendall(data[: int(rng.integers(len(data) + 1))])
            answer = one.recv(65536)
            assert b" 500 " not in answer.split(b"\r\n")[0], answer
    with socket.create_connection(("127.0.0.1", port()), timeout=60) as other:
        other.sendall(b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert other.recv(65536).startswith(b"HTTP/1.1 200"), "the service does not answer any more"


def _post(path: str, document: Any, rng: Random) -> None:
    content = to_json(document)
    content = mutate_bytes(content, rng) if rng.random() < 0.2 else content
    response = service().client.post(path, content=content, headers={"Content-Type": "application/json"})
    _check(response)
    assert response.status_code in (200, 201, 400, 413, 422, 429), response.status_code


def _check(response: Any) -> None:
    assert response.status_code < 500, f"{response.status_code}: {response.text[:300]}"
    if response.status_code >= 400 and response.content:
        error = json.loads(response.text)
        assert set(error) == {"error"}, error
        assert len(error["error"].splitlines()) == 1, error


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack for attack in (job_body, citation_body, view_body, odd_path, odd_header, raw_bytes)
}
