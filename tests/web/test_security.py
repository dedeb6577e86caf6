"""Requests with a wrong host, origin or token, and requests that are too large or too slow, are rejected."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reagent.web import security
from reagent.web.config import Access, Limits
from reagent.web.security import Guard, allowed_host
from web.service import BASE_URL, PROMPT, Service, create_service

TOKEN = "correct-horse-battery"
BODY = {"prompt": PROMPT, "max_new_tokens": 1}


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Service]:
    service = create_service(tmp_path, access=Access(True, TOKEN, frozenset({"lab.example"}), 8765))
    yield service
    service.queue.close()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.7",
        "",
        "[::1",
        "@",
    ],
)
def test_another_host_name_is_rejected(service: Service, host: str) -> None:
    for path in ("/", "/api/health", "/docs", "/assets/view.js"):
        response = service.client.get(path, headers={"Host": host})
        assert response.status_code == 403
        assert "error" in response.json()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9999", "127.0.0.1:80", "[::1]:8765", "localhost.:8765"])
def test_loopback_names_are_allowed(service: Service, host: str) -> None:
    assert service.client.get("/api/health", headers={"Host": host}).status_code == 200


def test_a_remote_service_allows_addresses_and_the_configured_names() -> None:
    access = Access(remote=True, names=frozenset({"lab.example"}))
    assert allowed_host("10.0.0.7:8765", access)
    assert allowed_host("lab.example", access)
    assert not allowed_host("evil.example", access)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1", "file://"]
)
def test_other_origins_cannot_change_anything(service: Service, origin: str) -> None:
    name = service.submit()
    service.wait_for_job(name)
    headers = {"Origin": origin}
    assert service.client.post("/api/jobs", json=BODY, headers=headers).status_code == 403
    assert service.client.post("/api/view", json={}, headers=headers).status_code == 403
    assert service.client.delete(f"/api/jobs/{name}", headers=headers).status_code == 403
    assert service.client.post("/api/jobs", json=BODY, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert service.client.post("/api/jobs", json=BODY, headers={"Origin": BASE_URL}).status_code == 201


def test_other_origins_cannot_read(service: Service) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for response in (
        service.client.options("/api/jobs", headers=headers),
        service.client.get("/api/health", headers=headers),
    ):
        assert not [name for name in response.headers if name.startswith("access-control")]


def test_a_form_post_is_rejected(service: Service) -> None:
    """A browser sends plain-text forms to other origins without a preflight request."""
    response = service.client.post("/api/jobs", content=b'{"prompt": "aunt"}', headers={"Content-Type": "text/plain"})
    assert response.status_code == 422


def test_every_response_has_the_security_headers(service: Service) -> None:
    for path in ("/", "/docs", "/api/health", "/api/jobs/none", "/assets/none", "/openapi.json"):
        headers = service.client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


# --- the token ---


def test_nothing_is_readable_without_the_token(remote: Service) -> None:
    for path in ("/", "/api/health", "/api/options", "/docs", "/openapi.json", "/assets/view.js", "/nothing"):
        response = remote.client.get(path)
        assert response.status_code == 401
        assert "scripted" not in response.text
    assert remote.client.post("/api/jobs", json=BODY).status_code == 401
    assert remote.queue.counts() == (0, 0)


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", "\u00e9" * 20])
def test_a_wrong_token_is_rejected(remote: Service, wrong: str) -> None:
    assert remote.client.get("/", params={"token": wrong}).status_code == 401
    assert remote.client.get("/api/health", headers={"Authorization": f"Bearer {wrong}".encode()}).status_code == 401
    assert remote.client.get("/api/health", headers={"Cookie": f"reagent-8765={wrong}".encode()}).status_code == 401


def test_the_token_in_the_address_becomes_a_cookie(remote: Service) -> None:
    first = remote.client.get("/", params={"token": TOKEN, "a": "1"}, follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/?a=1")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in str(first.headers)
    remote.wait_for_job(remote.submit())  # the client keeps the cookie
    remote.client.cookies.clear()
    assert remote.client.get("/api/health").status_code == 401


def test_programs_send_the_token_in_a_header(remote: Service) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert remote.client.get("/api/health", headers=bearer).status_code == 200
    assert remote.client.get("/api/health", params={"token": TOKEN}).status_code == 401  # addresses are logged


def test_no_response_contains_the_token(remote: Service) -> None:
    remote.client.get("/", params={"token": TOKEN})
    name = remote.submit()
    remote.wait_for_job(name)
    for path in ("/", "/api/health", "/api/options", f"/api/jobs/{name}", f"/api/explanations/{name}", "/openapi.json"):
        response = remote.client.get(path)
        assert TOKEN not in response.text + str(response.headers)
    assert TOKEN not in repr(Access(token=TOKEN))


# --- size and time ---


def test_a_large_body_is_413_with_and_without_content_length(tmp_path: Path) -> None:
    service = create_service(tmp_path, limits=Limits(body=1000))
    json = {"Content-Type": "application/json"}

    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    declared = service.client.post("/api/view", content=b" " * 1001, headers=json)
    undeclared = service.client.post("/api/view", content=parts(), headers=json)
    assert declared.status_code == undeclared.status_code == 413
    assert "1,000 bytes" in declared.json()["error"]
    assert service.client.post("/api/view", content=b" " * 1000, headers=json).status_code == 422


def test_an_unfinished_request_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "RECEIVE_TIMEOUT", 0.02)
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    async def never(*_: Any) -> None:
        raise AssertionError("the application must not receive an incomplete request")

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/jobs",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    asyncio.run(Guard(never, Access(), 1000)(scope, receive, send))
    assert sent[0]["status"] == 408
