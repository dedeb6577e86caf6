"""A service, and a job queue whose model waits at a gate."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reagent.web.config import Limits
from reagent.web.jobs import JobQueue
from reagent.web.storage import ResultStore
from web.service import Gate, Service, capital_model, create_service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = create_service(tmp_path)
    yield service
    service.queue.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def queue(gate: Gate, tmp_path: Path) -> Iterator[JobQueue]:
    """A queue for two waiting jobs, whose model waits at the gate."""
    queue = JobQueue(capital_model(gate), ResultStore(tmp_path), Limits(queue=2))
    yield queue
    gate.open()
    queue.close()
