"""Progress on standard error: a bar where that is a terminal, and of long runs a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from reagent.methods.base import Progress, ProgressCallback, no_progress

if TYPE_CHECKING:
    from reagent.bench.runner import RunProgress

NOW_AND_THEN = 60.0  # seconds


class _Left(ProgressColumn):
    """Speed and time left; a search that may stop early can only say "at most"."""

    def render(self, task: Task) -> Text:
        if not task.completed or not task.elapsed or task.total is None:
            return Text("…")
        speed = task.completed / task.elapsed
        seconds = round((task.total - task.completed) / speed)
        left = _clock(seconds)
        return Text(f"{speed:.1f} {task.fields['unit']}/s, at most {left} left")


@contextmanager
def waiting(what: str, quiet: bool = False) -> Iterator[None]:
    """A spinner while something of unknown length happens."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


@contextmanager
def progress_bar(what: str, quiet: bool = False, note: Callable[[], str] | None = None) -> Iterator[ProgressCallback]:
    """A bar that a method's reports move; `note` is asked for what to say besides."""
    if quiet or not sys.stderr.isatty():
        yield no_progress
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), _Left())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, unit="steps")

        def report(now: Progress) -> None:
            told = f"{what}{note()}" if note is not None else what
            bar.update(task, description=told, completed=now.done, total=now.total, unit=now.unit)

        yield report


@contextmanager
def run_progress_bar(what: str, quiet: bool = False) -> Iterator[Callable[["RunProgress"], None]]:
    """A bar that the cells of a benchmark move; where there is no terminal, a line every minute."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        told = time.monotonic()

        def say(tally: "RunProgress") -> None:
            nonlocal told
            if time.monotonic() - told >= NOW_AND_THEN:
                told = time.monotonic()
                print(f"{what}: {_told(tally)}", file=sys.stderr, flush=True)

        yield say
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def look(tally: "RunProgress") -> None:
            bar.update(task, description=f"{what}: {_told(tally)}", completed=tally.worked, total=tally.work)

        yield look


def _told(tally: "RunProgress") -> str:
    failed = f", {tally.failed} failed" if tally.failed else ""
    left = "" if tally.seconds_left is None else f", about {_clock(round(tally.seconds_left))} left"
    return f"{tally.done} of {tally.total} cells{failed}{left}"


def _clock(seconds: int) -> str:
    """
    >>> _clock(65), _clock(3665)
    ('1:05', '1:01:05')
    """
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
