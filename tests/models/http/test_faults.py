"""What goes wrong on the way ends in success after retries, or in one clear line with what was paid for kept."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from email.utils import formatdate
from pathlib import Path
from typing import Any, ClassVar

import pytest

import reagent
from models.http.conftest import Truth
from models.http.servers import (
    Can,
    Echoing,
    Fault,
    Proxy,
    changed,
    dropped,
    half_a_body,
    not_json,
    proxied,
    serving,
    stalled,
    status,
    with_choices,
    with_nan,
)
from reagent.errors import ReagentError, ServerError
from reagent.models.http.client import _RateLimiter

PROMPT = "My aunt moved to Japan to teach music."
QUICK: dict[str, Any] = {"max_new_tokens": 1, "replacer": "random", "probes": 16}
FINDING_OUT = 3  # requests before the first that matters
BRISK: dict[str, Any] = {"backoff": 0.001, "retries": 3, "timeout": 20.0}


@pytest.fixture
def faulty(server: Callable[..., Any], truth: Truth) -> Iterator[Callable[..., Any]]:
    """A proxy before a server, and how to connect through it."""
    with ExitStack() as running:

        def start(plan: dict[int, Fault] | None = None, **options: Any) -> tuple[Proxy, Callable[[], Any]]:
            proxy = Proxy(server()[0], {FINDING_OUT + number: fault for number, fault in (plan or {}).items()})
            url = running.enter_context(proxied(proxy))
            settings = BRISK | {"tokenizer": str(truth.folder), "concurrency": 2} | options
            return proxy, lambda: reagent.load_model(url, **settings)

        yield start


@pytest.fixture(scope="module")
def expected(truth: Truth) -> reagent.Explanation:
    return reagent.explain(truth.local, PROMPT, **QUICK)


def assert_expected(why: reagent.Explanation, expected: reagent.Explanation) -> None:
    assert why.scores[0] == pytest.approx(expected.scores[0], abs=1e-4)


PASSING = {
    "dropped": dropped(),
    "429": status(429),
    "429 with seconds": status(429, {"Retry-After": "0"}),
    "429 with a date": status(429, {"Retry-After": formatdate(0, usegmt=True)}),
    "429 with nonsense": status(429, {"Retry-After": "soon"}),
    "500": status(500),
    "503": status(503, {"Retry-After": "0.01"}),
    "half a body": half_a_body(),
    "not JSON": not_json(),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_may_pass_is_tried_again(faulty: Callable[..., Any], expected: reagent.Explanation, name: str) -> None:
    proxy, connect = faulty({2: PASSING[name], 5: PASSING[name], 6: PASSING[name]})
    assert_expected(reagent.explain(connect(), PROMPT, **QUICK), expected)
    assert proxy.count >= FINDING_OUT + 3 + 16


def test_a_stall_is_waited_for_and_then_tried_again(faulty: Callable[..., Any], expected: reagent.Explanation) -> None:
    stop = threading.Event()
    _, connect = faulty({3: stalled(stop)}, timeout=1.0)
    assert_expected(reagent.explain(connect(), PROMPT, **QUICK), expected)
    stop.set()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (dropped(), r"broke off the connection .*\(4 attempts\)"),
        (status(429), r"answered 429: on purpose \(4 attempts\)"),
        (status(429, {"Retry-After": "9999"}), "asks to wait 9999 s: try again later"),
        (status(429, message="insufficient_quota"), "answered 429: insufficient_quota"),
        (status(500), r"answered 500: on purpose \(4 attempts\)"),
        (status(400, message="no such parameter"), "answered 400: no such parameter"),
        (half_a_body(), r"broke off the connection .*\(4 attempts\)"),
        (not_json(), r"something that is not JSON \(4 attempts\)"),
        (with_nan(), "returned nan as a log-probability"),
        (with_choices(0), "returned 0 choices where 1 was requested"),
        (with_choices(2), "returned 2 choices where 1 was requested"),
        (changed(lambda _: {"choices": [{"text": "x"}]}), "returned no log-probabilities"),
        (changed(lambda _: ["hello"]), "is not that of an OpenAI-compatible API"),
    ],
)
def test_what_does_not_pass_is_one_clear_line(faulty: Callable[..., Any], fault: Fault, message: str) -> None:
    proxy, connect = faulty()
    model = connect()
    proxy.always = fault
    with pytest.raises(ServerError, match=message) as caught:
        reagent.explain(model, PROMPT, **QUICK)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("kept", ["in a file", "in memory"])
@pytest.mark.parametrize("fault", [status(400), with_nan(), status(500)], ids=["400", "NaN", "500"])
def test_what_was_paid_for_is_kept(
    faulty: Callable[..., Any], expected: reagent.Explanation, tmp_path: Path, kept: str, fault: Fault
) -> None:
    cache = {"cache": tmp_path / "replies.sqlite"} if kept == "in a file" else {}
    proxy, connect = faulty({9: fault}, retries=0, concurrency=1, **cache)
    model = connect()
    with pytest.raises(ReagentError):
        reagent.explain(model, PROMPT, **QUICK)
    proxy.plan.clear()
    broken_off = proxy.count - FINDING_OUT - 1
    assert broken_off == 9
    again = connect() if kept == "in a file" else model
    before = proxy.count
    why = reagent.explain(again, PROMPT, **QUICK)
    assert_expected(why, expected)
    found_out = FINDING_OUT if kept == "in a file" else 0
    whole = why.cost.probes + 3  # the output, and the text as it stands, twice
    assert proxy.count - before - found_out <= whole - broken_off


def test_a_server_that_goes_away_and_comes_back(truth: Truth, expected: reagent.Explanation) -> None:
    app = Echoing(truth.network, truth.tokenizer, Can())
    with serving(app) as url:
        patient = reagent.load_model(url, tokenizer=str(truth.folder), backoff=0.05, retries=20)
        hasty = reagent.load_model(url, tokenizer=str(truth.folder), **BRISK)
    with pytest.raises(ServerError, match=r"cannot be reached .*\(4 attempts\)"):
        reagent.explain(hasty, PROMPT, **QUICK)
    done = threading.Event()

    def come_back() -> None:
        done.wait(0.3)
        with serving(app, port=int(url.rsplit(":", 1)[1])):
            done.wait(60)

    later = threading.Thread(target=come_back)
    later.start()
    try:
        assert_expected(reagent.explain(patient, PROMPT, **QUICK), expected)
    finally:
        done.set()
        later.join()


def test_no_more_requests_at_once_than_allowed(server: Callable[..., Any], truth: Truth) -> None:
    url, app = server()
    under_way, most, lock = 0, 0, threading.Lock()
    original = app.post

    def watched(*given: Any) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.02)  # long enough for the other threads to send theirs, also on a busy machine
        try:
            return original(*given)
        finally:
            with lock:
                under_way -= 1

    app.post = watched
    model = reagent.load_model(url, tokenizer=str(truth.folder), concurrency=3)
    reagent.explain(model, PROMPT, **QUICK)
    assert 1 < most <= 3


class Patience:
    """An event that notes how long it is waited for, and does not wait."""

    waits: ClassVar[list[float]] = []

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return False

    def set(self) -> None: ...
    def is_set(self) -> bool:
        return False


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(Patience, "waits", [])
    monkeypatch.setattr("reagent.models.http.client.Event", Patience)
    return Patience.waits


def test_a_rate_spaces_requests(patience: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    pace = _RateLimiter(50.0)
    monkeypatch.setattr("reagent.models.http.client.time.monotonic", lambda: 1000.0)
    for _ in range(4):
        pace.wait(Patience())  # type: ignore[arg-type]
    assert patience == pytest.approx([0.02, 0.04, 0.06])
    pace.hold(3.0)
    pace.wait(Patience())  # type: ignore[arg-type]
    assert patience[-1] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [("7", 7.0, 7.0), ("1.5", 1.5, 1.5), ("in a minute", 1, 60), ("soon", 0.3, 0.7)],
)
def test_as_long_is_waited_as_the_server_asks_for(
    faulty: Callable[..., Any], patience: list[float], value: str, low: float, high: float
) -> None:
    if value == "in a minute":
        value = formatdate(time.time() + 60, usegmt=True)
    _, connect = faulty({2: status(429, {"Retry-After": value})}, concurrency=1, backoff=0.5)
    reagent.explain(connect(), PROMPT, **QUICK)
    assert low <= patience[0] <= high


def test_waits_grow(faulty: Callable[..., Any], patience: list[float]) -> None:
    _, connect = faulty({n: status(500) for n in (2, 3, 4)}, concurrency=1, backoff=1.0)
    reagent.explain(connect(), PROMPT, **QUICK)
    assert [round(wait / 2**n) for n, wait in enumerate(patience)] == [1, 1, 1]
