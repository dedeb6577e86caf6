"""A few attacks on the service of each kind, and one kill; `make soak` tries thousands."""

import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from hostile import kills
from hostile.web_attacks import ATTACKS


@pytest.mark.parametrize("kind", ATTACKS)
def test_no_request_ends_the_service(kind: str) -> None:
    for number in range(5):
        ATTACKS[kind](np.random.default_rng([0, zlib.crc32(kind.encode()), number]))


def test_nobody_loses_an_answer_when_the_service_is_killed() -> None:
    found = kills.kill_service(people=4, kills=1)
    assert found["states"] == {"done": 4}


def test_the_soak_summarises_what_it_tried(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(kills.__file__).with_name("soak.py")), "--no-kills", "--only", "suite_file"]
    command += ["--state", str(tmp_path / "state.json"), "--count"]
    for count in (2, 5):  # the second run continues the first
        done = subprocess.run([*command, str(count)], capture_output=True, text=True, check=True)
    assert '"attempts": 5' in done.stdout
    assert '"failures": 0' in done.stdout
