"""The SQLite file of a benchmark: its schema, its lock, and its errors."""

import hashlib
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from reagent.atomic_io import resolve
from reagent.errors import FileError

SCHEMA = 2  # 1 had no checksums
_APPLICATION = 0x52414742  # identifies our files
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum BLOB) WITHOUT ROWID;
CREATE TABLE models (model TEXT PRIMARY KEY, known TEXT NOT NULL, checksum BLOB) WITHOUT ROWID;
CREATE TABLE texts (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, data BLOB NOT NULL);
CREATE TABLE cells (
    model TEXT, dataset TEXT, example TEXT, label TEXT, seed INTEGER,
    key TEXT NOT NULL, explained TEXT NOT NULL, current INTEGER NOT NULL DEFAULT 1,
    suite TEXT, level TEXT, part TEXT, method TEXT, options BLOB, status TEXT NOT NULL, error TEXT, seconds REAL,
    text INTEGER REFERENCES texts, explanation BLOB, evaluation BLOB, checksum BLOB,
    PRIMARY KEY (model, dataset, example, label, seed)
);
CREATE INDEX explained ON cells (explained);
"""
# The columns that the checksum of a row covers.
CELL_COLUMNS = (
    "model, dataset, example, label, seed, key, explained, suite, level, part, method, options, status, error, "
    "seconds, text, explanation, evaluation"
)
_CHECKED = {"facts": "name, value", "models": "model, known", "cells": f"{CELL_COLUMNS}, current"}
_CONTENT_ERRORS = (zlib.error, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
T = TypeVar("T")


def checksum(*values: Any) -> bytes:
    """The checksum of the values of a row: texts, integers, floats, bytes and None."""
    plain = [str.__str__(value) if isinstance(value, str) else value for value in values]  # not an enum
    return hashlib.sha256(repr(plain).encode("utf-8", "surrogatepass")).digest()[:8]


def lock(path: Path) -> Any:
    """A lock for the writer; the operating system releases it when the process ends."""
    from filelock import FileLock, Timeout

    folder = resolve(path).parent
    if not folder.is_dir():
        raise FileError(f"cannot write {str(path)!r}: there is no folder {str(folder)!r}; create it first")
    held = FileLock(f"{path}.lock", thread_local=False)
    try:
        held.acquire(timeout=0)
    except Timeout as error:
        raise FileError(
            f"another run is writing {str(path)!r}: wait for it, or give another file (and a shard, 1/2 and 2/2, "
            "to share the work)"
        ) from error
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}; choose another path") from error
    return held


def connect(path: Path, write: bool) -> sqlite3.Connection:
    address = f"{resolve(path).as_uri()}?mode={'rwc' if write else 'ro'}"
    database = sqlite3.connect(address, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        _check_or_create(path, database, write)
    except BaseException:
        database.close()
        raise
    return database


def _check_or_create(path: Path, database: sqlite3.Connection, write: bool) -> None:
    """Initialize a new file, accept one of ours, refuse every other."""

    def number(name: str) -> int:
        with closing(database.execute(f"PRAGMA {name}")) as cursor:
            return int(cursor.fetchone()[0])

    used = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if used and number("application_id") != _APPLICATION:
        raise FileError(f"{str(path)!r} holds no benchmark: it is a database of another program; give another file")
    if number("user_version") > SCHEMA:
        raise FileError(f"{str(path)!r} was written by a newer reagent: install that, or give another file")
    if not used and not write:
        raise FileError(f"{str(path)!r} is empty: give a file that `reagent bench run` wrote")
    if used:
        problem = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise sqlite3.DatabaseError(problem)
        _check_rows(database, write)
    if write:
        database.execute("PRAGMA page_size = 8192")  # for rows of 1 to 2 kB
        database.execute("PRAGMA journal_mode = WAL")  # concurrent readers; survives a crash
        database.execute("PRAGMA synchronous = FULL")  # survives a power cut
        if not used:
            database.executescript(
                f"BEGIN; {_TABLES} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {SCHEMA}; COMMIT;"
            )


def _check_rows(database: sqlite3.Connection, write: bool) -> None:
    """Compare all rows with their checksums; rows of earlier versions have none."""
    for table, columns in _CHECKED.items():
        if "checksum" not in [row[1] for row in database.execute(f"PRAGMA table_info({table})")]:
            if write:
                database.execute(f"ALTER TABLE {table} ADD COLUMN checksum BLOB")
            continue
        for *values, expected in database.execute(f"SELECT {columns}, checksum FROM {table}"):
            if expected is not None and expected != checksum(*values):
                raise sqlite3.DatabaseError(f"a row of {table} does not match its checksum: {str(values[:3])[:80]}")
    for name, data in database.execute("SELECT hash, data FROM texts"):
        if hashlib.sha256(data).digest()[:16] != name:
            raise sqlite3.DatabaseError("a text does not match its checksum")
    if write:
        database.execute(f"PRAGMA user_version = {SCHEMA}")


def translate_errors(path: Path, act: Callable[[], T]) -> T:
    """Run `act`; SQLite errors become one line with the remedy."""
    try:
        return act()
    except sqlite3.OperationalError as error:
        if "full" in str(error) or "I/O" in str(error):
            raise FileError(
                f"cannot write {str(path)!r}: {error}. Finished jobs are kept: free some space and run again"
            ) from error
        if any(word in str(error) for word in ("no such", "decode", "malformed", "near")):
            raise _damage_error(path, error) from error
        raise FileError(f"cannot use {str(path)!r}: {error}; give a file on a disk that can be written") from error
    except FileError:
        raise
    except (sqlite3.Error, *_CONTENT_ERRORS) as error:  # sqlite3 decodes texts, and even names of columns
        raise _damage_error(path, error) from error


def translate_decoding_errors(path: Path, act: Callable[[], T]) -> T:
    """Run `act`; errors in the content of rows become one line."""
    try:
        return act()
    except _CONTENT_ERRORS as error:
        raise _damage_error(path, error) from error


def _damage_error(path: Path, error: Exception) -> FileError:
    reason = " ".join(
        f"{type(error).__name__} {error}".split() if isinstance(error, LookupError) else str(error).split()
    )
    return FileError(f"{str(path)!r} is damaged or holds no benchmark ({reason}): restore a copy, or give another file")
