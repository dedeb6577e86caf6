"""The results of a benchmark in one SQLite file; with database.py the only place that knows SQL.

One writer at a time (a lock file beside it), any number of readers. The cells given to `put` are written in one
transaction: after a crash it is complete or absent. Each place of the suite has one cell; a new cell replaces the
old one.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from reagent.bench import codec
from reagent.bench.database import CELL_COLUMNS, checksum, connect, lock, translate_decoding_errors, translate_errors
from reagent.bench.records import Cell, ModelRecord, Place
from reagent.errors import FileError
from reagent.explanation import Explanation


class Store:
    """An open file of results; a context manager that closes it."""

    def __init__(self, path: Path, database: sqlite3.Connection, lock: Any = None) -> None:
        self.path, self._database, self._lock = path, database, lock

    @classmethod
    def open(cls, path: str | Path, write: bool = False) -> "Store":
        """Open for reading, or with `write` as the only writer, which creates a missing file."""
        place = Path(path)
        if not write and not place.is_file():
            raise FileError(f"there is no file {str(path)!r}: give one that `reagent bench run` wrote")
        held = lock(place) if write else None
        try:
            return cls(place, translate_errors(place, lambda: connect(place, write)), held)
        except BaseException:
            if held is not None:
                held.release()
            raise

    def close(self) -> None:
        try:
            if self._lock is not None:
                with suppress(sqlite3.OperationalError):  # the mode cannot change while there are readers
                    self._database.execute("PRAGMA journal_mode = DELETE")  # one plain file, to copy or to keep
            self._database.close()
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- reading ---

    def cells(self, status: str | None = "done") -> Iterator[Cell]:
        """The cells of the current suite in a stable order, of one status or all."""
        texts: dict[int, bytes] = dict(self._all("SELECT id, data FROM texts"))
        where = "current" if status is None else "current AND status = ?"
        order = "model, dataset, example, seed, label"
        rows = self._all(
            f"SELECT {CELL_COLUMNS} FROM cells WHERE {where} ORDER BY {order}", [] if status is None else [status]
        )
        for row in rows:
            yield translate_decoding_errors(self.path, partial(_cell, row, texts))

    def facts(self) -> Mapping[str, Any]:
        """Metadata of the run: suite, kind, text, version, created, planned (cells), models, cost."""
        rows = self._all("SELECT name, value FROM facts")
        facts = translate_decoding_errors(self.path, lambda: {name: json.loads(value) for name, value in rows})
        return facts | {"models": {name: dict(known.info) for name, known in self.models().items()}}

    def models(self) -> dict[str, ModelRecord]:
        """The inspected models, by their names in the suite."""
        rows = self._all("SELECT model, known FROM models")
        return translate_decoding_errors(self.path, lambda: {name: _model_record(known) for name, known in rows})

    def states(self) -> dict[Place, tuple[str, str]]:
        """The place, key and status of every cell of the suite; nothing is decoded."""
        rows = self._all("SELECT model, dataset, example, label, seed, key, status FROM cells WHERE current")
        return {(m, d, e, label, seed): (key, status) for m, d, e, label, seed, key, status in rows}

    def explanation(self, explained: str) -> Explanation | None:
        """The stored explanation with this key, even if its metrics failed."""
        rows = self._all(
            "SELECT texts.data, explanation FROM cells JOIN texts ON texts.id = text "
            "WHERE explained = ? AND explanation IS NOT NULL LIMIT 1",
            [explained],
        )
        return translate_decoding_errors(
            self.path, lambda: next((codec.unpack_explanation(text, own) for text, own in rows), None)
        )

    # --- writing ---

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Write metadata; other metadata is kept."""

        def write() -> None:
            for name, value in facts.items():
                self._put_checked("facts", name, json.dumps(value))

        self._transaction(write)

    def put_model(self, model: str, known: ModelRecord) -> None:
        """Record an inspected model; cells that failed because it did not load are deleted."""
        examples = {**(self.models().get(model) or known).examples, **known.examples}
        text = json.dumps({"info": dict(known.info), "examples": examples})

        def write() -> None:
            self._put_checked("models", model, text)
            self._database.execute("DELETE FROM cells WHERE model = ? AND key = ''", (model,))

        self._transaction(write)

    def put(self, cells: Iterable[Cell], cost: Mapping[str, float] | None = None) -> None:
        """Write cells and add up their cost, in one transaction."""

        def write() -> None:
            for cell in cells:
                self._put(cell)
            if cost:
                spent = self.facts().get("cost", {})
                total = {name: round(spent.get(name, 0) + value, 3) for name, value in cost.items()}
                self._put_checked("facts", "cost", json.dumps(spent | total))

        self._transaction(write)

    def keep(self, suite_filter: Callable[[Place], bool]) -> None:
        """Mark which places belong to the current suite; other cells are kept, but not shown."""

        def write() -> None:
            rows = self._all("SELECT model, dataset, example, label, seed, current FROM cells")
            changed = [(int(suite_filter(tuple(place))), *place) for *place, now in rows]
            changed = [new for new, (*_, now) in zip(changed, rows, strict=True) if new[0] != now]
            where = "WHERE (model, dataset, example, label, seed) = (?, ?, ?, ?, ?)"
            for current, *place in changed:
                (values,) = self._all(f"SELECT {CELL_COLUMNS} FROM cells {where}", place)
                self._database.execute(
                    f"UPDATE cells SET current = ?, checksum = ? {where}",
                    (current, checksum(*values, current), *place),
                )

        self._transaction(write)

    def _put(self, cell: Cell) -> None:
        text = own = evaluation = None
        if cell.explanation is not None:
            shared, own = codec.pack_explanation(cell.explanation)
            text = self._text(shared)
        if cell.evaluation is not None:
            evaluation = codec.pack_evaluation(cell.evaluation)
        elif cell.measured is not None:
            evaluation = codec.pack(dict(cell.measured))
        values = (
            *cell.place, cell.key, cell.explained, cell.suite, cell.level, cell.group, cell.method,
            codec.pack(dict(cell.options)), cell.status, cell.error, round(float(cell.seconds), 3),
            text, own, evaluation,
        )  # fmt: skip
        self._put_checked("cells", *values, 1, columns=f"({CELL_COLUMNS}, current, checksum)")

    def _put_checked(self, table: str, *values: Any, columns: str = "") -> None:
        """Write a row with its checksum."""
        marks = ", ".join("?" * (len(values) + 1))
        row = (*values, checksum(*values))
        self._database.execute(f"INSERT OR REPLACE INTO {table} {columns} VALUES ({marks})", row)

    def _text(self, shared: bytes) -> int:
        name = hashlib.sha256(shared).digest()[:16]
        self._database.execute("INSERT OR IGNORE INTO texts (hash, data) VALUES (?, ?)", (name, shared))
        with closing(self._database.execute("SELECT id FROM texts WHERE hash = ?", (name,))) as cursor:
            return int(cursor.fetchone()[0])

    def _transaction(self, act: Callable[[], None]) -> None:
        if self._lock is None:
            raise FileError(f"{str(self.path)!r} is open for reading only")

        def commit_all() -> None:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                act()
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # a full disk has rolled it back already
                    self._database.execute("ROLLBACK")
                raise

        translate_errors(self.path, commit_all)

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        return translate_errors(self.path, lambda: self._database.execute(query, values).fetchall())


def _model_record(known: str) -> ModelRecord:
    entry = json.loads(known)
    examples = {name: tuple((i, t) for i, t in kept) for name, kept in entry["examples"].items()}
    return ModelRecord(dict(entry["info"]), examples)


def _cell(row: Sequence[Any], texts: Mapping[int, bytes]) -> Cell:
    (
        model, dataset, example, label, seed, key, explained, suite, level, part, method, options, status, error,
        seconds, text, own, packed,
    ) = row  # fmt: skip
    why = None if own is None else codec.unpack_explanation(texts[text], own)
    evaluation = None if packed is None or why is None else codec.unpack_evaluation(packed, why)
    measured = None if packed is None or why is not None else codec.unpack(packed)
    return Cell(
        key, suite, model, dataset, level, example, part, method, label, codec.unpack(options), seed, status, error,
        why, evaluation, seconds, explained, measured,
    )  # fmt: skip
