"""Explanations and citations as jobs: one worker thread, one model and a bounded queue.

The state of a job is one frozen record, which the worker replaces as a whole. Watchers are notified of a change
and read the latest record. A slow watcher therefore delays no other, and a late one sees the latest state first.
"""

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from reagent.errors import FileError, InputError, ReagentError
from reagent.explanation import Explanation
from reagent.methods import Progress
from reagent.models.base import Model
from reagent.web.config import Limits
from reagent.web.results import (
    JobRequest,
    Kind,
    Result,
    answer_of,
    compute,
    count_probes,
    kind_of,
    summarize_request,
    to_view_data,
)
from reagent.web.saved_jobs import MAX_STARTS, SavedJob, SavedJobs
from reagent.web.storage import ResultStore

MAX_ENDED_JOBS = 64  # in memory; the results of older jobs are read from the store
HISTORY_LENGTH = 200
PARTIAL_INTERVAL = 0.2  # minimum seconds between two partial results

logger = logging.getLogger(__name__)


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self not in (JobStatus.QUEUED, JobStatus.RUNNING)


class JobCancelledError(Exception):
    """Raised in the worker to stop a job that was cancelled."""


class QueueFullError(Exception):
    """The queue is full; `retry_after` estimates the seconds until there is room again."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full: try again in about {retry_after} s")
        self.retry_after = retry_after


@dataclass(frozen=True)
class JobState:
    """The state of a job at one moment."""

    status: JobStatus = JobStatus.QUEUED
    answer: str | None = None
    done: int = 0
    total: int = 0
    view: Mapping[str, Any] | None = None  # the input of view.js or citations.js; refined until the job ends
    error: str | None = None


class Job:
    """One request that waits, runs or has ended.

    `body` is the JSON of the request, from which a page can fill its form again. A job that was read from the
    store has neither a request nor a body.
    """

    def __init__(
        self,
        name: str,
        kind: Kind,
        request: JobRequest | None,
        body: Mapping[str, Any] | None = None,
        state: JobState | None = None,
    ) -> None:
        self.name, self.kind, self.request, self.body = name, kind, request, body
        self.state = state or JobState()
        self.cancel_requested = False
        self._lock = threading.Lock()
        self._subscribers: list[Callable[[], None]] = []

    def publish(self, state: JobState) -> None:
        """Replace the state and notify all watchers. The state of a job that has ended never changes."""
        with self._lock:
            if self.state.status.ended:
                return
            self.state = state
            subscribers = list(self._subscribers)
        for notify in subscribers:
            notify()

    async def states(self) -> AsyncIterator[JobState]:
        """Yield the latest state, then newer ones until the job ends. States between two reads are skipped."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(changed.set)

        with self._lock:
            self._subscribers.append(notify)
        try:
            while True:
                changed.clear()
                state = self.state
                yield state
                if state.status.ended:
                    return
                await changed.wait()
        finally:
            with self._lock:
                self._subscribers.remove(notify)


