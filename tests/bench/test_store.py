"""The file of results: what is written is there whole, and what is wrong with a file is said in one line."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.small import table
from reagent.bench import codec
from reagent.bench.database import SCHEMA
from reagent.bench.records import Cell, ModelRecord
from reagent.bench.store import Store
from reagent.errors import FileError
from reagent.explanation import Explanation, Group, Sufficiency


@pytest.fixture
def cell(results: Path) -> Cell:
    with Store.open(results) as store:
        return next(c for c in store.cells() if c.label == "reagent (paper)" and c.example == "2")


def test_a_cell_comes_back_as_it_was(cell: Cell, tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.sqlite", write=True) as store:
        store.begin({"suite": "s"})
        store.put([cell], {"forward_passes": 3})
        store.put([replace(cell, label="other", status="failed", error="no", explanation=None, evaluation=None)])
    with Store.open(tmp_path / "a.sqlite") as store:
        (again,) = store.cells()
        (failed,) = store.cells("failed")
        assert len(list(store.cells(None))) == 2
        assert store.facts()["cost"] == {"forward_passes": 3}
    assert again == cell
    assert (failed.error, failed.explanation) == ("no", None)


def test_numbers_are_kept_to_five_digits_and_packing_again_changes_nothing(cell: Cell) -> None:
    why = cell.explanation
    assert why is not None
    assert codec.unpack_explanation(*codec.pack_explanation(why)) == why
    fine = replace(why, scores=tuple(tuple(v * 0.999987 for v in row) for row in why.scores))
    coarse = codec.unpack_explanation(*codec.pack_explanation(fine))
    for one, other in zip(fine.scores, coarse.scores, strict=True):
        assert other == pytest.approx(one, rel=1e-4)


def test_groups_and_sufficiency_are_kept_to_five_digits(cell: Cell) -> None:
    assert isinstance(cell.explanation, Explanation)
    group = Group(units=(1, 3), kind="redundant", effect=7.8912345, stderr=0.04567, single=1.0)
    test = Sufficiency(units=(3, 1), effect=0.6, stderr=None, total=8.9123456, rank=None, passed=False)
    others = len(cell.explanation.output) - 1
    why = replace(cell.explanation, groups=((group,), *[()] * others), sufficiency=(test, *[None] * others))
    again = codec.unpack_explanation(*codec.pack_explanation(why))
    assert again.groups == ((replace(group, effect=7.8912, stderr=0.046),), *[()] * others)
    assert again.sufficiency == (replace(test, total=8.9123), *[None] * others)
    assert codec.unpack_explanation(*codec.pack_explanation(again)) == again


def test_rows_that_were_not_asked_about_take_no_room(cell: Cell) -> None:
    why = cell.explanation
    assert isinstance(why, Explanation)
    again = codec.unpack(codec.pack_explanation(why)[1])
    assert [len(row) for row in again["scores"]] == [len(why.input), len(why.input) + 5]
    free = sum(not token.protected for token in why.input) + 1
    assert why.scores[1] == pytest.approx([1 / free] * free)


def test_a_place_has_one_cell(cell: Cell, tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.sqlite", write=True) as store:
        store.put([cell])
        store.put([replace(cell, key="new")])
        assert [c.key for c in store.cells()] == ["new"]


def test_what_is_put_is_there_whole_or_not_at_all(cell: Cell, tmp_path: Path) -> None:
    def broken() -> object:
        yield cell
        raise KeyboardInterrupt

    with Store.open(tmp_path / "a.sqlite", write=True) as store:
        with pytest.raises(KeyboardInterrupt):
            store.put(broken())  # type: ignore[arg-type]
        assert list(store.cells()) == []
        store.put([cell])
        assert len(list(store.cells())) == 1


def test_models_are_remembered(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.sqlite", write=True) as store:
        store.put_model("m", ModelRecord({"id": "m"}, {"a": (("1", " x"),)}))
        store.put_model("m", ModelRecord({"id": "m"}, {"b": (("2", None),)}))
        assert store.models()["m"].examples == {"a": (("1", " x"),), "b": (("2", None),)}


def test_a_second_writer_is_refused_and_readers_are_welcome(tmp_path: Path, cell: Cell) -> None:
    path = tmp_path / "a.sqlite"
    with Store.open(path, write=True) as store:
        store.put([cell])
        with pytest.raises(FileError, match="another run is writing"):
            Store.open(path, write=True)
        code = f"from reagent.bench.store import Store; Store.open({str(path)!r}, write=True)"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "another run is writing" in other.stderr
        with Store.open(path) as reader:
            assert len(list(reader.cells())) == 1
            with pytest.raises(FileError, match="reading only"):
                reader.put([])
    with Store.open(path, write=True) as store:
        assert len(list(store.cells())) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.sqlite", "a.sqlite.lock"]  # one plain file


def test_files_that_are_no_results(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no file"):
        Store.open(tmp_path / "none.sqlite")
    with pytest.raises(FileError, match="there is no folder"):
        Store.open(tmp_path / "no" / "a.sqlite", write=True)
    (tmp_path / "text.sqlite").write_text("hello, this is no database at all" * 100)
    for write in (False, True):
        with pytest.raises(FileError, match="damaged or holds no benchmark"):
            Store.open(tmp_path / "text.sqlite", write)
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE t (x)")
    with pytest.raises(FileError, match="another program"):
        Store.open(tmp_path / "other.sqlite", write=True)
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(FileError, match="is empty"):
        Store.open(tmp_path / "empty.sqlite")


def test_a_newer_file_is_refused(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    path.write_bytes(results.read_bytes())
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    for write in (False, True):
        with pytest.raises(FileError, match="newer reagent"):
            Store.open(path, write)


def test_a_damaged_file_is_refused(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.sqlite"
    data = bytearray(results.read_bytes())
    data[4096:20000] = os.urandom(20000 - 4096)
    path.write_bytes(data)
    with pytest.raises(FileError, match="damaged"):
        list(Store.open(path).cells())
    path.write_bytes(results.read_bytes()[:9000])
    with pytest.raises(FileError, match="damaged"):
        list(Store.open(path).cells())


@pytest.mark.skipif(sys.platform == "win32", reason="limits are set as on Unix")
def test_a_full_disk_is_said_and_what_was_finished_stays(results: Path, tmp_path: Path) -> None:
    """A process whose files may not grow any more writes cell after cell."""
    path = tmp_path / "full.sqlite"
    code = f"""
