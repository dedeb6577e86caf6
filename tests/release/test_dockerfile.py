"""What can be checked of the image without Docker: its rules, its sources, and its commands."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from environments import clean_variables
from release.conftest import ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.M)).splitlines()


def instruction(name: str) -> str:
    """The arguments of the last instruction with this name."""
    return [line.removeprefix(name).strip() for line in INSTRUCTIONS if line.startswith(f"{name} ")][-1]


def health_command(port: str) -> list[str]:
    words = json.loads(instruction("HEALTHCHECK").partition("CMD")[2])
    return [word.replace(instruction("EXPOSE"), port) for word in words]


@pytest.fixture(scope="module")
def service(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Port and token of a service that the entry point starts, on the loopback address and with a scripted model."""
    cache = tmp_path_factory.mktemp("cache")
    command = [*json.loads(instruction("ENTRYPOINT")), "--host", "127.0.0.1", "--port", "0", "--model", "parrot"]
    variables = clean_variables(REAGENT_CACHE=str(cache), PATH=f"{environment}:{os.environ['PATH']}")
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    where = urlsplit(process.stdout.readline().strip())
    assert where.port, process.stderr.read() if process.stderr else ""
    yield str(where.port), where.query.removeprefix("token=")
    process.send_signal(signal.SIGTERM)  # as `docker stop` does
    process.communicate(timeout=30)


def test_a_linter_finds_nothing() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or pytest.skip("hadolint is not installed")
    answer = subprocess.run([linter, str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout


def test_it_runs_as_a_user_without_rights_and_writes_only_into_its_volume() -> None:
    user = instruction("USER")
    assert int(user) > 0
    assert f"useradd --uid {user} " in TEXT
    assert INSTRUCTIONS.index(f"USER {user}") < next(i for i, line in enumerate(INSTRUCTIONS) if "ENTRYPOINT" in line)
    settings = dict(word.split("=", 1) for word in instruction("ENV").split())
    for name in ("HOME", "REAGENT_CACHE", "HF_HOME", "MPLCONFIGDIR"):
        assert settings[name].startswith((instruction("VOLUME"), "/tmp")), name
    assert "--read-only --tmpfs /tmp" in TEXT, "the documented command"


def test_all_that_is_copied_is_sent_to_the_builder() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for line in INSTRUCTIONS
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert copied == sent
    assert all((ROOT / name).exists() for name in sent)


def test_the_entry_point_serves_and_the_health_check_sees_it(service: tuple[str, str], environment: Path) -> None:
    port, token = service
    assert len(token) > 16, "other machines need a token"
    variables = clean_variables(PATH=f"{environment}:{os.environ['PATH']}")
    assert subprocess.run(health_command(port), env=variables).returncode == 0


def test_the_health_check_fails_where_nothing_answers(environment: Path) -> None:
    variables = clean_variables(PATH=f"{environment}:{os.environ['PATH']}")
    answer = subprocess.run(health_command("9"), env=variables, capture_output=True)  # nobody listens at port 9
    assert answer.returncode != 0


def test_the_page_of_the_installed_service_is_complete(service: tuple[str, str]) -> None:
    import httpx2

    port, token = service
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"}) as client:
        page = client.get("/").text
        linked = re.findall(r'(?:src|href)="(assets/[^"]+)"', page)
        assert linked
        assert all(client.get(f"/{address}").status_code == 200 for address in linked)
