"""The connection to a server: a pool, a pace, and patience with what may pass."""

import json
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, TypeVar

import httpx2

from reagent.errors import ServerError
from reagent.models.base import Meter
from reagent.models.http.config import KEYS, Address, Connection
from reagent.models.http.response_cache import Store

MAY_PASS = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
LONGEST_BACKOFF = 30.0  # seconds between two tries
LONGEST_WAIT = 120.0  # what a server may ask for; more than that is an error
T = TypeVar("T")


class RequestRejectedError(ServerError):
    """The server said no: at once where asking again would not help, else as often as it was asked."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _MayPassError(Exception):
    """What went wrong; where the server answered, its status, and how long it asks to wait."""

    def __init__(self, problem: str, status: int | None = None, pause: float | None = None) -> None:
        super().__init__(problem)
        self.status, self.pause = status, pause


class Client:
    """Asks one server, several questions at once if it may, and keeps every reply that was paid for."""

    def __init__(self, address: Address, connection: Connection, meter: Meter) -> None:
        self.address, self.connection, self.meter = address, connection, meter
        self.store = Store(connection.cache)
        self._key = address.key()
        self._pace = _Pace(connection.rate)
        self._answered = False  # whether the server has said anything yet
        self._lock = Lock()
        self._pool: httpx2.Client | None = None

    def get(self, path: str) -> Any:
        return self._send("GET", path, None, Event())

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """One question whose reply is not kept: what a server can do may change."""
        return self._send("POST", path, body, Event())

    def ask(
        self, path: str, bodies: Sequence[Mapping[str, Any]], read: Callable[[Any], T], *, paid: bool = True
    ) -> list[T]:
        """The replies to all of `bodies`, each asked once, as `read` understands them.

        What could be read is kept at once: a failure loses only what is under way. `paid` requests are counted.
        """
        url, stop = self._url(path), Event()
        keys = [Store.key(url, body) for body in bodies]

        def one(key: str, body: Mapping[str, Any]) -> T:
            kept = self.store.get(key)
            if kept is not None:
                return read(kept)
            reply = self._send("POST", path, body, stop)
            with self._lock:
                self.meter.requests += paid
            found = read(reply)
            self.store.put(key, reply)
            return found

        wanted = dict(zip(keys, bodies, strict=True))
        found = dict(zip(wanted, self._together(one, list(wanted.items()), stop), strict=True))
        return [found[key] for key in keys]

    def close(self) -> None:
        """Let go of all connections; the next question opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _together(self, one: Callable[..., T], jobs: Sequence[tuple[Any, ...]], stop: Event) -> list[T]:
        """Do all jobs, several at once; the first failure ends it when what is under way has come in.

        Threads of our own, which do not keep an interrupted program waiting, as those of a pool would.
        """
        if len(jobs) <= 1 or self.connection.concurrency == 1:
            return [one(*job) for job in jobs]
        todo, done = deque(enumerate(jobs)), SimpleQueue[tuple[int, T | Exception]]()

        def work() -> None:
            while not stop.is_set():
                try:
                    i, job = todo.popleft()
                except IndexError:
                    return
                try:
                    done.put((i, one(*job)))
                except Exception as error:
                    stop.set()
                    done.put((i, error))

        threads = [Thread(target=work, daemon=True) for _ in range(min(self.connection.concurrency, len(jobs)))]
        for thread in threads:
            thread.start()
        found: dict[int, T] = {}
        try:
            while len(found) < len(jobs):
                i, answer = done.get()
                if isinstance(answer, Exception):
                    for thread in threads:
                        thread.join()
                    raise answer
                found[i] = answer
        finally:
            stop.set()
        return [found[i] for i in range(len(jobs))]

    # --- one request ---

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, stop: Event) -> Any:
        url, delay = self._url(path), self.connection.backoff
        for left in reversed(range(self.connection.retries + 1)):
            self._pace.wait(stop)
            try:
                return self._once(method, url, body)
            except _MayPassError as trouble:
                if trouble.pause is not None and left:
                    self._pace.hold(trouble.pause)  # the server speaks to all of us
                pause = delay * random.uniform(0.75, 1.25) if trouble.pause is None else trouble.pause
                if left == 0 or stop.wait(pause):
                    raise self._failure(trouble) from trouble
                delay = min(2 * delay, LONGEST_BACKOFF)
        raise AssertionError("there is always a last try")

    def _once(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        try:
            response = self._http.request(method, url, json=body)
        except httpx2.TransportError as error:
            problem = _in_words(error, self.connection.timeout)
            if isinstance(error, httpx2.ConnectError) and not self._answered:
                raise ServerError(f"{self.address.api} {problem}; is it running, and is the address right?") from error
            raise _MayPassError(problem) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ServerError(f"cannot ask {self.address.api}: {self._hidden(str(error))}") from error
        self._answered = True
        if response.is_success:
            try:
                return response.json()
            except ValueError as error:
                raise _MayPassError("answered with something that is not JSON") from error
        status, problem = response.status_code, f"answered {response.status_code}: {self._said(response)}"
        if status not in MAY_PASS or "insufficient_quota" in response.text:
            raise RequestRejectedError(f"{self.address.api} {problem}{_hint(status)}", status)
        pause = _retry_after(response)
        if pause is not None and pause > LONGEST_WAIT:
            raise RequestRejectedError(
                f"{self.address.api} {problem}; it asks to wait {pause:.0f} s: try again later", status
            )
        raise _MayPassError(problem, status, pause)

    def _failure(self, trouble: _MayPassError) -> ServerError:
        tries = self.connection.retries + 1
        kept = "" if self.connection.cache is None else "; what was answered before is in the cache"
        told = f"{self.address.api} {trouble} ({tries} {'try' if tries == 1 else 'tries'}){kept}"
        return ServerError(told) if trouble.status is None else RequestRejectedError(told, trouble.status)

    @property
    def _http(self) -> httpx2.Client:
        with self._lock:
            if self._pool is None:
                many = self.connection.concurrency
                self._pool = httpx2.Client(
                    timeout=self.connection.timeout,
                    limits=httpx2.Limits(max_connections=many, max_keepalive_connections=many),
                    headers={} if self._key is None else {"Authorization": f"Bearer {self._key}"},
                )
            return self._pool

    def _url(self, path: str) -> str:
        """A path of the API, or with a leading slash of the server."""
        return self.address.root + path if path.startswith("/") else f"{self.address.api}/{path}"

    def _said(self, response: httpx2.Response) -> str:
        """The server's own words, in one line of bounded length, without the key if it repeats that."""
        try:
            said = response.json()
            for name in ("error", "message", "detail"):
                if isinstance(said, dict) and name in said:
                    said = said[name]
            text = said if isinstance(said, str) else json.dumps(said)
        except ValueError:
            text = response.text
        text = " ".join(self._hidden(text).split()) or response.reason_phrase or "no reason given"
        return text if len(text) <= 300 else text[:299] + "…"

    def _hidden(self, text: str) -> str:
        return text if self._key is None else text.replace(self._key, "***")


class _Pace:
    """At most so many requests per second, over all threads."""

    def __init__(self, rate: float | None) -> None:
        self.gap = 0.0 if rate is None else 1 / rate
        self.next = 0.0
        self.lock = Lock()

    def wait(self, stop: Event) -> None:
        with self.lock:
            now = time.monotonic()
            begin = max(now, self.next)
            self.next = begin + self.gap
        if begin > now:
            stop.wait(begin - now)

    def hold(self, seconds: float) -> None:
        with self.lock:
            self.next = max(self.next, time.monotonic() + seconds)


def _in_words(error: httpx2.TransportError, timeout: float) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return f"did not answer within {timeout:g} s"
    if isinstance(error, httpx2.ConnectError):
        return f"cannot be reached ({error})"
    return f"broke off the connection ({str(error) or type(error).__name__})"


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds to wait, as the server says: a number or a date."""
    value = response.headers.get("Retry-After", "").strip()
    if value.replace(".", "", 1).isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # nothing, or a date without its zone
        return None


def _hint(status: int) -> str:
    if status in (401, 403):
        return f"; set the key of this server in the environment, as {KEYS[0]} (or {KEYS[1]}, over https)"
    return "; is the address right?" if status == 404 else ""
