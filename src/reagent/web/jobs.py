"""Explanations as jobs: one worker on one model, and a queue that ends somewhere.

A job's state is one frozen record, replaced as a whole by the worker. Whoever watches compares the record
with the one seen last; so nobody waits for a slow reader, and who comes late sees the latest state first.
"""

import asyncio
import secrets
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from reagent.api.explain import run
from reagent.errors import FileError, InputError, ReagentError
from reagent.explanation import Explanation
from reagent.methods import Progress
from reagent.models.base import Model
from reagent.models.cache import say
from reagent.request import ExplainRequest
from reagent.views.html import to_view_data
from reagent.views.text import shorten
from reagent.web.config import Limits
from reagent.web.storage import ExplanationStore

REMEMBERED = 64  # jobs that ended; older ones are found on the shelf
HISTORY = 200
NAME_LENGTH = 200
REFINED = 0.2  # seconds between two pictures, at least
QUIET = 10.0  # seconds without news until a watcher is told that nothing is wrong


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self not in (JobStatus.QUEUED, JobStatus.RUNNING)


class CancelledError(Exception):
    """Somebody no longer wants to know."""


class QueueFullError(Exception):
    """As many wait as may; `seconds` is a guess when there is room again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the queue is full: try again in about {seconds} s")
        self.seconds = seconds


@dataclass(frozen=True)
class JobState:
    """All that there is to see of a job at one moment."""

    state: JobStatus = JobStatus.QUEUED
    answer: str | None = None
    done: int = 0
    total: int = 0
    view: Mapping[str, Any] | None = None  # what view.js draws; refined until the job ends
    error: str | None = None


class Job:
    """One explanation in the making; `request` is what it explains."""

    def __init__(self, name: str, request: ExplainRequest | None, look: JobState | None = None) -> None:
        self.name, self.request = name, request
        self.look = look or JobState()
        self.cancelled = False
        self._lock = threading.Lock()
        self._bells: list[Callable[[], None]] = []

    def tell(self, look: JobState) -> None:
        """A new state, which everyone who watches sees; an end is final."""
        with self._lock:
            if self.look.state.ended:
                return
            self.look = look
            bells = list(self._bells)
        for ring in bells:
            ring()

    async def looks(self) -> AsyncIterator[JobState | None]:
        """The latest state, then every newer one until the end; None when nothing happened for a while."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def ring() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(changed.set)

        with self._lock:
            self._bells.append(ring)
        try:
            while True:
                changed.clear()
                look = self.look
                yield look
                if look.state.ended:
                    return
                while not changed.is_set():
                    try:
                        await asyncio.wait_for(changed.wait(), QUIET)
                    except TimeoutError:
                        yield None
        finally:
            with self._lock:
                self._bells.remove(ring)


