"""Rows of JSONL, JSON, CSV, TSV and Parquet files. An error names the file and the line."""

import csv
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from reagent.data.base import Example
from reagent.errors import FileError, InputError

logger = logging.getLogger(__name__)

TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
LONGEST = 100_000  # characters; longer prompts exceed every context window


class Row(NamedTuple):
    """The fields of one row, and its place in the file."""

    where: str  # "stories.jsonl, line 3"
    number: int
    fields: Mapping[str, Any]

    def text(self, name: str) -> str | None:
        """The text of a required field; None if it is empty."""
        if name not in self.fields:
            raise FileError(f"{self.where} has no field {name!r}; it has: {', '.join(map(str, self.fields)) or 'none'}")
        value = self.fields[name]
        if value is not None and not isinstance(value, str):
            raise FileError(f"{self.where}: {name!r} must be text, got {value!r}")
        return value if value is not None and value.strip() else None


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a table; its suffix names the format."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet(path)
    text = read_text(path)
    if suffix in (".csv", ".tsv"):
        return _read_separated(path, text, "\t" if suffix == ".tsv" else ",")
    if suffix == ".json" and text.lstrip().startswith("["):
        return _json_list(path, text)
    if suffix in TABLES:
        return _json_lines(path, text)
    raise FileError(f"{str(path)!r} has an unknown format: its name must end in one of {', '.join(TABLES)}")


def bundled_path(name: str) -> Path:
    """A file of this package."""
    return Path(str(files("reagent.data").joinpath("assets", name)))


def read_text(path: Path) -> str:
    """The text of a file in UTF-8."""
    try:
        data = path.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FileError(f"{str(path)!r}, line {line}, is not UTF-8 ({error.reason}): save the file as UTF-8") from error


def read_examples(source: str, rows: Iterable[Row], read: Callable[[Row], Example | None]) -> tuple[Example, ...]:
    """The example that `read` makes of each row; empty and very long rows are left out and logged."""
    examples: list[Example] = []
    skipped: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        example = read(row)
        if example is None:
            skipped["they are empty"].append(row)
        elif len(example.prompt) > LONGEST:
            skipped[f"they are longer than {LONGEST:,} characters"].append(row)
        else:
            examples.append(example)
    for reason, left_out in skipped.items():
        more = f" and {len(left_out) - 5:,} more" if len(left_out) > 5 else ""
        places = "; ".join(row.where for row in left_out[:5])
        logger.warning("left out, since %s: %s%s", reason, places, more)
    if not examples:
        why = "all its rows are empty or too long" if skipped else "it is empty"
        raise FileError(f"{source} holds no example: {why}")
    return tuple(examples)


def _json_lines(path: Path, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path.name}, line {number}"
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FileError(f"{where} is not JSON ({error}): give one JSON object per line") from error
            yield Row(where, number, _object(where, fields))


def _json_list(path: Path, text: str) -> Iterator[Row]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{str(path)!r} is not JSON ({error}): give a list of objects, or one per line") from error
    for number, fields in enumerate(entries, start=1):
        where = f"{path.name}, entry {number}"
        yield Row(where, number, _object(where, fields))


def _object(where: str, fields: Any) -> Mapping[str, Any]:
    if not isinstance(fields, dict):
        raise FileError(f'{where} is not a JSON object: write it as {{"prompt": "…"}}, not {str(fields)[:40]!r}')
    return fields


def _read_separated(path: Path, text: str, separator: str) -> Iterator[Row]:
    lines = StringIO(text, newline="")
    if separator == "\t":  # quotation marks are ordinary characters in TSV
        reader = csv.DictReader(lines, delimiter=separator, quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.DictReader(lines, delimiter=separator, strict=True)
    try:
        for fields in reader:
            where = f"{path.name}, line {reader.line_num}"
            if None in fields:
                raise FileError(f"{where} has more cells than the {len(fields) - 1} names in the first line")
            yield Row(where, reader.line_num, fields)
    except csv.Error as error:
        raise FileError(f"{path.name}, line {reader.reader.line_num} cannot be read: {error}") from error


def _parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError(
            "a Parquet file needs pyarrow, which is not installed; run: pip install 'reagent-lm[hub]'"
        ) from error
    try:
        with ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(f"{path.name}, row {number}", number, fields)
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except pyarrow.ArrowException as error:
        raise FileError(f"{str(path)!r} is not a readable Parquet file: {error}") from error
