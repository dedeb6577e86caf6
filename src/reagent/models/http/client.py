"""The connection to a server: connection pool, rate limit, retries, and a cache of responses."""

import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import SimpleQueue
from threading import Event, Lock, Thread, Timer
from typing import Any, TypeVar

import httpx2

from reagent.errors import ServerError
from reagent.models.base import Meter
from reagent.models.http.body import ENCODINGS, ResponseError, parse_json, read_body
from reagent.models.http.config import KEYS, ServerAddress, ServerOptions
from reagent.models.http.response_cache import ResponseCache
from reagent.models.http.responses import visible

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
LONGEST_BACKOFF = 30.0  # seconds between two attempts
LONGEST_WAIT = 120.0  # seconds that a server may ask to wait; more is an error
T = TypeVar("T")


class RequestRejectedError(ServerError):
    """The server rejected a request: at once if a retry cannot help, otherwise after the last retry."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _TransientError(Exception):
    """A failure that may pass; with the status of the response and the requested waiting time, if there are any."""

    def __init__(self, problem: str, status: int | None = None, pause: float | None = None) -> None:
        super().__init__(problem)
        self.status, self.pause = status, pause


class Client:
    """Sends requests to one server, several at a time, and stores every response."""

    def __init__(self, address: ServerAddress, options: ServerOptions, meter: Meter) -> None:
        self.address, self.options, self.meter = address, options, meter
        self.responses = ResponseCache(options.cache)
        self._repetition = 0  # of all requests; a repetition has a place of its own in the cache
        self._key = address.key()
        self._limiter = _RateLimiter(options.rate)
        self._answered = False  # whether the server has ever responded
        self._lock = Lock()
        self._pool: httpx2.Client | None = None

    def get(self, path: str) -> Any:
        return self._send("GET", path, None, Event())

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """One request whose response is not stored, because the capabilities of a server may change."""
        return self._send("POST", path, body, Event())

    def request_all(
        self, path: str, bodies: Sequence[Mapping[str, Any]], parse: Callable[[Any], T], *, counted: bool = True
    ) -> list[T]:
        """The parsed responses to all of `bodies`; equal bodies are sent once.

        Every response is stored at once, so that a failure loses only the requests in flight. The meter counts
        `counted` requests and responses from the cache.
        """
        url, stop = self._url(path), Event()
        repeated = {"repetition": self._repetition} if self._repetition else {}
        keys = [ResponseCache.request_key(url, {**body, **repeated}) for body in bodies]

        def one(key: str, body: Mapping[str, Any]) -> T:
            stored = self.responses.get(key)
            if stored is not None:
                with self._lock:
                    self.meter.cached += counted
                return parse(stored)
            response = self._send("POST", path, body, stop)
            with self._lock:
                self.meter.requests += counted
            parsed = parse(response)
            self.responses.put(key, response)
            return parsed

        different = dict(zip(keys, bodies, strict=True))
        results = dict(zip(different, self._run_all(one, list(different.items()), stop), strict=True))
        return [results[key] for key in keys]

    @contextmanager
    def repeating(self, repetition: int) -> Iterator[None]:
        """In this block, requests are sent again although their responses are stored, once for each number."""
        self._repetition = repetition
        try:
            yield
        finally:
            self._repetition = 0

    def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _run_all(self, one: Callable[..., T], jobs: Sequence[tuple[Any, ...]], stop: Event) -> list[T]:
        """Run all jobs, several at a time. After the first failure, the running jobs finish and no others start.

        Not a thread pool: its threads would keep an interrupted program waiting.
        """
        if len(jobs) <= 1 or self.options.concurrency == 1:
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

        threads = [Thread(target=work, daemon=True) for _ in range(min(self.options.concurrency, len(jobs)))]
        for thread in threads:
            thread.start()
        results: dict[int, T] = {}
        try:
            while len(results) < len(jobs):
                i, result = done.get()
                if isinstance(result, Exception):
                    for thread in threads:
                        thread.join()
                    raise result
                results[i] = result
        finally:
            stop.set()
        return [results[i] for i in range(len(jobs))]

    # --- one request ---

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, stop: Event) -> Any:
        url, delay = self._url(path), self.options.backoff
        for left in reversed(range(self.options.retries + 1)):
            self._limiter.wait(stop)
            try:
                return self._once(method, url, body)
            except _TransientError as failure:
                if failure.pause is not None and left:
                    self._limiter.hold(failure.pause)  # for all threads
                pause = delay * random.uniform(0.75, 1.25) if failure.pause is None else failure.pause
                if left == 0 or stop.wait(pause):
                    raise self._final_error(failure) from failure
                delay = min(2 * delay, LONGEST_BACKOFF)
        raise AssertionError("there is always a last attempt")

    def _once(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        try:
            with (
                _Deadline(self.options.deadline, self._close_quietly) as deadline,
                self._http.stream(method, url, json=body) as response,
            ):
                content = read_body(response, self.options.megabytes * 2**20)
        except ResponseError as error:
            raise ServerError(f"{self.address.api} {error}") from error
        except Exception as error:
            if deadline.has_passed:
                raise ServerError(
                    f"{self.address.api} did not finish its response within {self.options.deadline:g} s: "
                    "allow more with `deadline`, as --server deadline=3600"
                ) from error
            raise self._sending_error(error) from error
        self._answered = True
        if response.is_success:
            return self._parse(content)
        status, problem = (
            response.status_code,
            f"answered {response.status_code}: {self._error_text(response, content)}",
        )
        if status not in TRANSIENT_STATUSES or b"insufficient_quota" in content:
            raise RequestRejectedError(f"{self.address.api} {problem}{_hint(status)}", status)
        pause = _retry_after(response)
        if pause is not None and pause > LONGEST_WAIT:
            raise RequestRejectedError(
                f"{self.address.api} {problem}; it asks to wait {pause:.0f} s: try again later", status
            )
        raise _TransientError(problem, status, pause)

    def _parse(self, content: bytes) -> Any:
        try:
            return parse_json(content)
        except ResponseError as error:
            raise ServerError(f"{self.address.api} {error}") from error
        except ValueError as error:
            raise _TransientError("returned something that is not JSON") from error

    def _sending_error(self, error: Exception) -> Exception:
        """What a request that failed before the end of the response means."""
        if isinstance(error, httpx2.TransportError):
            problem = visible(_describe(error, self.options.timeout))
            if isinstance(error, httpx2.ConnectError) and not self._answered:
                return ServerError(f"{self.address.api} {problem}; is it running, and is the address right?")
            return _TransientError(problem)
        if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | ValueError):
            return ServerError(f"cannot send a request to {self.address.api}: {visible(self._without_key(str(error)))}")
        return error

    def _close_quietly(self) -> None:
        with suppress(Exception):  # requests are under way
            self.close()

    def _final_error(self, failure: _TransientError) -> ServerError:
        attempts = self.options.retries + 1
        stored = "" if self.options.cache is None else "; earlier responses are in the cache"
        message = f"{self.address.api} {failure} ({attempts} {'attempt' if attempts == 1 else 'attempts'}){stored}"
        return ServerError(message) if failure.status is None else RequestRejectedError(message, failure.status)

    @property
    def _http(self) -> httpx2.Client:
        with self._lock:
            if self._pool is None:
                count = self.options.concurrency
                self._pool = httpx2.Client(
                    timeout=self.options.timeout,
                    limits=httpx2.Limits(max_connections=count, max_keepalive_connections=count),
                    headers={"Accept-Encoding": ", ".join(ENCODINGS)}
                    | ({} if self._key is None else {"Authorization": f"Bearer {self._key}"}),
                )
            return self._pool

    def _url(self, path: str) -> str:
        """The URL of a path of the API, or of the server if it begins with a slash."""
        return self.address.root + path if path.startswith("/") else f"{self.address.api}/{path}"

    def _error_text(self, response: httpx2.Response, body: bytes) -> str:
        """The error message of the server, in one line of bounded length and without the API key."""
        try:
            content = parse_json(body)
            for name in ("error", "message", "detail"):
                if isinstance(content, dict) and name in content:
                    content = content[name]
            text = content if isinstance(content, str) else json.dumps(content)
        except (ValueError, ResponseError):
            text = body.decode("utf-8", "replace")
        text = visible(self._without_key(text[:10_000])) or visible(response.reason_phrase) or "no reason given"
        return text if len(text) <= 300 else text[:299] + "…"

    def _without_key(self, text: str) -> str:
        return text if self._key is None else text.replace(self._key, "***")


class _Deadline:
    """Calls a function if a block takes too long: it closes the connections, so that the block fails."""

    def __init__(self, seconds: float, interrupt: Callable[[], None]) -> None:
        self.has_passed, self._interrupt = False, interrupt
        self._timer = Timer(seconds, self._pass)
        self._timer.daemon = True

    def _pass(self) -> None:
        self.has_passed = True
        self._interrupt()

    def __enter__(self) -> "_Deadline":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


class _RateLimiter:
    """Limits the requests per second of all threads together."""

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


def _describe(error: httpx2.TransportError, timeout: float) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return f"did not answer within {timeout:g} s"
    if isinstance(error, httpx2.ConnectError):
        return f"cannot be reached ({error})"
    return f"broke off the connection ({str(error) or type(error).__name__})"


def _retry_after(response: httpx2.Response) -> float | None:
    """The seconds to wait that the server requests, as a number or a date."""
    value = response.headers.get("Retry-After", "").strip()
    if value.replace(".", "", 1).isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):  # nothing, or a date without its zone
        return None


def _hint(status: int) -> str:
    if status in (401, 403):
        return f"; set the key of this server in the environment, as {KEYS[0]} (or {KEYS[1]}, over https)"
    return "; is the address right?" if status == 404 else ""