class JobQueue:
    """Accepts requests and answers them one after the other."""

    def __init__(self, model: Model, store: ResultStore, limits: Limits, saved: SavedJobs | None = None) -> None:
        self.model, self.store, self.limits, self.saved = model, store, limits, saved
        self.history: deque[dict[str, Any]] = deque(maxlen=HISTORY_LENGTH)
        self._jobs: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._durations: deque[float] = deque(maxlen=8)  # seconds of the last jobs
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None
        self._closed = False

    # --- called by the routes ---

    def submit(self, request: JobRequest, body: Mapping[str, Any] | None = None) -> Job:
        with self._changed:
            if len(self._waiting) >= self.limits.queue or self._closed:
                raise QueueFullError(self._estimate_wait())
            job = Job(secrets.token_hex(8), kind_of(request), request, body)
            if self.saved is not None and body is not None:
                self.saved.add(job.name, job.kind, body)
            self._enqueue(job)
        return job

    def restore(self, build: Callable[[Kind, Mapping[str, Any]], JobRequest]) -> None:
        """Continue with the jobs of a service that was killed; `build` makes their requests again."""
        for job in [] if self.saved is None else list(self.saved.jobs.values()):
            if job.status is None:
                self._restore(job, build)

    def _restore(self, job: SavedJob, build: Callable[[Kind, Mapping[str, Any]], JobRequest]) -> None:
        assert self.saved is not None
        if self.store.get(job.name) is not None:
            self.saved.remove(job.name)
            return
        kind: Kind = "citations" if job.kind == "citations" else "explanation"
        error = f"the service ended {job.starts} times while this job was computed: ask for less, or check its memory"
        if job.starts < MAX_STARTS:
            try:
                request = build(kind, job.body)
            except ReagentError as refusal:
                error = f"the service was started again and does not accept this job now: {refusal}"
            else:
                with self._changed:
                    self._enqueue(Job(job.name, kind, request, job.body))
                return
        self.saved.end(job.name, JobStatus.FAILED, error)

    def _enqueue(self, job: Job) -> None:
        self._jobs[job.name] = job
        self._waiting.append(job)
        self._forget_old_jobs()
        if self._worker is None:
            self._worker = threading.Thread(target=self._run_jobs, name="reagent-worker", daemon=True)
            self._worker.start()
        self._changed.notify()

    def find(self, name: str) -> Job | None:
        """Return a job in memory, or an ended job for a result in the store or a saved job."""
        job = self._jobs.get(name)
        result = None if job is not None else self.store.get(name)
        if result is None:
            return job or self._find_saved(name)
        probes = count_probes(result)
        state = JobState(JobStatus.DONE, answer_of(result), probes, probes, to_view_data(result))
        return Job(name, kind_of(result), None, state=state)

    def _find_saved(self, name: str) -> Job | None:
        saved = None if self.saved is None else self.saved.jobs.get(name)
        if saved is None or saved.status not in (JobStatus.FAILED, JobStatus.CANCELLED):
            return None
        kind: Kind = "citations" if saved.kind == "citations" else "explanation"
        return Job(name, kind, None, saved.body, JobState(JobStatus(saved.status), error=saved.error))

    def cancel(self, job: Job) -> None:
        """Cancel a waiting job at once, and a running one at its next progress report."""
        job.cancel_requested = True
        with self._changed, suppress(ValueError):
            self._waiting.remove(job)
            self._end(job, JobStatus.CANCELLED)

    def pending(self) -> list[Job]:
        """Return the running job and the waiting ones, in the order in which they are computed."""
        with self._changed:
            jobs = [*([self._running] if self._running else []), *self._waiting]
        return [job for job in jobs if not job.state.status.ended]

    def counts(self) -> tuple[int, int]:
        """Return the numbers of waiting and of running jobs."""
        with self._changed:
            return len(self._waiting), int(self._running is not None)

    def close(self, seconds: float = 1.0) -> bool:
        """Cancel all jobs; return whether the worker stopped within `seconds`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        for job in self.pending():
            self.cancel(job)
            self._end(job, JobStatus.CANCELLED)
        if self._worker is not None:
            self._worker.join(seconds)
        if self.saved is not None:
            self.saved.close()
        return self._worker is None or not self._worker.is_alive()

    # --- the worker ---

    def _run_jobs(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                job = self._running = self._waiting.popleft()
            begin = time.monotonic()
            try:
                self._run_job(job, begin)
            finally:
                with self._changed:
                    self._running = None
                    self._durations.append(time.monotonic() - begin)

    def _run_job(self, job: Job, begin: float) -> None:
        """Run one job to its end. No exception leaves this method, because the worker must survive."""
        job.publish(replace(job.state, status=JobStatus.RUNNING))
        callbacks = _JobCallbacks(job, begin + self.limits.seconds, self.limits.seconds)
        assert job.request is not None  # jobs from the store are never queued
        if self.saved is not None:
            self.saved.start(job.name)
        try:
            result = compute(self.model, job.request, callbacks.on_progress, callbacks.on_answer)
            callbacks.check()
            view = to_view_data(result)
            self._save(job, job.request, result)
            job.publish(replace(job.state, status=JobStatus.DONE, answer=answer_of(result), view=view))
        except JobCancelledError:
            self._end(job, JobStatus.CANCELLED)
        except ReagentError as error:
            self._end(job, JobStatus.FAILED, " ".join(str(error).split()))
        except Exception as error:
            logger.exception("a job failed unexpectedly")
            self._end(job, JobStatus.FAILED, f"unexpected {type(error).__name__}: see the terminal of the service")

    def _end(self, job: Job, status: JobStatus, error: str | None = None) -> None:
        """End a job without a result. It is saved first: what a client has seen stays so after a restart."""
        if self.saved is not None and not job.state.status.ended:
            self.saved.end(job.name, status, error)
        job.publish(replace(job.state, status=status, error=error))

    def _save(self, job: Job, request: JobRequest, result: Result) -> None:
        try:
            self.store.put(job.name, result)
            if self.saved is not None:
                self.saved.remove(job.name)
        except FileError as error:  # a full disk costs the link, not the answer
            logger.warning("%s", error)
            if self.saved is not None:
                self.saved.end(job.name, JobStatus.FAILED, f"the result could not be saved: {error}")
        texts = {**summarize_request(request), "completion": answer_of(result), "created": result.created}
        self.history.appendleft({"id": job.name, "kind": job.kind, **texts})

    def _forget_old_jobs(self) -> None:
        ended = [name for name, job in self._jobs.items() if job.state.status.ended]
        for name in ended[:-MAX_ENDED_JOBS]:
            del self._jobs[name]

    def _estimate_wait(self) -> int:
        """Return the mean duration of the last jobs in seconds, between 1 and 60."""
        return min(60, max(1, round(sum(self._durations) / max(1, len(self._durations)))))


class _JobCallbacks:
    """The callbacks of one running job. Each call raises an error if the job has to stop."""

    def __init__(self, job: Job, deadline: float, seconds: int) -> None:
        self.job, self.deadline, self.seconds = job, deadline, seconds
        self._last_view = 0.0

    def check(self) -> None:
        if self.job.cancel_requested:
            raise JobCancelledError
        if time.monotonic() > self.deadline:
            raise InputError(
                f"the {self.job.kind} took more than {self.seconds} s: use fewer tokens or probes, or a faster method"
            )

    def on_answer(self, text: str) -> None:
        self.check()
        self.job.publish(replace(self.job.state, answer=text))

    def on_progress(self, progress: Progress) -> None:
        self.check()
        state = replace(self.job.state, done=progress.done, total=progress.total)
        if isinstance(progress.partial, Explanation) and time.monotonic() - self._last_view > PARTIAL_INTERVAL:
            state = replace(state, view=to_view_data(progress.partial))
            self._last_view = time.monotonic()
        self.job.publish(state)