class JobQueue:
    """Takes questions, lets them wait in a row, and answers one after the other."""

    def __init__(self, model: Model, shelf: ExplanationStore, limits: Limits) -> None:
        self.model, self.shelf, self.limits = model, shelf, limits
        self.history: deque[dict[str, Any]] = deque(maxlen=HISTORY)
        self._jobs: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._took: deque[float] = deque(maxlen=8)
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None
        self._closed = False

    # --- for those who ask ---

    def submit(self, request: ExplainRequest) -> Job:
        with self._changed:
            if len(self._waiting) >= self.limits.queue or self._closed:
                raise QueueFullError(self._patience())
            job = Job(secrets.token_hex(8), request)
            self._jobs[job.name] = job
            self._waiting.append(job)
            self._forget()
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="explaining", daemon=True)
                self._worker.start()
            self._changed.notify()
        return job

    def find(self, name: str) -> Job | None:
        """A job of this session, or one whose explanation is on the shelf."""
        job = self._jobs.get(name)
        why = None if job is not None else self.shelf.get(name)
        if why is None:
            return job
        return Job(
            name, None, JobState(JobStatus.DONE, why.completion, why.cost.probes, why.cost.probes, to_view_data(why))
        )

    def cancel(self, job: Job) -> None:
        """A job that waits is gone at once, one that runs at its next step."""
        job.cancelled = True
        with self._changed, suppress(ValueError):
            self._waiting.remove(job)
            job.tell(replace(job.look, state=JobStatus.CANCELLED))

    def counts(self) -> tuple[int, int]:
        """How many wait and how many run."""
        with self._changed:
            return len(self._waiting), int(self._running is not None)

    def close(self, seconds: float = 1.0) -> bool:
        """End everything; whether the worker did so in time."""
        with self._changed:
            self._closed = True
            jobs = [*self._waiting, *([self._running] if self._running else [])]
            self._changed.notify()
        for job in jobs:
            self.cancel(job)
            job.tell(replace(job.look, state=JobStatus.CANCELLED))
        if self._worker is not None:
            self._worker.join(seconds)
        return self._worker is None or not self._worker.is_alive()

    # --- the worker ---

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                job = self._running = self._waiting.popleft()
            begin = time.monotonic()
            try:
                self._answer(job, begin)
            finally:
                with self._changed:
                    self._running = None
                    self._took.append(time.monotonic() - begin)

    def _answer(self, job: Job, begin: float) -> None:
        """Run one job to its end, whatever happens."""
        job.tell(replace(job.look, state=JobStatus.RUNNING))
        steps = _Steps(job, begin + self.limits.seconds, self.limits.seconds)
        assert job.request is not None  # only a job from the store has none, and it never runs
        try:
            why = run(self.model, job.request, steps.progress, steps.answered)
            steps.check()
            view = to_view_data(why)
            self._keep(job.name, why)
            job.tell(replace(job.look, state=JobStatus.DONE, answer=why.completion, view=view))
        except CancelledError:
            job.tell(replace(job.look, state=JobStatus.CANCELLED))
        except ReagentError as error:
            job.tell(replace(job.look, state=JobStatus.FAILED, error=" ".join(str(error).split())))
        except Exception as error:  # the next job must find a worker
            traceback.print_exc(file=sys.stderr)
            name = type(error).__name__
            job.tell(
                replace(job.look, state=JobStatus.FAILED, error=f"unexpected {name}: see the terminal of the service")
            )

    def _keep(self, name: str, why: Explanation) -> None:
        try:
            self.shelf.put(name, why)
        except FileError as error:  # a full disk takes the link, not the answer
            say(str(error))
        entry = {"id": name, "prompt": shorten(why.prompt, NAME_LENGTH), "completion": why.completion}
        self.history.appendleft(entry | {"method": why.method["id"], "created": why.created})

    def _forget(self) -> None:
        ended = [name for name, job in self._jobs.items() if job.look.state.ended]
        for name in ended[:-REMEMBERED]:
            del self._jobs[name]

    def _patience(self) -> int:
        """Seconds until one more can wait, if the next job is as long as the last ones."""
        return min(60, max(1, round(sum(self._took) / max(1, len(self._took)))))


class _Steps:
    """What the worker reports of one job; each report is a chance to stop."""

    def __init__(self, job: Job, deadline: float, seconds: int) -> None:
        self.job, self.deadline, self.seconds = job, deadline, seconds
        self._drawn = 0.0

    def check(self) -> None:
        if self.job.cancelled:
            raise CancelledError
        if time.monotonic() > self.deadline:
            raise InputError(f"it took more than {self.seconds} s: ask for fewer tokens or probes, or a faster method")

    def answered(self, text: str) -> None:
        self.check()
        self.job.tell(replace(self.job.look, answer=text))

    def progress(self, now: Progress) -> None:
        self.check()
        look = replace(self.job.look, done=now.done, total=now.total)
        if isinstance(now.partial, Explanation) and time.monotonic() - self._drawn > REFINED:
            look = replace(look, view=to_view_data(now.partial))
            self._drawn = time.monotonic()
        self.job.tell(look)
