"""Who may ask: nobody under another name, no other page, nobody without the token, nothing too large or too slow."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reagent.web import security
from reagent.web.config import Access, Limits
from reagent.web.security import Guard, allowed_host
from web.serving import HERE, PROMPT, Service, serving

TOKEN = "correct-horse-battery"
QUESTION = {"prompt": PROMPT, "max_new_tokens": 1}


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Service]:
    made = serving(tmp_path, access=Access(True, TOKEN, frozenset({"lab.example"}), 8765))
    yield made
    made.desk.close()


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
def test_another_name_is_refused(service: Service, host: str) -> None:
    for path in ("/", "/api/health", "/docs", "/assets/view.js"):
        answer = service.client.get(path, headers={"Host": host})
        assert answer.status_code == 403
        assert "error" in answer.json()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9999", "127.0.0.1:80", "[::1]:8765", "localhost.:8765"])
def test_this_machine_is_known_by_its_own_names(service: Service, host: str) -> None:
    assert service.client.get("/api/health", headers={"Host": host}).status_code == 200


def test_a_remote_service_is_known_by_address_and_by_the_names_it_was_given() -> None:
    access = Access(remote=True, names=frozenset({"lab.example"}))
    assert allowed_host("10.0.0.7:8765", access)
    assert allowed_host("lab.example", access)
    assert not allowed_host("evil.example", access)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1", "file://"]
)
def test_a_page_from_elsewhere_may_not_ask(service: Service, origin: str) -> None:
    name = service.ask()
    service.ended(name)
    headers = {"Origin": origin}
    assert service.client.post("/api/jobs", json=QUESTION, headers=headers).status_code == 403
    assert service.client.post("/api/view", json={}, headers=headers).status_code == 403
    assert service.client.delete(f"/api/jobs/{name}", headers=headers).status_code == 403
    assert service.client.post("/api/jobs", json=QUESTION, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert service.client.post("/api/jobs", json=QUESTION, headers={"Origin": HERE}).status_code == 201


def test_no_other_page_may_read(service: Service) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for answer in (
        service.client.options("/api/jobs", headers=asked),
        service.client.get("/api/health", headers=asked),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_form_of_another_page_is_no_question(service: Service) -> None:
    """What a browser sends without asking first: a form, as text."""
    answer = service.client.post("/api/jobs", content=b'{"prompt": "aunt"}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422


def test_every_answer_forbids_what_the_page_does_not_need(service: Service) -> None:
    for path in ("/", "/docs", "/api/health", "/api/jobs/none", "/assets/none", "/openapi.json"):
        headers = service.client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


# --- the token ---


def test_without_the_token_nothing_is_told(remote: Service) -> None:
    for path in ("/", "/api/health", "/api/options", "/docs", "/openapi.json", "/assets/view.js", "/nothing"):
        answer = remote.client.get(path)
        assert answer.status_code == 401
        assert "scripted" not in answer.text
    assert remote.client.post("/api/jobs", json=QUESTION).status_code == 401
    assert remote.desk.counts() == (0, 0)


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", "\u00e9" * 20])
def test_a_wrong_token_is_no_token(remote: Service, wrong: str) -> None:
    assert remote.client.get("/", params={"token": wrong}).status_code == 401
    assert remote.client.get("/api/health", headers={"Authorization": f"Bearer {wrong}".encode()}).status_code == 401
    assert remote.client.get("/api/health", headers={"Cookie": f"reagent-8765={wrong}".encode()}).status_code == 401


def test_the_token_of_the_address_becomes_a_cookie_and_leaves_the_address(remote: Service) -> None:
    first = remote.client.get("/", params={"token": TOKEN, "a": "1"}, follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/?a=1")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in str(first.headers)
    remote.ended(remote.ask())  # the client keeps the cookie
    remote.client.cookies.clear()
    assert remote.client.get("/api/health").status_code == 401


def test_programs_send_the_token_in_a_header(remote: Service) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert remote.client.get("/api/health", headers=bearer).status_code == 200
    assert remote.client.get("/api/health", params={"token": TOKEN}).status_code == 401  # addresses get written down


def test_no_answer_holds_the_token(remote: Service) -> None:
    remote.client.get("/", params={"token": TOKEN})
    name = remote.ask()
    remote.ended(name)
    for path in ("/", "/api/health", "/api/options", f"/api/jobs/{name}", f"/api/explanations/{name}", "/openapi.json"):
        answer = remote.client.get(path)
        assert TOKEN not in answer.text + str(answer.headers)
    assert TOKEN not in repr(Access(token=TOKEN))


# --- size and time ---


def test_what_is_too_large_is_413_whether_it_says_so_or_not(tmp_path: Path) -> None:
    service = serving(tmp_path, limits=Limits(body=1000))
    json = {"Content-Type": "application/json"}

    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    told = service.client.post("/api/view", content=b" " * 1001, headers=json)
    untold = service.client.post("/api/view", content=parts(), headers=json)
    assert told.status_code == untold.status_code == 413
    assert "1,000 bytes" in told.json()["error"]
    assert service.client.post("/api/view", content=b" " * 1000, headers=json).status_code == 422


def test_a_request_that_never_ends_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "RECEIVED", 0.02)
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    async def never(*_: Any) -> None:
        raise AssertionError("the application must not see half a request")

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/jobs",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    asyncio.run(Guard(never, Access(), 1000)(scope, receive, send))
    assert sent[0]["status"] == 408
