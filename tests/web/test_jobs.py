"""The desk: one worker, a queue that ends, and watchers who may come late, leave, or change their mind."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from reagent.testing.scripted import ScriptedModel
from reagent.web import jobs
from reagent.web.config import Limits
from reagent.web.jobs import Job, JobQueue, JobStatus, QueueFullError
from reagent.web.sse import events
from reagent.web.storage import ExplanationStore
from web.serving import PROMPT, WORDS, Gate, Service, capitals, serving, wait_for

CALL: dict[str, Any] = {"prompt": PROMPT, "max_new_tokens": 1}


def names(text: str) -> list[str]:
    return [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]


def watched(job: Job) -> str:
    async def all_of_it() -> str:
        return "".join([part async for part in events(job)])

    return asyncio.run(asyncio.wait_for(all_of_it(), 20))


def held(desk: JobQueue, gate: Gate) -> Job:
    """A job that runs and waits at the gate."""
    gate.shut()
    job = desk.submit(CALL)
    assert gate.reached.wait(20)
    return job


def test_one_runs_some_wait_and_the_rest_is_told_when_to_come_again(desk: JobQueue, gate: Gate) -> None:
    jobs = [held(desk, gate), desk.submit(CALL), desk.submit(CALL)]
    assert desk.counts() == (2, 1)
    with pytest.raises(QueueFullError) as full:
        desk.submit(CALL)
    assert 1 <= full.value.seconds <= 60
    gate.open()
    wait_for(lambda: all(job.look.state is JobStatus.DONE for job in jobs))
    assert desk.counts() == (0, 0)
    assert [entry["id"] for entry in desk.history] == [job.name for job in reversed(jobs)]


def test_a_full_queue_is_429_with_retry_after(gate: Gate, tmp_path: Path) -> None:
    service = serving(tmp_path, capitals(gate), Limits(queue=1))
    held(service.desk, gate)
    service.ask()
    answer = service.client.post("/api/jobs", json=CALL)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert "full" in answer.json()["error"]
    gate.open()
    service.desk.close()


def test_who_cancels_while_waiting_is_gone_at_once_and_makes_room(desk: JobQueue, gate: Gate) -> None:
    running, first, second = held(desk, gate), desk.submit(CALL), desk.submit(CALL)
    desk.cancel(first)
    assert first.look.state is JobStatus.CANCELLED
    third = desk.submit(CALL)
    gate.open()
    wait_for(lambda: third.look.state.ended)
    assert [job.look.state for job in (running, first, second, third)] == ["done", "cancelled", "done", "done"]


def test_a_job_that_runs_is_cancelled_at_its_next_step(gate: Gate, tmp_path: Path) -> None:
    service = serving(tmp_path, capitals(gate))
    job = held(service.desk, gate)
    assert service.client.delete(f"/api/jobs/{job.name}").json()["state"] == "running"
    gate.open()
    assert service.ended(job.name)["state"] == "cancelled"
    assert service.client.get(f"/api/explanations/{job.name}").status_code == 404
    again = service.ask()
    assert service.ended(again)["state"] == "done"
    assert service.client.delete(f"/api/jobs/{again}").json()["state"] == "done"  # too late
    service.desk.close()


def test_events_tell_the_answer_before_the_first_picture_and_end_with_the_last(desk: JobQueue, gate: Gate) -> None:
    job = held(desk, gate)

    async def watch() -> list[str]:
        seen: list[str] = []
        async for part in events(job):
            gate.open()
            seen += names(part)
        return seen

    seen = asyncio.run(asyncio.wait_for(watch(), 20))
    assert seen[0] == "state"
    assert seen.index("token") < seen.index("done")
    assert seen[-1] == "done"


def test_partial_pictures_come_and_get_surer(tmp_path: Path) -> None:
    """Every state that the worker tells, without a reader that may miss some."""
    looks = []

    class Told(Job):
        def tell(self, look: jobs.JobState) -> None:
            looks.append(look)
            super().tell(look)

    job = Told("0" * 16, CALL | {"probes": 64, "replacer": "random"})
    desk = JobQueue(capitals(), ExplanationStore(tmp_path), Limits())
    desk._answer(job, jobs.time.monotonic())
    assert looks[-1].state is JobStatus.DONE
    assert looks[1].answer == " Tokyo"
    assert looks[1].view is None
    views = [look.view for look in looks if look.view is not None]
    assert views[0] is not None
    assert sum(views[0]["stderr"][0]) > sum(views[-1]["stderr"][0])


def test_who_comes_late_sees_the_latest_state_first(service: Service) -> None:
    name = service.ask()
    service.ended(name)
    late = service.client.get(f"/api/jobs/{name}/events")
    assert late.headers["content-type"].startswith("text/event-stream")
    assert names(late.text) == ["token", "progress", "done"]


def test_a_watcher_who_leaves_is_forgotten(desk: JobQueue, gate: Gate) -> None:
    job = held(desk, gate)

    async def peek() -> None:
        watching = events(job)
        await anext(watching)
        assert len(job._bells) == 1
        await watching.aclose()  # type: ignore[attr-defined]

    asyncio.run(peek())
    assert job._bells == []
    gate.open()
    wait_for(lambda: job.look.state.ended)


def test_silence_is_filled_with_comments(desk: JobQueue, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "QUIET", 0.02)
    job = held(desk, gate)

    async def watch() -> list[str]:
        parts = []
        async for part in events(job):
            parts.append(part)
            if part.startswith(":"):
                gate.open()
        return parts

    assert ": still here\n\n" in asyncio.run(asyncio.wait_for(watch(), 20))


def test_a_job_that_takes_too_long_fails_and_the_next_one_runs(gate: Gate, tmp_path: Path) -> None:
    desk = JobQueue(capitals(gate), ExplanationStore(tmp_path), Limits(seconds=1))
    job = held(desk, gate)
    jobs.time.sleep(1.1)
    gate.open()
    wait_for(lambda: job.look.state.ended)
    assert job.look.error is not None
    assert "more than 1 s" in job.look.error
    after = desk.submit(CALL)
    wait_for(lambda: after.look.state is JobStatus.DONE)
    desk.close()


def test_a_model_that_breaks_ends_its_job_and_nothing_else(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = True

    def logits(context: Any) -> Any:
        if broken:
            raise RuntimeError("secret-path and more")
        return capitals().logits(context)

    desk = JobQueue(ScriptedModel(WORDS, logits), ExplanationStore(tmp_path), Limits())
    first = desk.submit(CALL)
    wait_for(lambda: first.look.state.ended)
    assert first.look.error == "unexpected RuntimeError: see the terminal of the service"
    assert "secret-path" in capfd.readouterr().err
    broken = False
    second = desk.submit(CALL)
    wait_for(lambda: second.look.state is JobStatus.DONE)
    desk.close()


def test_a_full_disk_takes_the_link_and_not_the_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "shelf"
    desk = JobQueue(capitals(), ExplanationStore(folder), Limits())
    folder.rmdir()
    job = desk.submit(CALL)
    wait_for(lambda: job.look.state.ended)
    assert job.look.state is JobStatus.DONE
    assert "cannot write" in capfd.readouterr().err
    desk.close()


def test_what_has_ended_is_forgotten_but_found_on_the_shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "REMEMBERED", 2)
    desk = JobQueue(capitals(), ExplanationStore(tmp_path), Limits())
    made = []
    for _ in range(5):
        made.append(desk.submit(CALL))
        wait_for(lambda: made[-1].look.state.ended)
    assert len(desk._jobs) <= 3
    assert made[0].name not in desk._jobs
    again = desk.find(made[0].name)
    assert again is not None
    assert again.look.state is JobStatus.DONE
    assert again.look.view is not None
    desk.close()


def test_closing_lets_everyone_go(desk: JobQueue, gate: Gate) -> None:
    running, waiting = held(desk, gate), desk.submit(CALL)
    assert desk.close(seconds=0.05) is False  # a pass that is under way cannot be stopped
    assert names(watched(running))[-1] == names(watched(waiting))[-1] == "cancelled"
    gate.open()
    assert desk.close(seconds=10)
    with pytest.raises(QueueFullError):
        desk.submit(CALL)


def test_the_shelf_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reagent.web.storage.KEPT", 2)
    service = serving(tmp_path)
    made = [service.ask() for _ in range(4)]
    for name in made:
        service.ended(name)
    assert {path.stem for path in tmp_path.iterdir()} <= set(made)
    assert len(list(tmp_path.iterdir())) == 2
    service.desk.close()


def test_a_file_that_is_damaged_is_no_explanation(service: Service, tmp_path: Path) -> None:
    (tmp_path / f"{'a' * 16}.json").write_text("{half")
    assert service.client.get(f"/api/explanations/{'a' * 16}").status_code == 404
