"""A cache of responses: in memory while the model exists, or in a file for later runs too.

The key of a response is the address and the body of its request, which contain server, model, parameters and prompt.
The API key is in neither: it is sent in a header. Only responses that could be parsed are stored.
"""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from reagent.errors import FileError

_APPLICATION = 0x52414754  # marks the file as ours
_VERSION = 2  # 1 had no checksums
T = TypeVar("T")


class ResponseCache:
    """A table of responses; without a path, in memory."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = path
        self._lock = Lock()
        self._database = self._translate_errors(self._open)

    @staticmethod
    def request_key(url: str, body: Mapping[str, Any]) -> str:
        """The key under which the response to a request is stored.

        >>> key = ResponseCache.request_key
        >>> key("http://a/v1", {"model": "m", "n": 1}) == key("http://a/v1", {"n": 1, "model": "m"})
        True
        """
        return hashlib.sha256(json.dumps([url, body], sort_keys=True).encode()).hexdigest()

    def get(self, key: str) -> Any:
        """The response, or None."""
        with self._lock:
            row = self._translate_errors(
                lambda: self._database.execute("SELECT reply, checksum FROM replies WHERE key = ?", (key,)).fetchone()
            )
        return None if row is None else self._translate_errors(lambda: _unpack(key, *row))

    def put(self, key: str, response: Any) -> None:
        reply = zlib.compress(json.dumps(response).encode(), 1)
        row = key, reply, _checksum(key, reply)
        with self._lock:
            self._translate_errors(
                lambda: self._database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", row)
            )

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _open(self) -> sqlite3.Connection:
        location = ":memory:" if self._path is None else Path(self._path).expanduser()
        database = sqlite3.connect(location, timeout=30, isolation_level=None, check_same_thread=False)
        try:
            if self._path is not None:
                self._claim(database)
            database.execute(
                "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply BLOB NOT NULL, checksum BLOB)"
            )
            if "checksum" not in [row[1] for row in database.execute("PRAGMA table_info(replies)")]:
                database.execute("ALTER TABLE replies ADD COLUMN checksum BLOB")  # of version 1
        except BaseException:
            database.close()
            raise
        return database

    def _claim(self, database: sqlite3.Connection) -> None:
        """Accept a new file or one of ours; refuse every other."""

        def number(name: str) -> int:
            with closing(database.execute(f"PRAGMA {name}")) as cursor:
                return int(cursor.fetchone()[0])

        mark, version = number("application_id"), number("user_version")
        used = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if used and mark != _APPLICATION:
            raise FileError(f"{str(self._path)!r} is a database of another program: give another file as the cache")
        if version > _VERSION:
            raise FileError(f"the cache {str(self._path)!r} was written by a newer reagent: give another file")
        database.execute("PRAGMA journal_mode = WAL")  # readers and a writer at once; a crash loses nothing written
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {_VERSION}")

    def _translate_errors(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except (sqlite3.Error, zlib.error, ValueError, TypeError, OverflowError, RecursionError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(
                f"cannot use the cache {str(self._path)!r}: {error}; it may be damaged or not writable: "
                "move it away, or give another file"
            ) from error


def _checksum(key: str, reply: bytes) -> bytes:
    """It also covers the key: a reply must not be read for another request."""
    return hashlib.sha256(key.encode() + b"\n" + reply).digest()[:8]


def _unpack(key: str, reply: bytes, checksum: bytes | None) -> Any:
    if checksum is not None and checksum != _checksum(key, reply):
        raise ValueError("a reply does not match its checksum")
    return json.loads(zlib.decompress(reply))
