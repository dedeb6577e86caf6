"""Progress in a notebook: a bar that disappears when the work is done."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, NamedTuple, Protocol

UPDATE_INTERVAL = 0.1  # the minimum number of seconds between two updates


class ProgressState(Protocol):
    """The state of a computation; `total` is an upper bound, because a search may stop early."""

    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def unit(self) -> str: ...


class NotebookProgress(NamedTuple):
    """The state of a step."""

    done: int
    total: int
    unit: str


@contextmanager
def notebook_bar() -> Iterator[Callable[[ProgressState], None] | None]:
    """Show a bar below the running cell and yield its update function; yield None outside a notebook."""
    if not in_notebook():
        yield None
        return
    from IPython.display import display

    show: Callable[..., Any] = display  # it has no types
    bar = show(_render_bar("…", ""), raw=True, display_id=True)
    last = 0.0

    def update(progress: ProgressState) -> None:
        nonlocal last
        if time.monotonic() - last < UPDATE_INTERVAL:
            return
        last = time.monotonic()
        text = f"{progress.done:,} of at most {progress.total:,} {progress.unit}"
        bar.update(_render_bar(text, f'value="{progress.done}" max="{max(1, progress.total)}"'), raw=True)

    try:
        yield update
    finally:
        bar.update({"text/plain": "", "text/html": ""}, raw=True)


def in_notebook() -> bool:
    """Whether this code runs in a notebook kernel."""
    if "IPython" not in sys.modules:
        return False
    return getattr(sys.modules["IPython"].get_ipython(), "kernel", None) is not None


def _render_bar(text: str, attributes: str) -> dict[str, Any]:
    return {"text/plain": text, "text/html": f"<label>{escape(text)} <progress {attributes}></progress></label>"}
