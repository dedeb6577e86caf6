"""A job as server-sent events."""

from collections.abc import AsyncIterator
from typing import Any

from reagent.web.jobs import Job, JobState, JobStatus
from reagent.web.responses import dumps


async def events(job: Job) -> AsyncIterator[str]:
    """The latest state first, then what changes; a comment where nothing does, so that nobody hangs up."""
    seen: JobState | None = None
    async for look in job.looks():
        if look is None:
            yield ": still here\n\n"
            continue
        for name, data in changes(seen, look):
            yield f"event: {name}\ndata: {dumps(data)}\n\n"
        seen = look


def changes(seen: JobState | None, now: JobState) -> list[tuple[str, Any]]:
    """What is new since the state that was seen last.

    >>> changes(JobState(JobStatus.RUNNING), JobState(JobStatus.RUNNING, answer=" To"))
    [('token', {'text': ' To'})]
    """
    found: list[tuple[str, Any]] = []
    if not now.state.ended and (seen is None or seen.state != now.state):
        found.append(("state", {"state": now.state}))
    if now.answer is not None and (seen is None or seen.answer != now.answer):
        found.append(("token", {"text": now.answer}))
    if now.total and (seen is None or (seen.done, seen.total) != (now.done, now.total)):
        found.append(("progress", {"done": now.done, "total": now.total}))
    if now.state is JobStatus.DONE:
        found.append(("done", now.view))
    elif now.state is JobStatus.FAILED:
        found.append(("failed", {"error": now.error}))
    elif now.state is JobStatus.CANCELLED:
        found.append(("cancelled", {}))
    elif now.view is not None and (seen is None or seen.view is not now.view):
        found.append(("partial", now.view))
    return found
