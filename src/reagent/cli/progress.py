"""Progress of a method or a benchmark on standard error: a bar in a terminal; elsewhere, for benchmarks, lines."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from reagent.methods.base import Progress, ProgressCallback, no_progress
from reagent.progress_bars import bar, format_time

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.progress import Task

    from reagent.bench.runner import RunProgress

LINE_INTERVAL = 60.0  # seconds


def spinner(what: str, quiet: bool = False) -> "AbstractContextManager[object]":
    """A spinner for work of unknown length."""
    return nullcontext() if quiet or not sys.stderr.isatty() else bar(what)


@contextmanager
def progress_bar(what: str, quiet: bool = False, note: Callable[[], str] | None = None) -> Iterator[ProgressCallback]:
    """A progress bar for a method; `note` returns text to append to its description."""
    if quiet or not sys.stderr.isatty():
        yield no_progress
        return
    unit = "steps"

    def time_left(task: "Task") -> str:
        """Speed and an upper bound of the time left, since a search may stop early."""
        if not task.completed or not task.elapsed or task.total is None:
            return "…"
        speed = task.completed / task.elapsed
        left = format_time(round((task.total - task.completed) / speed))
        return f"{speed:.1f} {unit}/s, at most {left} left"

    with bar(what, detail=time_left) as update:

        def show(progress: Progress) -> None:
            nonlocal unit
            unit = progress.unit
            text = f"{what}{note()}" if note is not None else what
            update(description=text, completed=progress.done, total=progress.total)

        yield show


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
    with bar(what) as update:

        def show(progress: "RunProgress") -> None:
            update(description=f"{what}: {_describe(progress)}", completed=progress.worked, total=progress.work)

        yield show


def _describe(progress: "RunProgress") -> str:
    failed = f", {progress.failed} failed" if progress.failed else ""
    left = "" if progress.seconds_left is None else f", about {format_time(round(progress.seconds_left))} left"
    stored = f", {progress.stored} more from the cache" if progress.stored else ""
    return f"{progress.done} of {progress.total} {progress.noun}{failed}{stored}{left}"