import resource, signal
from dataclasses import replace
from reagent.bench.store import Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
cell = next(iter(Store.open({str(results)!r}).cells()))
store = Store.open({str(path)!r}, write=True)
store.put([cell])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
for i in range(1000):
    store.put([replace(cell, example=f"{{i}}")])
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "free some space and run again" in answer.stderr.splitlines()[-1]
    with Store.open(path, write=True) as store:
        kept = len(store.states())
    assert len(table(path)) == kept > 1


def test_many_cells_are_a_few_megabytes(cell: Cell, tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.sqlite", write=True) as store:
        store.put(replace(cell, example=str(i), label=str(j)) for i in range(50) for j in range(10))
    assert (tmp_path / "a.sqlite").stat().st_size < 750_000  # of 500


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE cells SET status = 'failed' WHERE example = '2'",
        "UPDATE cells SET current = 0 WHERE example = '2'",
        "UPDATE cells SET seconds = seconds + 1 WHERE example = '2'",
        "UPDATE cells SET explanation = substr(explanation, 1, 20) WHERE example = '2'",
        "UPDATE facts SET value = '7' WHERE name = 'planned'",
        "UPDATE models SET known = replace(known, 'float', 'floaf')",
        "UPDATE texts SET data = substr(data, 1, 20)",
    ],
)
def test_every_changed_row_is_found_when_the_file_is_opened(results: Path, tmp_path: Path, change: str) -> None:
    path = tmp_path / "changed.sqlite"
    path.write_bytes(results.read_bytes())
    with sqlite3.connect(path) as database:
        assert database.execute(change).rowcount
    database.close()
    for write in (False, True):
        with pytest.raises(FileError, match=r"is damaged .* does not match its checksum"):
            Store.open(path, write=write)


def test_the_checksums_follow_the_suite(cell: Cell, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Store.open(path, write=True) as store:
        store.put([replace(cell, seconds=0), replace(cell, label="other")])
        store.keep(lambda place: place[3] != "other")
    with Store.open(path) as store:
        assert len(list(store.cells())) == 1


def test_a_file_without_checksums_is_read_and_gets_them_when_it_is_written(cell: Cell, tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with Store.open(path, write=True) as store:
        store.begin({"suite": "s"})
        store.put([cell])
    with sqlite3.connect(path) as database:
        for table in ("facts", "models", "cells"):
            database.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        database.execute("PRAGMA user_version = 1")
    database.close()
    with Store.open(path) as store:
        assert list(store.cells()) == [cell]
    with Store.open(path, write=True) as store:
        store.put([replace(cell, label="other")])
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT label, checksum IS NULL FROM cells ORDER BY label").fetchall() == [
            ("other", 0),
            (cell.label, 1),
        ]
    database.close()
