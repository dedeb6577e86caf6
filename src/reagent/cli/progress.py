"""Progress on standard error, and only where that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from reagent.methods.protocol import Progress, Report, silent


class _Left(ProgressColumn):
    """Speed and time left; a search that may stop early can only say "at most"."""

    def render(self, task: Task) -> Text:
        if not task.completed or not task.elapsed or task.total is None:
            return Text("…")
        speed = task.completed / task.elapsed
        seconds = round((task.total - task.completed) / speed)
        left = f"{seconds // 60}:{seconds % 60:02d}"
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
def progress_bar(what: str, quiet: bool = False, note: Callable[[], str] | None = None) -> Iterator[Report]:
    """A bar that a method's reports move; `note` is asked for what to say besides."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), _Left())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, unit="steps")

        def report(now: Progress) -> None:
            told = f"{what}{note()}" if note is not None else what
            bar.update(task, description=told, completed=now.done, total=now.total, unit=now.unit)

        yield report
