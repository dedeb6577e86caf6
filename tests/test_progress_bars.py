"""Progress of long steps: bars in a real terminal, lines elsewhere, nothing for those who want none."""

import logging
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from reagent import progress_bars
from reagent.progress_bars import step

NESTED = """
import time
from reagent.progress_bars import bar, step
with bar("loading tiny"), step("fetching tiny", 100_000_000, lambda: 45_000_000):
    time.sleep(1.2)
print("finished")
"""


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is logged without a terminal, where the interval between two lines is short."""
    monkeypatch.setattr(progress_bars, "LINE_INTERVAL", 0.3)
    logger = logging.getLogger("reagent")
    before = logger.level
    logger.setLevel(logging.INFO)
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(before)


def read_to_end(terminal: int) -> str:
    seen = b""
    with suppress(OSError):  # so ends a terminal on Linux
        while part := os.read(terminal, 4096):
            seen += part
    return seen.decode(errors="replace")


def test_in_a_terminal_a_step_inside_another_is_a_second_bar_with_its_size() -> None:
    terminal, end = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", NESTED], stderr=end, stdout=subprocess.PIPE, text=True) as process:
        os.close(end)
        seen = read_to_end(terminal)
        out, _ = process.communicate()
    os.close(terminal)
    assert out == "finished\n", "standard output has only results"
    assert re.search("loading tiny.*fetching tiny.*━.*45 MB of 100 MB", seen, re.S), seen


def test_without_a_terminal_a_long_step_logs_its_size_from_time_to_time(lines: list[str]) -> None:
    with step("fetching tiny", 100_000_000, lambda: 45_000_000):
        time.sleep(1)
    assert len(lines) >= 2
    assert set(lines) <= {"fetching tiny: 45 MB of 100 MB, 0:00", "fetching tiny: 45 MB of 100 MB, 0:01"}


def test_a_short_step_logs_nothing(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bars, "LINE_INTERVAL", 10.0)
    with step("fetching tiny", 100, lambda: 45):
        pass
    assert lines == []


def test_a_level_above_info_hides_all(lines: list[str]) -> None:
    logging.getLogger("reagent").setLevel(logging.WARNING)
    with step("fetching tiny", 100, lambda: pytest.fail("measured")):
        time.sleep(0.5)
    assert lines == []


def test_an_error_inside_a_step_ends_it(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="full"), step("fetching tiny", 100, lambda: 45):
        raise ValueError("full")
    count = len(lines)
    time.sleep(0.6)
    assert len(lines) == count
