"""The outputs of a command: what was computed and paid for is written wherever it can be written."""

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import typer

logger = logging.getLogger(__name__)


class Result(Protocol):
    def to_json(self) -> str: ...
    def save(self, path: str | Path, /) -> Path: ...


def write_outputs(result: Result, json: str | None, *outputs: Callable[[], Any]) -> None:
    """Write the JSON, then call each of `outputs`; one that fails does not prevent the others.

    The first error is raised at the end. If the JSON was not saved, it is kept in a temporary file.
    """
    unsaved = _try(_json_output(result, json))
    errors = [error for error in (unsaved, *map(_try, outputs)) if error is not None]
    if not errors:
        return
    if json is None or unsaved is not None:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix="reagent-", suffix=".json", delete=False
        ) as file:
            file.write(result.to_json() + "\n")
        logger.warning("the result is kept in %s: reagent show prints it", file.name)
    raise errors[0]


def _json_output(result: Result, json: str | None) -> Callable[[], Any]:
    if json is None:
        return lambda: None
    return lambda: typer.echo(result.to_json()) if json == "-" else result.save(json)


def _try(output: Callable[[], Any]) -> Exception | None:
    try:
        output()
    except BrokenPipeError:  # the reader went away
        raise
    except Exception as error:
        return error
    return None
