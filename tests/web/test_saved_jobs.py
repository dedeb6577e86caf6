"""Jobs that survive the end of the process."""

import json
from pathlib import Path

import pytest

from reagent.web.saved_jobs import MAX_STARTS
from web.service import Gate, Service, capital_model, create_service


def kill(service: Service) -> None:
    """What the end of a process does: its lock is released, and nothing more is written."""
    assert service.queue.saved is not None
    service.queue.saved.close()


def job_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("jobs-*/*.json"))


@pytest.fixture
def killed(gate: Gate, tmp_path: Path) -> list[str]:
    """The jobs of a service that was killed while the first one ran."""
    gate.shut()
    service = create_service(tmp_path, capital_model(gate))
    names = [service.submit(seed=seed) for seed in range(3)]
    assert gate.reached.wait(10)
    kill(service)
    return names


def test_running_and_waiting_jobs_continue_in_their_order(killed: list[str], tmp_path: Path) -> None:
    service = create_service(tmp_path)
    jobs = [service.wait_for_job(name) for name in killed]
    assert [job["state"] for job in jobs] == ["done"] * 3
    assert [item["id"] for item in service.client.get("/api/history").json()] == killed[::-1]
    assert not job_files(tmp_path)
    service.queue.close()


def test_a_job_that_ends_the_service_again_and_again_fails(killed: list[str], tmp_path: Path) -> None:
    path = next(path for path in job_files(tmp_path) if path.stem == killed[0])
    data = json.loads(path.read_text())
    assert data["starts"] == 1
    path.write_text(json.dumps(data | {"starts": MAX_STARTS}))
    service = create_service(tmp_path)
    assert "ended 3 times" in service.get_job(killed[0])["error"]
    assert service.wait_for_job(killed[1])["state"] == "done"
    service.queue.close()


def test_a_job_that_is_not_valid_any_more_says_so(killed: list[str], tmp_path: Path) -> None:
    path = next(path for path in job_files(tmp_path) if path.stem == killed[1])
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"body": data["body"] | {"method": "no-such"}}))
    service = create_service(tmp_path)
    assert "does not accept this job now: unknown method 'no-such'" in service.get_job(killed[1])["error"]
    service.queue.close()


@pytest.mark.parametrize("text", ["", "[]", '{"name": 1}', "\udcff"])
def test_a_damaged_saved_job_is_left_out(killed: list[str], tmp_path: Path, text: str) -> None:
    next(path for path in job_files(tmp_path) if path.stem == killed[0]).write_bytes(
        text.encode("utf-8", "surrogateescape")
    )
    service = create_service(tmp_path)
    assert service.client.get(f"/api/jobs/{killed[0]}").status_code == 404
    assert service.wait_for_job(killed[2])["state"] == "done"
    service.queue.close()


def test_failed_and_cancelled_jobs_are_known_after_a_restart(tmp_path: Path, gate: Gate) -> None:
    gate.shut()
    service = create_service(tmp_path, capital_model(gate))
    running, waiting = service.submit(), service.submit(seed=1)
    service.client.delete(f"/api/jobs/{waiting}")
    service.client.delete(f"/api/jobs/{running}")
    gate.open()
    assert service.wait_for_job(running)["state"] == "cancelled"
    failed = service.submit(prompt="unknown words here")
    error = service.wait_for_job(failed)["error"]
    kill(service)
    again = create_service(tmp_path)
    assert [again.get_job(name)["state"] for name in (running, waiting, failed)] == ["cancelled", "cancelled", "failed"]
    assert again.get_job(failed)["error"] == error
    again.queue.close()


def test_two_services_on_one_folder_do_not_share_jobs(
    gate: Gate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate.shut()
    first = create_service(tmp_path, capital_model(gate))
    name = first.submit()
    second = create_service(tmp_path)
    assert "another service uses it" in caplog.text
    assert second.client.get(f"/api/jobs/{name}").status_code == 404
    assert second.wait_for_job(second.submit())["state"] == "done"
    gate.open()
    assert first.wait_for_job(name)["state"] == "done"
    for service in (first, second):
        service.queue.close()
