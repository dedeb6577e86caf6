"""The service around models whose answer is known, and one that answers when it is told to."""

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

HERE = "http://127.0.0.1:8765"
WORDS = ["aunt", "lives", "in", "Japan", "France", "the", "capital", "Tokyo", "Paris"]
PROMPT = "aunt lives in Japan the capital"
ENDED = ("done", "failed", "cancelled")


class Gate:
    """Lets forward passes through, or keeps them waiting."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.reached = threading.Event()

    def shut(self) -> None:
        self._open.clear()
        self.reached.clear()

    def open(self) -> None:
        self._open.set()

    def passing(self) -> None:
        self.reached.set()
        assert self._open.wait(30), "the gate was never opened"


def capitals(gate: Gate | None = None) -> ScriptedModel:
    """Says "Tokyo" after "Japan" and "Paris" otherwise, as far as word 3 tells."""

    def logits(context: Ids) -> Floats:
        if gate is not None:
            gate.passing()
        table = np.zeros((len(context), len(WORDS)))
        japan = context[:, 3] == 3 if context.shape[1] > 3 else np.zeros(len(context), dtype=bool)
        table[:, 7], table[:, 8] = 6.0 * japan, 6.0 * ~japan
        return table

    return ScriptedModel(WORDS, logits)


class Service:
    """A client of one service, with what the tests ask again and again."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.desk: JobQueue = client.app.state.desk  # type: ignore[attr-defined]

    def ask(self, **question: Any) -> str:
        answer = self.client.post("/api/jobs", json={"prompt": PROMPT, "max_new_tokens": 1} | question)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.client.get(f"/api/jobs/{name}").json())

    def ended(self, name: str) -> dict[str, Any]:
        wait_for(lambda: self.job(name)["state"] in ENDED)
        return self.job(name)


def wait_for(true: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def serving(folder: Path, model: Any = None, limits: Limits | None = None, access: Access | None = None) -> Service:
    settings = ServiceConfig(limits or Limits(), access or Access(), folder)
    return Service(TestClient(create_app(model or capitals(), settings), HERE, raise_server_exceptions=False))
