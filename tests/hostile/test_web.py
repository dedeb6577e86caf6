"""A few attacks on the service of each kind, and one kill; `make soak` tries thousands."""

import argparse
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from hostile import kills, soak
from hostile.web_attacks import ATTACKS


@pytest.mark.parametrize("kind", ATTACKS)
def test_no_request_ends_the_service(kind: str) -> None:
    for number in range(5):
        ATTACKS[kind](np.random.default_rng([0, zlib.crc32(kind.encode()), number]))


def test_nobody_loses_an_answer_when_the_service_is_killed() -> None:
    found = kills.kill_service(people=4, kills=1)
    assert found["states"] == {"done": 4}


def test_the_soak_continues_and_summarises_what_it_tried(tmp_path: Path) -> None:
    options = argparse.Namespace(count=2, first=0, minutes=1.0, seed=0, state=tmp_path / "state.json")

    def fail(rng: np.random.Generator) -> None:
        assert rng.random() < 0, "as it must"

    attacks = soak.find_attacks(["suite_file"]) | {"file.wrong": fail}
    for options.count in (2, 5):  # the second run continues the first
        state = soak.read_state(options)
        soak.attack_all(attacks, state, options, time.monotonic())
    found = soak.summarize(soak.read_state(options))
    assert found["areas"] == {"file": {"kinds": 2, "attempts": 10, "failures": 5}}
    assert found["failures"] == 5
    assert "as it must" in found["kinds"]["file.wrong"]["examples"][0]["problem"]
