"""The cache folder: entries that are whole or absent, each made by one process at a time.

    <root>/<name>/          an entry: its files, and a manifest with their sizes and the stamp of their source
    <root>/<name>.lock      held while the entry is made
    <root>/<name>.part-…/   an entry in the making, or what an interrupted run left: the next run sweeps it away

The root is `REAGENT_CACHE`, else the user's cache folder. A copy of it on another machine is as good.
"""

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import platformdirs
from filelock import FileLock, Timeout

from reagent.atomic_io import atomic_write
from reagent.errors import FetchError, FileError

Notify: TypeAlias = Callable[[str], None]

_MANIFEST = "manifest.json"
_PART = ".part-"


def say(line: str) -> None:
    """Tell the person, on standard error."""
    print(f"reagent: {line}", file=sys.stderr, flush=True)


def root() -> Path:
    """Where the cache is, whether it exists yet or not."""
    chosen = os.environ.get("REAGENT_CACHE") or platformdirs.user_cache_dir("reagent", appauthor=False)
    return Path(chosen).expanduser().absolute()


@dataclass(frozen=True)
class CacheEntry:
    """A folder in the cache; `stamp` names what it was made from, and another stamp makes it out of date."""

    name: str
    stamp: str

    @property
    def folder(self) -> Path:
        return root() / self.name

    def is_whole(self) -> bool:
        """Every file is there with the size that it was published with: a few `stat` calls, no reading."""
        try:
            manifest = json.loads((self.folder / _MANIFEST).read_text("utf-8"))
            sizes = {file: (self.folder / file).stat().st_size for file in manifest["files"]}
            return bool(manifest["stamp"] == self.stamp and manifest["files"] == sizes)
        except (OSError, ValueError, KeyError, TypeError):  # absent, or the manifest itself is damaged
            return False

    def bytes(self) -> int:
        """What the entry takes on the disk."""
        return sum(_sizes(self.folder).values())


def ready(entry: CacheEntry, build: Callable[[Path], None], notify: Notify = say) -> Path:
    """The folder of a whole entry; if there is none, `build` fills an empty folder that then becomes it.

    >>> import tempfile; os.environ["REAGENT_CACHE"] = tempfile.mkdtemp()
    >>> folder = ready(CacheEntry("greeting", stamp="1"), lambda part: print((part / "hello").write_text("hi")))
    2
    >>> (folder / "hello").read_text(), ready(CacheEntry("greeting", stamp="1"), print) == folder
    ('hi', True)
    >>> shutil.rmtree(os.environ.pop("REAGENT_CACHE"))
    """
    if entry.is_whole():  # asked without the lock, so that a read-only cache serves too
        return entry.folder
    with _locked(entry, notify):
        if not entry.is_whole():  # nor did another process make it while this one waited
            _sweep(entry)
            if entry.folder.exists():
                notify(f"{entry.name} in the cache is damaged or out of date: making it again")
            _publish(entry, build)
    return entry.folder


def discard(entry: CacheEntry, notify: Notify = say) -> None:
    """Remove an entry, if it is there."""
    with _locked(entry, notify):
        if entry.folder.exists():
            _remove(entry)


def check_space(folder: Path, needed: int) -> None:
    """Fail now rather than when the disk is full: a writer of mapped files may then die without a word."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FetchError(
            f"the cache folder {str(root())!r} needs {needed / 1e6:,.0f} MB and its disk has {free / 1e6:,.0f} MB: "
            "free some space or set REAGENT_CACHE to a folder on another disk"
        )


def _publish(entry: CacheEntry, build: Callable[[Path], None]) -> None:
    """Build aside, then rename: nobody ever sees half an entry."""
    part = _aside(entry)
    try:
        part.mkdir()
        build(part)
        _share(part)
        manifest = {"stamp": entry.stamp, "files": _sizes(part)}
        atomic_write(part / _MANIFEST, json.dumps(manifest, indent=1) + "\n")
        if entry.folder.exists():
            _remove(entry)
        part.rename(entry.folder)
    except OSError as error:
        raise FetchError(
            f"cannot write {entry.name} into the cache folder {str(root())!r}: {error.strerror or error}; "
            "make room there or set REAGENT_CACHE to another folder"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove(entry: CacheEntry) -> None:
    """Rename first: removing takes a moment, and an entry must not be seen half gone."""
    old = _aside(entry)
    entry.folder.rename(old)
    shutil.rmtree(old, ignore_errors=True)


def _aside(entry: CacheEntry) -> Path:
    # A new name each time: a process that outlived its killed parent must not write into the next attempt.
    return root() / f"{entry.name}{_PART}{secrets.token_hex(4)}"


def _sweep(mine: CacheEntry) -> None:
    """Remove what interrupted runs left, of `mine`, whose lock is held, and of all that nobody is making now."""
    for part in root().glob(f"*{_PART}*"):
        name = part.name.split(_PART)[0]
        with suppress(Timeout), nullcontext() if name == mine.name else FileLock(_lock_file(name), timeout=0):
            shutil.rmtree(part, ignore_errors=True)


def _share(folder: Path) -> None:
    """Give each file the permissions that the person's umask gave the folder: some writers make files private."""
    allowed = folder.stat().st_mode & 0o666
    for file in _sizes(folder):
        (folder / file).chmod(allowed)


def _sizes(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()
    }


def _lock_file(name: str) -> Path:
    return root() / f"{name}.lock"


@contextmanager
def _locked(entry: CacheEntry, notify: Notify) -> Iterator[None]:
    lock = FileLock(_lock_file(entry.name))
    try:
        root().mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            notify(f"waiting for another process that is making {entry.name}")
            lock.acquire()
    except OSError as error:
        raise FileError(
            f"cannot use the cache folder {str(root())!r}: {error.strerror or error}; "
            "set REAGENT_CACHE to a folder that can be written"
        ) from error
    try:
        yield
    finally:
        lock.release()
