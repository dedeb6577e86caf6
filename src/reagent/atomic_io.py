"""Writing files completely or not at all, and reading JSON files with clear errors."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from reagent.errors import FileError


def atomic_write(path: str | Path, content: str | bytes) -> Path:
    """Write to a temporary file in the same folder, then rename it: readers never see an incomplete file."""
    path = resolve(path)  # of a link, the file to which it points
    data = _encode(path, content) if isinstance(content, str) else content
    handle, temporary = _create_temporary(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _write_error(path, error) from error
        raise
    return path


def resolve(path: str | Path) -> Path:
    """The absolute path without links. Links in a circle are a FileError."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a circle, before Python 3.13
        reason = "its links form a circle" if isinstance(error, RuntimeError) else error
        raise FileError(f"cannot use {str(path)!r}: {reason}; give another path") from error


def _encode(path: Path, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FileError(
            f"cannot write {str(path)!r}: the text has half of a surrogate pair at character {error.start:,}, which is "
            "not valid Unicode; remove it from the prompt or the output"
        ) from error


def read_json(path: str | Path, hint: str) -> Any:
    """The content of a JSON file; `hint` describes the expected file in error messages."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"), parse_constant=_refuse_constant)
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{str(path)!r} is not JSON ({error}); give {hint}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def check_writable(path: str | Path) -> None:
    """Raise a FileError now, before any work, if `atomic_write(path)` would fail later."""
    handle, temporary = _create_temporary(resolve(path))
    os.close(handle)
    os.unlink(temporary)


def _create_temporary(path: Path) -> tuple[int, str]:
    try:
        if path.is_dir():
            raise FileError(f"cannot write {str(path)!r}: it is a folder; give a file name")
        if not path.parent.is_dir():
            raise FileError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}; create it first")
        if path.exists() and not path.is_file():
            raise FileError(f"cannot write {str(path)!r}: it is not a regular file; choose another path")
        if path.exists() and not os.access(path, os.W_OK):
            raise FileError(f"cannot write {str(path)!r}: it is write-protected; choose another path")
        return tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _write_error(path, error) from error


def _write_error(path: Path, error: OSError) -> FileError:
    return FileError(f"cannot write {str(path)!r}: {error.strerror or error}; choose another path")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
