"""The states of a job as server-sent events."""

from collections.abc import AsyncIterator
from typing import Any

from fastapi.sse import ServerSentEvent

from reagent.web.jobs import Job, JobState, JobStatus
from reagent.web.responses import dumps


async def stream_events(job: Job) -> AsyncIterator[ServerSentEvent]:
    """Yield the latest state of a job, then every change until the job ends."""
    previous: JobState | None = None
    async for state in job.states():
        for name, data in list_changes(previous, state):
            # Encoded here: the encoder of FastAPI visits every number in Python, and a view has many.
            yield ServerSentEvent(event=name, raw_data=dumps(data))
        previous = state


def list_changes(before: JobState | None, now: JobState) -> list[tuple[str, Any]]:
    """Return the names and data of the events that lead from one state to the next.

    >>> list_changes(JobState(JobStatus.RUNNING), JobState(JobStatus.RUNNING, answer=" To"))
    [('token', {'text': ' To'})]
    """
    changes: list[tuple[str, Any]] = []
    if not now.status.ended and (before is None or before.status != now.status):
        changes.append(("state", {"state": now.status}))
    if now.answer is not None and (before is None or before.answer != now.answer):
        changes.append(("token", {"text": now.answer}))
    if now.total and (before is None or (before.done, before.total) != (now.done, now.total)):
        changes.append(("progress", {"done": now.done, "total": now.total}))
    if now.status is JobStatus.DONE:
        changes.append(("done", now.view))
    elif now.status is JobStatus.FAILED:
        changes.append(("failed", {"error": now.error}))
    elif now.status is JobStatus.CANCELLED:
        changes.append(("cancelled", {}))
    elif now.view is not None and (before is None or before.view is not now.view):
        changes.append(("partial", now.view))
    return changes
