"""Checks of an explanation from a file: what it says about places in its texts must be there.

Everything else is checked where an explanation is built. Files may be damaged, or written by somebody else.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from reagent.errors import FileError

TARGET_KINDS = ("tokens", "span", "contrast")


def check_places(why: Any) -> None:
    """Raise a FileError if a place of an Explanation lies outside its text, or if places are out of order."""
    for name, units, text in (
        ("input", why.input, why.prompt),
        ("output", why.output, why.completion),
        *((f"the level {level.unit!r}", level.units, why.prompt) for level in why.levels),
    ):
        _check_inside(f"the tokens of {name}", units, len(text))
        if any(second.start < first.start for first, second in pairwise(units)):
            raise FileError(f"not a complete explanation: the tokens of {name} are out of order")
    for name, parts, text in _other_places(why):
        _check_inside(name, parts, len(text))
    coarsest = why.levels[0].units if why.levels else why.input
    if why.screening is not None and any(i >= len(coarsest) for i in why.screening.discarded):
        raise FileError(f"not a complete explanation: screening.discarded must refer to one of {len(coarsest)} units")
    if why.target.get("kind") not in TARGET_KINDS or isinstance(why.target.get("index"), bool):
        raise FileError(f"not a complete explanation: target.kind must be one of {', '.join(TARGET_KINDS)}")


def _other_places(why: Any) -> Iterator[tuple[str, Iterable[Any], str]]:
    yield "messages", why.messages, why.prompt
    if why.trace is not None:
        yield "trace.sources", why.trace.sources, why.prompt
        yield "trace.checks", why.trace.checks, why.prompt
        yield "trace.steps", (*why.trace.steps, why.trace.answer), why.completion


def _check_inside(name: str, parts: Iterable[Any], length: int) -> None:
    for part in parts:
        if not 0 <= part.start <= part.end <= length:
            raise FileError(
                f"not a complete explanation: {name} must lie within the {length:,} characters of their text, "
                f"got {part.start} to {part.end}"
            )
