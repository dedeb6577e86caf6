"""Records of a long measurement, one JSON object per line: a rerun skips what is there. And summaries of them."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESAMPLES = 2000

Record = dict[str, Any]


class Records:
    """The records in a file, each identified by the values of `keys`. Several processes may append to the file."""

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        self.path, self.keys = path, tuple(keys)
        self._records: dict[tuple[Any, ...], Record] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            if (record := _parse(line)) is not None:
                self._records[self._key(record)] = record  # a later one replaces an earlier one

    @property
    def rows(self) -> list[Record]:
        return list(self._records.values())

    def add(self, key: Record, measure: Callable[[], Record], *, retry: bool = False, redo: bool = False) -> Record:
        """The record with this key: the one in the file, or a new one. An exception is recorded as `error`.

        With `retry`, a record of an error is measured again; with `redo`, every record.
        """
        record = self._records.get(self._key(key))
        if record is not None and not redo and not (retry and "error" in record):
            return record
        begin = time.perf_counter()
        try:
            record = key | measure()
        except Exception as error:  # one method that fails must not end the measurement
            record = key | {"error": f"{type(error).__name__}: {error}"[:300]}
        record["total_seconds"] = round(time.perf_counter() - begin, 3)
        self._records[self._key(record)] = record
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return record

    def _key(self, record: Record) -> tuple[Any, ...]:
        return tuple(record.get(name) for name in self.keys)


def _parse(line: str) -> Record | None:
    """The record in a line; None if an interrupted run left it incomplete."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def describe(values: Iterable[float | None], seed: int = 0) -> Record:
    """Mean, standard error and 95 % bootstrap interval of the mean; None values are left out.

    >>> describe([1.0, 1.0, None])
    {'mean': 1.0, 'stderr': 0.0, 'low': 1.0, 'high': 1.0, 'count': 2}
    """
    known = np.array([float(value) for value in values if value is not None and np.isfinite(value)])
    if not len(known):
        return {"count": 0}
    rng = np.random.default_rng(seed)
    means = known[rng.integers(len(known), size=(RESAMPLES, len(known)))].mean(1)
    low, high = np.quantile(means, (0.025, 0.975))
    stderr = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None
    numbers = {"mean": float(known.mean()), "stderr": stderr, "low": float(low), "high": float(high)}
    rounded = {name: None if value is None else round(value, 4) for name, value in numbers.items()}
    return rounded | {"count": len(known)}


def group_by(rows: Iterable[Record], *keys: str) -> dict[tuple[Any, ...], list[Record]]:
    """The records of each combination of keys, in the order in which they first occur."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def errors(rows: Sequence[Record], *keys: str) -> list[Record]:
    """The different errors, and how often each occurred."""
    groups = group_by((row for row in rows if "error" in row), *keys, "error")
    return [dict(zip((*keys, "error"), key, strict=True)) | {"count": len(same)} for key, same in groups.items()]


def add_earlier(summary: Record, path: Path, levels: int) -> None:
    """Take the methods without records from an earlier summary of the same prompts and seeds.

    Methods are `levels` levels below the top of the summary. Differences from other methods are left out.
    """
    _add_missing(summary, json.loads(path.read_text()), levels)


def _add_missing(new: Record, old: Record, levels: int) -> None:
    for name, value in old.items():
        if levels and isinstance(value, dict):
            _add_missing(new.setdefault(name, {}), value, levels - 1)
        elif not levels:
            new.setdefault(name, {key: one for key, one in value.items() if key != "minus_fast"})
