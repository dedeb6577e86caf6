"""Progress in a notebook: a bar that is gone when the work is done."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Protocol

EVERY = 0.1  # seconds between two updates, at least


class Moment(Protocol):
    """How far something is; a search that may stop early knows the most that it can take."""

    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def unit(self) -> str: ...


@contextmanager
def notebook_bar() -> Iterator[Callable[[Moment], None] | None]:
    """What moves a bar below the cell that runs; None where there is no notebook."""
    if not in_notebook():
        yield None
        return
    from IPython.display import display

    show: Callable[..., Any] = display  # which has no types
    bar = show(_picture("…", ""), raw=True, display_id=True)
    last = 0.0

    def move(now: Moment) -> None:
        nonlocal last
        if time.monotonic() - last < EVERY:
            return
        last = time.monotonic()
        words = f"{now.done:,} of at most {now.total:,} {now.unit}"
        bar.update(_picture(words, f'value="{now.done}" max="{max(1, now.total)}"'), raw=True)

    try:
        yield move
    finally:
        bar.update({"text/plain": "", "text/html": ""}, raw=True)


def in_notebook() -> bool:
    """Whether a kernel runs this, not a terminal."""
    if "IPython" not in sys.modules:
        return False
    return getattr(sys.modules["IPython"].get_ipython(), "kernel", None) is not None


def _picture(words: str, state: str) -> dict[str, Any]:
    return {"text/plain": words, "text/html": f"<label>{escape(words)} <progress {state}></progress></label>"}
