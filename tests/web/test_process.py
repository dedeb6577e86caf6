"""`reagent serve` as a process, called over HTTP."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from reagent.cli import main
from reagent.cli import serve as command

COMMAND = [sys.executable, "-m", "reagent", "serve"]


@contextmanager
def start_service(*words: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the address that it prints."""
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", *words],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def fail_to_start(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Gives the one-line error of a command that does not start."""

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["serve", *words])
        assert stop.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        return line

    return run


def test_a_job_over_http_and_ctrl_c_while_another_runs(tiny_folder: Path, tmp_path: Path) -> None:
    with start_service("--model", str(tiny_folder), "--folder", str(tmp_path)) as (process, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        with httpx.Client(base_url=address, timeout=60) as client:
            body = {"prompt": "My aunt moved to Japan", "max_new_tokens": 3}
            name = client.post("api/jobs", json=body).json()["id"]
            with client.stream("GET", f"api/jobs/{name}/events") as stream:
                names = [line.removeprefix("event: ") for line in stream.iter_lines() if line.startswith("event: ")]
            assert names[-1] == "done"
            assert names.index("token") < names.index("partial") < names.index("done")
            assert (tmp_path / f"{name}.json").is_file()
            long = body | {"method": "reagent", "preset": "paper"}
            waiting = client.post("api/jobs", json=long).json()["id"]
            with client.stream("GET", f"api/jobs/{waiting}/events") as stream:
                lines = stream.iter_lines()
                next(line for line in lines if line.startswith("event: progress"))
                begin = time.monotonic()
                process.send_signal(signal.SIGINT)
                assert "event: cancelled" in list(lines)
        assert process.wait(20) == 130
        assert time.monotonic() - begin < 10
        assert process.stderr is not None
        log = process.stderr.read()
        assert "Traceback" not in log
        assert "GET /" not in log  # requests are not logged


def test_a_remote_service_prints_its_token_once(tiny_folder: Path, tmp_path: Path) -> None:
    words = ("--model", str(tiny_folder), "--folder", str(tmp_path), "--host", "0.0.0.0", "--allow-remote")
    with start_service(*words) as (process, address):
        token = address.partition("?token=")[2]
        assert len(token) >= 32
        port = re.findall(r":(\d+)/", address)[0]
        here = f"http://127.0.0.1:{port}/"
        with httpx.Client(base_url=here, follow_redirects=True) as client:
            assert client.get("api/health").status_code == 401
            assert client.get("", params={"token": "x" * 32}).status_code == 401
            assert client.get("", params={"token": token}).status_code == 200
            assert client.get("api/health").json()["status"] == "ok"
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=20)
        assert token not in log


def test_an_occupied_port_is_a_one_line_error(fail_to_start: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        error = fail_to_start("--port", str(port))
    assert f"port {port}" in error
    assert "choose another with --port" in error


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_a_remote_host_needs_allow_remote(fail_to_start: Callable[..., str], host: str) -> None:
    assert "add --allow-remote" in fail_to_start("--host", host)


def test_a_short_token_is_rejected(fail_to_start: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REAGENT_TOKEN", "short")
    assert "at least 16" in fail_to_start("--allow-remote", "--port", "0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--queue", "0"), "queue"),
        (("--max-prompt", "0"), "prompt"),
        (("--model", "no-such-folder/at-all", "--port", "0"), "no-such-folder"),
        (("--name", "lab.example"), "--allow-remote"),
    ],
)
def test_wrong_options_are_one_line_errors(
    fail_to_start: Callable[..., str], words: tuple[str, ...], message: str
) -> None:
    assert message in fail_to_start(*words)


def test_the_token_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REAGENT_TOKEN", "a token / of my own")
    with command.bind("127.0.0.1", 0) as listening:
        access: Any = command.make_access(listening, "127.0.0.1", False, [])
        assert access.token == "a token / of my own"
        assert command.address("127.0.0.1", access).endswith("/?token=a%20token%20%2F%20of%20my%20own")


def test_a_token_can_be_required_on_this_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REAGENT_TOKEN", raising=False)
    with command.bind("127.0.0.1", 0) as listening:
        access: Any = command.make_access(listening, "127.0.0.1", False, [], with_token=True)
        assert access.token is not None
        assert len(access.token) >= 32
        assert not access.remote
        assert access.token in command.address("127.0.0.1", access)
        assert command.make_access(listening, "127.0.0.1", False, []).token is None
