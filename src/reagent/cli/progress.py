"""Progress on standard error: a bar in a terminal; elsewhere, for long runs, a line every minute."""

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

LINE_INTERVAL = 60.0  # seconds


class _TimeLeft(ProgressColumn):
    """Speed and an upper bound of the time left, since a search may stop early."""

    def render(self, task: Task) -> Text:
        if not task.completed or not task.elapsed or task.total is None:
            return Text("…")
        speed = task.completed / task.elapsed
        seconds = round((task.total - task.completed) / speed)
        left = _clock(seconds)
        return Text(f"{speed:.1f} {task.fields['unit']}/s, at most {left} left")


@contextmanager
def spinner(what: str, quiet: bool = False) -> Iterator[None]:
    """A spinner for work of unknown length."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


@contextmanager
def progress_bar(what: str, quiet: bool = False, note: Callable[[], str] | None = None) -> Iterator[ProgressCallback]:
    """A progress bar for a method; `note` returns text to append to its description."""
    if quiet or not sys.stderr.isatty():
        yield no_progress
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), _TimeLeft())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, unit="steps")

        def update(progress: Progress) -> None:
            text = f"{what}{note()}" if note is not None else what
            bar.update(task, description=text, completed=progress.done, total=progress.total, unit=progress.unit)

        yield update


@contextmanager
def run_progress_bar(what: str, quiet: bool = False) -> Iterator[Callable[["RunProgress"], None]]:
    """A progress bar for a benchmark; without a terminal, a line every minute."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        last = time.monotonic()

        def print_line(progress: "RunProgress") -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_INTERVAL:
                last = time.monotonic()
                print(f"{what}: {_describe(progress)}", file=sys.stderr, flush=True)

        yield print_line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def update(progress: "RunProgress") -> None:
            bar.update(
                task, description=f"{what}: {_describe(progress)}", completed=progress.worked, total=progress.work
            )

        yield update


def _describe(progress: "RunProgress") -> str:
    failed = f", {progress.failed} failed" if progress.failed else ""
    left = "" if progress.seconds_left is None else f", about {_clock(round(progress.seconds_left))} left"
    stored = f", {progress.stored} more from the cache" if progress.stored else ""
    return f"{progress.done} of {progress.total} cells{failed}{stored}{left}"


def _clock(seconds: int) -> str:
    """
    >>> _clock(65), _clock(3665)
    ('1:05', '1:01:05')
    """
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
