"""Connections that send nothing, or half a request, to a service on a real port."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reagent.cli import serve as command
from reagent.web import connections, security
from reagent.web.app import create_app
from reagent.web.config import Limits, ServiceConfig
from web.service import capital_model, wait_for

HALF_HEAD = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A service with short deadlines, for few waiting connections."""
    import uvicorn

    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 0.3)
    monkeypatch.setattr(connections, "MAX_WAITING", 20)
    monkeypatch.setattr(security, "RECEIVE_TIMEOUT", 0.3)
    listening = command.bind("127.0.0.1", 0)
    app = create_app(capital_model(), ServiceConfig(Limits(body=100_000), folder=tmp_path))
    server = uvicorn.Server(command.configure(app))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    yield int(listening.getsockname()[1])
    server.should_exit = True
    thread.join(10)
    app.state.jobs.close()


@pytest.fixture
def connect(port: int) -> Iterator[Callable[[bytes], socket.socket]]:
    opened: list[socket.socket] = []

    def connect(sent: bytes = b"") -> socket.socket:
        opened.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        opened[-1].sendall(sent)
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def read_all(one: socket.socket) -> bytes:
    """Everything until the service closes the connection."""
    parts = []
    try:
        while part := one.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def get_health(port: int) -> int:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    client.request("GET", "/api/health")
    return client.getresponse().status


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_HEAD + b"\r\n" + HALF_HEAD])
def test_a_connection_without_a_whole_request_is_closed(connect: Callable[[bytes], socket.socket], sent: bytes) -> None:
    assert read_all(connect(sent)).count(b"200 OK") == sent.count(b"\r\n\r\n")


def test_silent_connections_do_not_keep_others_out(
    connect: Callable[[bytes], socket.socket], port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 60.0)
    silent = [connect(HALF_HEAD) for _ in range(connections.MAX_CONNECTIONS // 4)]
    assert get_health(port) == 200
    assert read_all(silent[0]) == b""  # the oldest is closed, long before its deadline


def test_a_half_sent_body_is_refused_and_the_connection_closed(connect: Callable[[bytes], socket.socket]) -> None:
    head = (
        b"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    )
    answer = read_all(connect(head + b'{"prompt": "a'))
    assert b" 408 " in answer
    assert b"did not arrive within" in answer


def test_many_large_bodies_at_once_are_bounded(
    connect: Callable[[bytes], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "RECEIVE_TIMEOUT", 20.0)
    monkeypatch.setattr(security, "MAX_RECEIVING", 2)
    head = b"POST /api/view HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999\r\n\r\n"
    for _ in range(2):
        connect(head + b" " * 90_000)
    assert b" 503 " in read_all(connect(head + b" " * 90_000))
