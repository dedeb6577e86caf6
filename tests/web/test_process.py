"""`reagent serve` as a process of its own, asked over the network as a browser asks."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from reagent.cli import serve as command

COMMAND = [sys.executable, "-m", "reagent", "serve"]


@contextmanager
def started(*words: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
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


def refused(*words: str, **variables: str) -> str:
    """What is said when the command stops before it starts."""
    answer = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=60, env={**os.environ, **variables}
    )
    assert answer.returncode == 2, answer.stderr
    (line,) = answer.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def test_a_job_over_the_wire_and_ctrl_c_while_another_runs(tiny_folder: Path, tmp_path: Path) -> None:
    with started("--model", str(tiny_folder), "--folder", str(tmp_path)) as (process, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        with httpx.Client(base_url=address, timeout=60) as client:
            asked = {"prompt": "My aunt moved to Japan", "max_new_tokens": 3}
            name = client.post("api/jobs", json=asked).json()["id"]
            seen: list[str] = []
            with client.stream("GET", f"api/jobs/{name}/events") as stream:
                seen = [line.removeprefix("event: ") for line in stream.iter_lines() if line.startswith("event: ")]
            assert seen[-1] == "done"
            assert seen.index("token") < seen.index("partial") < seen.index("done")  # the answer, then its reasons
            assert (tmp_path / f"{name}.json").is_file()
            long = asked | {"method": "reagent", "preset": "paper"}
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
        told = process.stderr.read()
        assert "Traceback" not in told
        assert "GET /" not in told  # no log of who asked what


def test_a_remote_service_gives_its_token_once(tiny_folder: Path, tmp_path: Path) -> None:
    words = ("--model", str(tiny_folder), "--folder", str(tmp_path), "--host", "0.0.0.0", "--allow-remote")
    with started(*words) as (process, address):
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
        _, told = process.communicate(timeout=20)
        assert token not in told


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--port", str(port))
    assert f"port {port}" in said
    assert "choose another with --port" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_other_machines_come_in_only_where_that_was_said(host: str) -> None:
    assert "add --allow-remote" in refused("--host", host)


def test_a_token_that_can_be_guessed_is_refused() -> None:
    assert "at least 16" in refused("--allow-remote", "--port", "0", REAGENT_TOKEN="short")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--queue", "0"), "queue"),
        (("--max-prompt", "0"), "prompt"),
        (("--model", "no-such-folder/at-all", "--port", "0"), "no-such-folder"),
        (("--name", "lab.example"), "--allow-remote"),
    ],
)
def test_bad_options_are_one_line(words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)


def test_a_token_from_the_environment_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REAGENT_TOKEN", "a token / of my own")
    with command.bind("127.0.0.1", 0) as listening:
        access: Any = command.admission(listening, "127.0.0.1", False, [])
        assert access.token == "a token / of my own"
        assert command.address("127.0.0.1", access).endswith("/?token=a%20token%20%2F%20of%20my%20own")
