"""Jobs on disk, so that a service that was killed continues with them when it starts again.

    <folder>/jobs-<key of the model>/<id>.json    a job that waits or runs, or that ended without a result
    <folder>/jobs-<key of the model>.lock         held by the service that runs these jobs

A job with a result has no such file: the result itself is in the folder of results. The operating system releases the
lock when a process ends, however it ends.
"""

import hashlib
import json
import logging
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from reagent.atomic_io import atomic_write, read_json
from reagent.errors import FileError

MAX_STARTS = 3  # a job during which the service ended so many times may be the reason
MAX_ENDED = 200  # the oldest files of ended jobs are deleted
_NAME = re.compile(r"[0-9a-f]{16}")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SavedJob:
    """A job as it is saved; without `status` it has not ended."""

    name: str
    kind: str
    body: Mapping[str, Any]
    created: float  # seconds; jobs continue in this order
    starts: int = 0
    status: str | None = None
    error: str | None = None


class SavedJobs:
    """The jobs of one service. If another service on the folder runs the same model, nothing is saved."""

    def __init__(self, folder: Path, model: str) -> None:
        key = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        self.folder = folder / f"jobs-{key}"
        self._lock = FileLock(folder / f"jobs-{key}.lock", thread_local=False)
        self.jobs: dict[str, SavedJob] = {}
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)  # prompts are private
            self._lock.acquire(timeout=0)
        except (OSError, Timeout) as error:
            reason = "another service uses it" if isinstance(error, Timeout) else str(error)
            logger.warning(
                "jobs are not saved in %s (%s): they are lost if this service is killed; give another --folder",
                folder, reason,
            )  # fmt: skip
            return
        read = (_read(path) for path in self.folder.glob("*.json"))
        self.jobs = {job.name: job for job in sorted(filter(None, read), key=lambda job: job.created)}

    def add(self, name: str, kind: str, body: Mapping[str, Any]) -> None:
        self._write(SavedJob(name, kind, body, time.time()))

    def start(self, name: str) -> int:
        """Count that the job begins to run; return how many times it did."""
        job = self.jobs.get(name)
        if job is None:
            return 1
        self._write(replace(job, starts=job.starts + 1))
        return job.starts + 1

    def end(self, name: str, status: str, error: str | None = None) -> None:
        """Record how a job ended that has no result."""
        if name in self.jobs:
            self._write(replace(self.jobs[name], status=status, error=error))
            self._forget_oldest()

    def remove(self, name: str) -> None:
        """Forget a job."""
        if self.jobs.pop(name, None) is not None and self._lock.is_locked:
            with suppress(OSError):
                self._path(name).unlink()

    def close(self) -> None:
        self._lock.release()

    def _forget_oldest(self) -> None:
        ended = [name for name, job in list(self.jobs.items()) if job.status is not None]
        for name in ended[:-MAX_ENDED]:
            self.remove(name)

    def _write(self, job: SavedJob) -> None:
        if not self._lock.is_locked:
            return
        self.jobs[job.name] = job
        try:
            atomic_write(self._path(job.name), json.dumps(vars(job)) + "\n")
        except FileError as error:  # a full disk costs the safety of the job, not the job
            logger.warning("%s", error)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _read(path: Path) -> SavedJob | None:
    """A saved job; None if its file is damaged, which is logged."""
    try:
        data = read_json(path, "a saved job")
        job = SavedJob(**data)
        types = {"name": str, "kind": str, "body": dict, "created": float, "starts": int}
        if path.stem != job.name or not _NAME.fullmatch(job.name):
            raise ValueError("its name is not that of its file")
        for name, kind in types.items():
            if not isinstance(getattr(job, name), kind):
                raise ValueError(f"{name!r} is wrong")
        for name in ("status", "error"):
            if not isinstance(getattr(job, name), str | None):
                raise ValueError(f"{name!r} is wrong")
    except (TypeError, ValueError) as error:  # FileError is a ValueError
        logger.warning("the saved job %s is left out: it is damaged (%s)", path.name, error)
        return None
    return job
