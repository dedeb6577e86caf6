"""The job queue: one worker, bounded length, late watchers, watchers that leave, and cancelled jobs."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from reagent.request import ExplainRequest
from reagent.testing.scripted import ScriptedModel
from reagent.web import jobs
from reagent.web.config import Limits
from reagent.web.jobs import Job, JobQueue, JobStatus, QueueFullError
from reagent.web.sse import stream_events
from reagent.web.storage import ResultStore
from web.service import PROMPT, WORDS, Gate, Service, capital_model, create_service, wait_for

REQUEST = ExplainRequest.build(PROMPT, max_new_tokens=1)


def event_names(text: str) -> list[str]:
    return [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]


def watch(job: Job) -> list[str]:
    """Names of all events of a job until it ends."""

    async def collect() -> list[str]:
        return [str(event.event) async for event in stream_events(job)]

    return asyncio.run(asyncio.wait_for(collect(), 20))


def start_blocked_job(queue: JobQueue, gate: Gate) -> Job:
    """A job that runs and waits at the gate."""
    gate.shut()
    job = queue.submit(REQUEST)
    assert gate.reached.wait(20)
    return job


def test_one_job_runs_some_wait_and_more_are_rejected(queue: JobQueue, gate: Gate) -> None:
    jobs = [start_blocked_job(queue, gate), queue.submit(REQUEST), queue.submit(REQUEST)]
    assert queue.counts() == (2, 1)
    with pytest.raises(QueueFullError) as full:
        queue.submit(REQUEST)
    assert 1 <= full.value.retry_after <= 60
    gate.open()
    wait_for(lambda: all(job.state.status is JobStatus.DONE for job in jobs))
    wait_for(lambda: queue.counts() == (0, 0))
    assert [entry["id"] for entry in queue.history] == [job.name for job in reversed(jobs)]


def test_a_full_queue_is_429_with_retry_after(gate: Gate, tmp_path: Path) -> None:
    service = create_service(tmp_path, capital_model(gate), Limits(queue=1))
    start_blocked_job(service.queue, gate)
    service.submit()
    response = service.client.post("/api/jobs", json={"prompt": PROMPT, "max_new_tokens": 1})
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1
    assert "full" in response.json()["error"]
    gate.open()
    service.queue.close()


def test_a_waiting_job_is_cancelled_at_once_and_makes_room(queue: JobQueue, gate: Gate) -> None:
    running, first, second = start_blocked_job(queue, gate), queue.submit(REQUEST), queue.submit(REQUEST)
    queue.cancel(first)
    assert first.state.status is JobStatus.CANCELLED
    third = queue.submit(REQUEST)
    gate.open()
    wait_for(lambda: third.state.status.ended)
    assert [job.state.status for job in (running, first, second, third)] == ["done", "cancelled", "done", "done"]


def test_pending_jobs_are_listed_in_the_order_of_the_queue(gate: Gate, tmp_path: Path) -> None:
    service = create_service(tmp_path, capital_model(gate))
    gate.shut()
    names = [service.submit()]
    assert gate.reached.wait(20)
    names.append(service.submit(prompt="aunt lives", method="random"))
    assert service.client.get("/api/jobs").json() == [
        {"id": names[0], "kind": "explanation", "state": "running", "prompt": PROMPT, "method": "reagent"},
        {"id": names[1], "kind": "explanation", "state": "queued", "prompt": "aunt lives", "method": "random"},
    ]
    gate.open()
    service.wait_for_job(names[1])
    assert service.client.get("/api/jobs").json() == []
    service.queue.close()


def test_a_running_job_is_cancelled_at_its_next_step(gate: Gate, tmp_path: Path) -> None:
    service = create_service(tmp_path, capital_model(gate))
    job = start_blocked_job(service.queue, gate)
    assert service.client.delete(f"/api/jobs/{job.name}").json()["state"] == "running"
    gate.open()
    assert service.wait_for_job(job.name)["state"] == "cancelled"
    assert service.client.get(f"/api/explanations/{job.name}").status_code == 404
    other = service.submit()
    assert service.wait_for_job(other)["state"] == "done"
    assert service.client.delete(f"/api/jobs/{other}").json()["state"] == "done"  # too late
    service.queue.close()


def test_the_answer_comes_before_the_first_result_and_done_is_the_last_event(queue: JobQueue, gate: Gate) -> None:
    job = start_blocked_job(queue, gate)

    async def watch() -> list[str]:
        names: list[str] = []
        async for event in stream_events(job):
            gate.open()
            names.append(str(event.event))
        return names

    names = asyncio.run(asyncio.wait_for(watch(), 20))
    assert names[0] == "state"
    assert names.index("token") < names.index("done")
    assert names[-1] == "done"


def test_partial_results_have_decreasing_standard_errors(tmp_path: Path) -> None:
    """Record every state that the worker publishes; a watcher may skip some."""
    states = []

    class RecordedJob(Job):
        def publish(self, state: jobs.JobState) -> None:
            states.append(state)
            super().publish(state)

    request = ExplainRequest.build(
        PROMPT, max_new_tokens=1, preset="leave-one-out", options={"probes": 64}, replacer="random"
    )
    queue = JobQueue(capital_model(), ResultStore(tmp_path), Limits())
    queue._run_job(RecordedJob("0" * 16, "explanation", request), jobs.time.monotonic())
    assert states[-1].status is JobStatus.DONE
    assert states[1].answer == " Tokyo"
    assert states[1].view is None
    views = [state.view for state in states if state.view is not None]
    assert views[0] is not None
    assert sum(views[0]["rows"][0]["stderr"]) > sum(views[-1]["rows"][0]["stderr"])


def test_a_late_watcher_sees_the_latest_state_first(service: Service) -> None:
    name = service.submit()
    service.wait_for_job(name)
    response = service.client.get(f"/api/jobs/{name}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert event_names(response.text) == ["token", "progress", "done"]


def test_a_client_that_disconnects_is_unsubscribed(gate: Gate, tmp_path: Path) -> None:
    service = create_service(tmp_path, capital_model(gate))
    job = start_blocked_job(service.queue, gate)
    subscribers = []

    async def connect() -> None:
        connected = asyncio.Event()
        path = f"/api/jobs/{job.name}/events"
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
        }

        async def receive() -> Any:
            await connected.wait()
            subscribers.append(len(job._subscribers))
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                connected.set()

        await asyncio.wait_for(service.client.app(scope, receive, send), 20)

    asyncio.run(connect())
    assert subscribers == [1]
    assert job._subscribers == []
    gate.open()
    service.queue.close()


def test_an_idle_stream_sends_comments(gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies and browsers close a connection that stays silent."""
    monkeypatch.setattr("fastapi.routing._PING_INTERVAL", 0.02)
    service = create_service(tmp_path, capital_model(gate))
    job = start_blocked_job(service.queue, gate)
    threading.Timer(0.3, gate.open).start()
    text = service.client.get(f"/api/jobs/{job.name}/events").text
    assert "\n\n: ping\n\n" in text
    assert event_names(text)[-1] == "done"
    service.queue.close()


