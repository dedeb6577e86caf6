"""A file is written whole or not at all, and a path that cannot be written is found before the work."""

import os
from pathlib import Path

import pytest

from reagent.atomic_io import atomic_write, check_writable
from reagent.errors import FileError


def test_writes_and_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    atomic_write(path, "one")
    atomic_write(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    assert atomic_write(tmp_path / "ours", "").stat().st_mode == usual.stat().st_mode


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = atomic_write(tmp_path / "a.txt", "old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FileError, match=r"a\.txt.*No space left"):
        atomic_write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def unwritable(tmp_path: Path) -> list[Path]:
    (tmp_path / "file").touch()
    paths = [tmp_path, tmp_path / "no" / "such" / "folder.json", tmp_path / "file" / "x.json", Path("/proc/x.json")]
    if os.geteuid() != 0:  # nothing is write-protected for root
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        paths.append(closed / "x.json")
    return paths


def test_every_unwritable_path_is_one_clear_error(tmp_path: Path) -> None:
    for path in unwritable(tmp_path):
        for attempt in (lambda path=path: atomic_write(path, "x"), lambda path=path: check_writable(path)):
            with pytest.raises(FileError, match="cannot write") as caught:
                attempt()
            assert str(path) in str(caught.value)
            assert "\n" not in str(caught.value)


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    check_writable(tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    atomic_write(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "x"


def test_what_is_no_ordinary_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/null")):
        with pytest.raises(FileError, match="not a regular file"):
            atomic_write(path, "x")


def test_a_name_that_no_system_takes(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write"):
        check_writable(tmp_path / ("x" * 300))


@pytest.mark.parametrize("path", ["loop", "loop/a.json"])
def test_links_in_a_circle_are_one_clear_line(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for act in (check_writable, lambda place: atomic_write(place, "a")):
        with pytest.raises(FileError, match="links form a circle"):
            act(tmp_path / path)


def test_text_that_is_not_unicode_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a.json", "old")
    with pytest.raises(FileError, match="half of a surrogate pair"):
        atomic_write(tmp_path / "a.json", "a\ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "old"
