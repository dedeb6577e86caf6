"""A service, and a desk whose model waits until it is told to go on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reagent.web.config import Limits
from reagent.web.jobs import JobQueue
from reagent.web.storage import ExplanationStore
from web.serving import Gate, Service, capitals, serving


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = serving(tmp_path)
    yield made
    made.desk.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


@pytest.fixture
def desk(gate: Gate, tmp_path: Path) -> Iterator[JobQueue]:
    """A desk with room for two, whose model waits at the gate."""
    made = JobQueue(capitals(gate), ExplanationStore(tmp_path), Limits(queue=2))
    yield made
    gate.open()
    made.close()