def test_a_job_that_takes_too_long_fails_and_the_next_one_runs(gate: Gate, tmp_path: Path) -> None:
    queue = JobQueue(capital_model(gate), ResultStore(tmp_path), Limits(seconds=1))
    job = start_blocked_job(queue, gate)
    jobs.time.sleep(1.1)
    gate.open()
    wait_for(lambda: job.state.status.ended)
    assert job.state.error is not None
    assert "more than 1 s" in job.state.error
    following = queue.submit(REQUEST)
    wait_for(lambda: following.state.status is JobStatus.DONE)
    queue.close()


def test_an_exception_in_the_model_ends_only_its_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = True

    def logits(context: Any) -> Any:
        if broken:
            raise RuntimeError("secret-path and more")
        return capital_model().logits(context)

    queue = JobQueue(ScriptedModel(WORDS, logits), ResultStore(tmp_path), Limits())
    first = queue.submit(REQUEST)
    wait_for(lambda: first.state.status.ended)
    assert first.state.error == "unexpected RuntimeError: see the terminal of the service"
    assert "secret-path" in caplog.text
    broken = False
    second = queue.submit(REQUEST)
    wait_for(lambda: second.state.status is JobStatus.DONE)
    queue.close()


def test_a_full_disk_costs_the_link_and_not_the_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "explanations"
    queue = JobQueue(capital_model(), ResultStore(folder), Limits())
    folder.rmdir()
    job = queue.submit(REQUEST)
    wait_for(lambda: job.state.status.ended)
    assert job.state.status is JobStatus.DONE
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "cannot write" in record.getMessage()
    queue.close()


def test_old_jobs_are_read_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_ENDED_JOBS", 2)
    queue = JobQueue(capital_model(), ResultStore(tmp_path), Limits())
    submitted = []
    for _ in range(5):
        submitted.append(queue.submit(REQUEST))
        wait_for(lambda: submitted[-1].state.status.ended)
    assert len(queue._jobs) <= 3
    assert submitted[0].name not in queue._jobs
    job = queue.find(submitted[0].name)
    assert job is not None
    assert job.state.status is JobStatus.DONE
    assert job.state.view is not None
    queue.close()


def test_closing_the_queue_ends_all_streams(queue: JobQueue, gate: Gate) -> None:
    running, waiting = start_blocked_job(queue, gate), queue.submit(REQUEST)
    assert queue.close(seconds=0.05) is False  # a forward pass cannot be interrupted
    assert watch(running)[-1] == watch(waiting)[-1] == "cancelled"
    gate.open()
    assert queue.close(seconds=10)
    with pytest.raises(QueueFullError):
        queue.submit(REQUEST)


def test_the_store_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reagent.web.storage.MAX_STORED", 2)
    service = create_service(tmp_path)
    names = [service.submit() for _ in range(4)]
    for name in names:
        service.wait_for_job(name)
    assert {path.stem for path in tmp_path.glob("*.json")} <= set(names)
    assert len(list(tmp_path.glob("*.json"))) == 2
    service.queue.close()


def test_a_damaged_file_is_not_an_explanation(service: Service, tmp_path: Path) -> None:
    (tmp_path / f"{'a' * 16}.json").write_text("{half")
    assert service.client.get(f"/api/explanations/{'a' * 16}").status_code == 404
