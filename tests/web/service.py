"""A service with a scripted model, which can be made to wait at a gate."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from reagent.case import Floats, Ids
from reagent.testing.scripted import ScriptedModel
from reagent.web.app import create_app
from reagent.web.config import Access, Limits, ServiceConfig
from reagent.web.jobs import JobQueue

BASE_URL = "http://127.0.0.1:8765"
WORDS = ["aunt", "lives", "in", "Japan", "France", "the", "capital", "Tokyo", "Paris"]
PROMPT = "aunt lives in Japan the capital"
ENDED = ("done", "failed", "cancelled")


class Gate:
    """Lets forward passes through when open, and blocks them when shut."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.reached = threading.Event()

    def shut(self) -> None:
        self._open.clear()
        self.reached.clear()

    def open(self) -> None:
        self._open.set()

    def wait(self) -> None:
        self.reached.set()
        assert self._open.wait(30), "the gate was never opened"


def capital_model(gate: Gate | None = None) -> ScriptedModel:
    """A model that answers "Tokyo" if the text contains "Japan", and else "Paris"."""

    def logits(context: Ids) -> Floats:
        if gate is not None:
            gate.wait()
        table = np.zeros((len(context), len(WORDS)))
        japan = (context == WORDS.index("Japan")).any(axis=1)
        table[:, 7], table[:, 8] = 6.0 * japan, 6.0 * ~japan
        return table

    return ScriptedModel(WORDS, logits)


class Service:
    """A client of one service."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.queue: JobQueue = client.app.state.jobs  # type: ignore[attr-defined]

    def submit(self, **fields: Any) -> str:
        """Request an explanation and return its id."""
        response = self.client.post("/api/jobs", json={"prompt": PROMPT, "max_new_tokens": 1} | fields)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    def get_job(self, name: str) -> dict[str, Any]:
        return dict(self.client.get(f"/api/jobs/{name}").json())

    def wait_for_job(self, name: str) -> dict[str, Any]:
        """Wait until the job has ended and return it."""
        wait_for(lambda: self.get_job(name)["state"] in ENDED)
        return self.get_job(name)


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.005)


def create_service(
    folder: Path, model: Any = None, limits: Limits | None = None, access: Access | None = None
) -> Service:
    config = ServiceConfig(limits or Limits(), access or Access(), folder)
    return Service(TestClient(create_app(model or capital_model(), config), BASE_URL, raise_server_exceptions=False))
