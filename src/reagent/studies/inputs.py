"""The inputs of a study: mappings of slots to values, from Python or from a file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reagent.data.readers import read_rows
from reagent.errors import FileError, InputError

MOST_INPUTS = 100_000
ANSWER = "answer"


@dataclass(frozen=True)
class Input:
    """One input: the values of the slots, and the answer that is expected, if there is one."""

    id: str
    where: str  # "inputs.jsonl, line 3"
    values: Mapping[str, Any]
    answer: str | None


def read_inputs(inputs: Any) -> tuple[Input, ...]:
    """Inputs from the path of a table (JSONL, CSV, …) or from a list of mappings.

    >>> [(one.id, one.answer) for one in read_inputs([{"text": "a"}, {"text": "b", "answer": "B", "id": "second"}])]
    [('1', None), ('second', 'B')]
    """
    if isinstance(inputs, str | Path):
        path = Path(inputs).expanduser()
        if path.is_dir():
            raise FileError(f"{str(path)!r} is a folder: give a file of inputs, one JSON object per line")
        rows = [(row.where, row.number, row.fields) for row in read_rows(path)]
        source = repr(str(inputs))
    elif isinstance(inputs, Iterable) and not isinstance(inputs, Mapping | bytes):
        rows, source = [(f"input {n}", n, row) for n, row in enumerate(inputs, 1)], "`inputs`"
    else:
        raise InputError(f"`inputs` must be a file or a list of mappings, got a {type(inputs).__name__}")
    if not rows:
        raise InputError(f"{source} is empty: give at least one input")
    if len(rows) > MOST_INPUTS:
        raise InputError(f"{source} has {len(rows):,} inputs, at most {MOST_INPUTS:,} are allowed: take a sample")
    return tuple(_with_unique_ids([_read(*row) for row in rows]))


def _read(where: str, number: int, fields: Any) -> Input:
    if not isinstance(fields, Mapping) or any(not isinstance(name, str) for name in fields):
        raise InputError(f"{where} must be a mapping of slots to values, got {fields!r}")
    answer, given = fields.get(ANSWER), fields.get("id")
    if answer is not None and not (isinstance(answer, str) and answer.strip()):
        raise InputError(f"{where}: `{ANSWER}` must be a text that is not empty, got {answer!r}")
    return Input(str(number if given in (None, "") else given), where, dict(fields), answer)


def _with_unique_ids(inputs: list[Input]) -> list[Input]:
    seen: dict[str, str] = {}
    for one in inputs:
        if one.id in seen:
            raise InputError(f"{one.where} has the id {one.id!r}, as {seen[one.id]} has: give each input its own")
        seen[one.id] = one.where
    return inputs
