"""Progress on standard error: bars in a terminal; elsewhere a line in the log every ten seconds.

All bars share one display, so that a step inside another one, such as a download while a model is loaded, is a second
line below it. `logging.getLogger("reagent").setLevel("WARNING")` hides bars and lines, and `--quiet` does this.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from reagent.notebook import NotebookProgress, in_notebook, notebook_bar

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.progress import Progress, Task

logger = logging.getLogger(__name__)

LINE_INTERVAL = 10.0  # seconds between two lines
MEASURE_INTERVAL = 0.2  # seconds between two measurements

_displays: list["Progress"] = []  # the display that is shown now, at most one


@contextmanager
def step(what: str, total: int | None = None, measure: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Show that something takes long; `measure` returns how many of the `total` bytes are done."""
    if is_hidden():
        yield
        return
    with _choose(what, total) as update, _repeated(lambda: update(measure())):
        yield


def _choose(what: str, total: int | None) -> "AbstractContextManager[Callable[[int], None]]":
    """The update function for a step: of a bar in a notebook or in a terminal, or of lines."""
    if in_notebook():
        return _notebook_bar(what, total)
    return _terminal_bar(what, total) if sys.stderr.isatty() else _lines(what, total)


@contextmanager
def bar(
    what: str, total: int | None = None, detail: Callable[["Task"], str] = lambda _: ""
) -> Iterator[Callable[..., None]]:
    """A bar in the terminal and its update function, which takes `completed`, `total` and `description`.

    `detail` returns the text behind the bar. Without a `total` there is only the time.
    """
    with _display() as display:
        task = display.add_task(what, total=total, detail=detail)
        try:
            yield lambda **fields: display.update(task, **fields)
        finally:
            display.update(task, visible=False)


def is_hidden() -> bool:
    """Whether the user hides messages like these, for example with --quiet."""
    return logging.getLogger("reagent").level > logging.INFO


def format_bytes(count: int) -> str:
    """A size as people read it.

    >>> format_bytes(92_871_040), format_bytes(1_404_000_000), format_bytes(12_345)
    ('93 MB', '1.4 GB', '12 kB')
    """
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}" if unit == "GB" else f"{count / size:.0f} {unit}"
    return f"{count} bytes"


def format_time(seconds: int) -> str:
    """
    >>> format_time(65), format_time(3665)
    ('1:05', '1:01:05')
    """
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


@contextmanager
def _display() -> Iterator["Progress"]:
    """The display that is shown now, or a new one."""
    if _displays:
        yield _displays[-1]
        return
    from rich.console import Console

    # The stream of this moment: `sys.stderr` may be redirected while a library works.
    with _columns()(console=Console(file=sys.stderr), transient=True) as display:
        _displays.append(display)
        try:
            yield display
        finally:
            _displays.remove(display)


def _columns() -> Callable[..., "Progress"]:
    """The constructor of a display."""
    from functools import partial

    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Detail(ProgressColumn):
        def render(self, task: "Task") -> Text:
            return Text(task.fields["detail"](task))

    class OptionalBar(BarColumn):
        def render(self, task: "Task") -> Any:
            return Text("") if task.total is None else super().render(task)

    columns = SpinnerColumn(), TextColumn("{task.description}"), OptionalBar(), TimeElapsedColumn(), Detail()
    return partial(Progress, *columns)


def _describe_bytes(done: int, total: int | None) -> str:
    """
    >>> _describe_bytes(0, 93_000_000), _describe_bytes(45_000_000, 93_000_000)
    ('93 MB', '45 MB of 93 MB')
    """
    if total is None:
        return ""
    return f"{format_bytes(min(done, total))} of {format_bytes(total)}" if done else format_bytes(total)


@contextmanager
def _terminal_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """The bar appears with the first bytes: before them a library may read for a while."""
    with bar(what, detail=lambda task: _describe_bytes(int(task.completed), total)) as update:
        yield lambda done: update(completed=done, total=total if done else None)


@contextmanager
def _notebook_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    megabytes = round((total or 0) / 1e6)
    with notebook_bar() as update:
        assert update is not None
        yield lambda done: update(NotebookProgress(round(done / 1e6), megabytes, f"MB ({what})"))


@contextmanager
def _lines(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """An update function that logs a line every ten seconds."""
    last = started = time.monotonic()

    def update(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_INTERVAL:
            last = now
            parts = _describe_bytes(done, total), format_time(round(now - started))
            logger.info("%s: %s", what, ", ".join(part for part in parts if part))

    yield update


@contextmanager
def _repeated(call: Callable[[], None]) -> Iterator[None]:
    """Call a function again and again in another thread, and once at the end."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(MEASURE_INTERVAL):
            call()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        call()
