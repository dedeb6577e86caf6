"""Explanations on the disk, by their id: what a link points to after the service was started again."""

import re
from contextlib import suppress
from pathlib import Path

from reagent.atomic_io import check_writable
from reagent.errors import FileError
from reagent.explanation import Explanation

KEPT = 1000  # the oldest go
_ID = re.compile(r"[0-9a-f]{16}")


class ExplanationStore:
    """A folder with one JSON file for each explanation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # prompts are nobody else's business
        except OSError as error:
            raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror or error}") from error
        check_writable(folder / "explanation.json")

    def put(self, name: str, why: Explanation) -> None:
        why.save(self._path(name))
        kept = sorted(self.folder.glob("*.json"), key=_age)
        for old in kept[KEPT:]:
            old.unlink(missing_ok=True)

    def get(self, name: str) -> Explanation | None:
        """None if there is none of that name, or if it can no longer be read."""
        if not _ID.fullmatch(name) or not self._path(name).is_file():
            return None
        with suppress(FileError):
            return Explanation.load(self._path(name))
        return None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _age(path: Path) -> float:
    try:
        return -path.stat().st_mtime
    except OSError:  # another service on the same folder was faster
        return 0.0
