"""The cache folder: entries that are complete or absent, each written by one process at a time.

    <cache>/<name>/          an entry: its files, and a manifest with their sizes and the stamp of their source
    <cache>/<name>.lock      held while the entry is written
    <cache>/<name>.part-…/   an entry that is being written, or left by an interrupted run: the next run removes it

The folder is `REAGENT_CACHE`, otherwise the user's cache folder. A copy of it on another machine works as well.
"""

import json
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from reagent.atomic_io import atomic_write
from reagent.errors import FetchError, FileError

logger = logging.getLogger(__name__)

_MANIFEST = "manifest.json"
_PART = ".part-"


def cache_folder() -> Path:
    """The path of the cache, whether it exists or not."""
    chosen = os.environ.get("REAGENT_CACHE") or platformdirs.user_cache_dir("reagent", appauthor=False)
    return Path(chosen).expanduser().absolute()


@dataclass(frozen=True)
class CacheEntry:
    """A folder in the cache; `stamp` identifies its source, and an entry with another stamp is out of date."""

    name: str
    stamp: str

    @property
    def folder(self) -> Path:
        return cache_folder() / self.name

    def is_complete(self) -> bool:
        """Whether every file exists with its recorded size: a few `stat` calls, no reading."""
        return _read_stamp(self.folder) == self.stamp

    def bytes(self) -> int:
        """The size of the entry on disk."""
        return sum(_sizes(self.folder).values())


def ensure_entry(entry: CacheEntry, build: Callable[[Path], None]) -> Path:
    """The folder of a complete entry; if there is none, `build` fills an empty folder that becomes the entry.

    >>> import tempfile; os.environ["REAGENT_CACHE"] = tempfile.mkdtemp()
    >>> folder = ensure_entry(CacheEntry("greeting", stamp="1"), lambda part: print((part / "hello").write_text("hi")))
    2
    >>> (folder / "hello").read_text(), ensure_entry(CacheEntry("greeting", stamp="1"), print) == folder
    ('hi', True)
    >>> shutil.rmtree(os.environ.pop("REAGENT_CACHE"))
    """
    if entry.is_complete():  # checked without the lock, so that a read-only cache works too
        return entry.folder
    with _locked(entry):
        if not entry.is_complete():  # another process may have written it meanwhile
            _remove_leftovers(entry)
            if entry.folder.exists():
                logger.info("%s in the cache is damaged or out of date: making it again", entry.name)
            _publish(entry, build)
    return entry.folder


@dataclass(frozen=True)
class FoundEntry:
    """A folder of the cache as it is on the disk."""

    name: str
    bytes: int
    is_complete: bool  # all files have their recorded sizes


def list_entries() -> list[FoundEntry]:
    """The folders in the cache, also those that an interrupted run left."""
    folders = sorted(path for path in cache_folder().glob("*") if path.is_dir())
    return [FoundEntry(folder.name, sum(_sizes(folder).values()), _is_whole(folder)) for folder in folders]


def _is_whole(folder: Path) -> bool:
    """Whether all files have their recorded sizes. Folders without a manifest, as of saved explanations, are whole."""
    if _PART in folder.name:
        return False
    if not (folder / _MANIFEST).exists():
        return True
    return _read_stamp(folder) is not None


def _read_stamp(folder: Path) -> str | None:
    """The stamp of an entry; None if a file is missing or has another size than its manifest says."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
        sizes = {file: (folder / file).stat().st_size for file in manifest["files"]}
        return str(manifest["stamp"]) if manifest["files"] == sizes else None
    except (OSError, ValueError, KeyError, TypeError):  # absent, or the manifest itself is damaged
        return None


def remove_entry(entry: CacheEntry) -> None:
    """Remove an entry if it exists."""
    with _locked(entry):
        if entry.folder.exists():
            _remove(entry)


def check_space(folder: Path, needed: int) -> None:
    """Raise an error before the disk is full: a process that writes mapped files may then be killed without one."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FetchError(
            f"the cache folder {str(cache_folder())!r} needs {needed / 1e6:,.0f} MB and its disk has "
            f"{free / 1e6:,.0f} MB: free some space or set REAGENT_CACHE to a folder on another disk"
        )


def _publish(entry: CacheEntry, build: Callable[[Path], None]) -> None:
    """Build in a temporary folder, then rename it: no process ever sees an incomplete entry."""
    part = _temporary_folder(entry)
    try:
        part.mkdir()
        build(part)
        _set_permissions(part)
        manifest = {"stamp": entry.stamp, "files": _sizes(part)}
        atomic_write(part / _MANIFEST, json.dumps(manifest, indent=1) + "\n")
        if entry.folder.exists():
            _remove(entry)
        part.rename(entry.folder)
    except OSError as error:
        raise FetchError(
            f"cannot write {entry.name} into the cache folder {str(cache_folder())!r}: {error.strerror or error}; "
            "make room there or set REAGENT_CACHE to another folder"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove(entry: CacheEntry) -> None:
    """Rename first: removing takes a moment, and no process may see an incomplete entry."""
    old = _temporary_folder(entry)
    entry.folder.rename(old)
    shutil.rmtree(old, ignore_errors=True)


def _temporary_folder(entry: CacheEntry) -> Path:
    # A new name each time: a process that outlives its killed parent must not write into the next attempt.
    return cache_folder() / f"{entry.name}{_PART}{secrets.token_hex(4)}"


def _remove_leftovers(locked: CacheEntry) -> None:
    """Remove the temporary folders of interrupted runs: of `locked`, and of all entries that no process is writing."""
    for part in cache_folder().glob(f"*{_PART}*"):
        name = part.name.split(_PART)[0]
        with suppress(Timeout), nullcontext() if name == locked.name else FileLock(_lock_file(name), timeout=0):
            shutil.rmtree(part, ignore_errors=True)


def _set_permissions(folder: Path) -> None:
    """Give each file the permissions that the umask gave the folder: some writers make files private."""
    allowed = folder.stat().st_mode & 0o666
    for file in _sizes(folder):
        (folder / file).chmod(allowed)


def _sizes(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()
    }


def _lock_file(name: str) -> Path:
    return cache_folder() / f"{name}.lock"


@contextmanager
def _locked(entry: CacheEntry) -> Iterator[None]:
    lock = FileLock(_lock_file(entry.name))
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            logger.info("waiting for another process that is making %s", entry.name)
            lock.acquire()
    except OSError as error:
        raise FileError(
            f"cannot use the cache folder {str(cache_folder())!r}: {error.strerror or error}; "
            "set REAGENT_CACHE to a folder that can be written"
        ) from error
    try:
        yield
    finally:
        lock.release()
