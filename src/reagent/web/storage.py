"""Results on disk by their id, so that links still work after a restart."""

import re
from contextlib import suppress
from pathlib import Path

from reagent.atomic_io import check_writable, read_json
from reagent.errors import FileError
from reagent.web.results import Result, read_result

MAX_STORED = 1000  # the oldest files are deleted
_ID = re.compile(r"[0-9a-f]{16}")


class ResultStore:
    """A folder with one JSON file for each explanation or citations."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # prompts are private
        except OSError as error:
            raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror or error}") from error
        check_writable(folder / "explanation.json")

    def put(self, name: str, result: Result) -> None:
        """Save a result and delete the oldest ones beyond the limit."""
        result.save(self._path(name))
        newest_first = sorted(self.folder.glob("*.json"), key=_modified, reverse=True)
        for path in newest_first[MAX_STORED:]:
            path.unlink(missing_ok=True)

    def get(self, name: str) -> Result | None:
        """Return the result, or None if its file is missing or damaged."""
        if not _ID.fullmatch(name) or not self._path(name).is_file():
            return None
        with suppress(FileError):
            return read_result(read_json(self._path(name), "a saved result"))
        return None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another service on the same folder has deleted it
        return 0.0
