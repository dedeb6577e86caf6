"""Write the files of a report: each file atomically, and without touching files of others."""

import json
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from reagent.atomic_io import atomic_write
from reagent.errors import FileError, InputError

MANIFEST = "report.json"  # the files of a report, so that the next report can delete those it no longer has
SCHEMA = "reagent.report/1"
_FOLDERS = ("tables", "figures", "data")

ReportFiles = Mapping[str, str | bytes]  # content by path relative to the folder of the report


def require_libraries() -> None:
    """Raise an error that names what to install, before any work is done."""
    try:
        import polars  # noqa: F401
    except ImportError as error:
        raise InputError(
            "a report needs polars, which is not installed; run: pip install 'reagent-lm[bench]'"
        ) from error


def require_folder(out: Path) -> None:
    """Raise an error before any work is done if `out` is a file."""
    if out.exists() and not out.is_dir():
        raise FileError(f"cannot write a report to {str(out)!r}: it is a file; give a folder")


def data_files(name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Records as CSV and Parquet. Each column has one type; a missing number is null."""
    import polars

    rows = [{name: _to_utf8(value) for name, value in record.items()} for record in records]
    frame = polars.DataFrame(rows, infer_schema_length=None)
    files = {}
    for extension, write in (("csv", frame.write_csv), ("parquet", frame.write_parquet)):
        buffer = BytesIO()
        write(buffer)
        files[f"data/{name}.{extension}"] = buffer.getvalue()
    return files


def write_files(files: ReportFiles, out: Path) -> list[Path]:
    """Write the files into the folder `out`, the first of them last, and delete those of an earlier report only."""
    earlier = _read_manifest(out)
    first, *others = files
    try:
        for name in files:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {str(out)!r}: {error.strerror or error}; choose another") from error
    # The manifest is written first and names old and new files: after an interruption the next report deletes both.
    atomic_write(out / MANIFEST, _manifest({*earlier, *files}))
    written = [atomic_write(out / name, files[name]) for name in (*others, first)]
    for name in earlier - set(files):
        (out / name).unlink(missing_ok=True)
    written.append(atomic_write(out / MANIFEST, _manifest(files)))
    return [written[-2], *written[:-2], written[-1]]


def _to_utf8(value: Any) -> Any:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _manifest(names: Iterable[str]) -> str:
    return json.dumps({"schema": SCHEMA, "files": sorted(names)}, indent=1) + "\n"


def _read_manifest(out: Path) -> set[str]:
    """The files of an earlier report in this folder. Paths that lead out of it are ignored."""
    try:
        manifest = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        names = {str(name) for name in manifest["files"]} if manifest["schema"] == SCHEMA else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    root = out.resolve()
    return {name for name in names if (out / name).resolve().parent in (root, *(root / sub for sub in _FOLDERS))}
