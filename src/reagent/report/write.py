"""How a report gets to the disk: every file whole, and nobody else's file touched."""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from reagent.atomic_io import atomic_write
from reagent.errors import FileError, InputError
from reagent.views.plots import require_matplotlib

LIST = "report.json"  # what the report consists of, so that the next one can take away what it no longer has
SCHEMA = "reagent.report/1"

Files = Mapping[str, str | bytes]


def require_libraries() -> None:
    """Say in one line what to install, before any work is done."""
    require_matplotlib()
    try:
        import polars  # noqa: F401
    except ImportError as error:
        raise InputError(
            "a report needs polars, which is not installed; run: pip install 'reagent-lm[bench]'"
        ) from error


def data_files(name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Records as CSV and Parquet; a column has one type, and nothing where there is no number."""
    import polars

    lines = [{name: _writable(value) for name, value in record.items()} for record in records]
    frame = polars.DataFrame(lines, infer_schema_length=None)
    found = {}
    for kind, write in (("csv", frame.write_csv), ("parquet", frame.write_parquet)):
        buffer = BytesIO()
        write(buffer)
        found[f"data/{name}.{kind}"] = buffer.getvalue()
    return found


def _writable(value: Any) -> Any:
    """Half of a surrogate pair has no place in UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def save(files: Files, out: Path) -> list[Path]:
    """Write the files into the folder `out`, the first of them last; take away those of an earlier report only."""
    if out.exists() and not out.is_dir():
        raise FileError(f"cannot write a report to {str(out)!r}: it is a file; give a folder")
    earlier = _listed(out)
    first, *others = files
    try:
        for name in files:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {str(out)!r}: {error.strerror or error}; choose another") from error
    # The list comes first and names old and new, so that a report cut short is still taken away by the next.
    atomic_write(out / LIST, _list({*earlier, *files}))
    written = [atomic_write(out / name, files[name]) for name in (*others, first)]
    for name in earlier - set(files):
        (out / name).unlink(missing_ok=True)
    written.append(atomic_write(out / LIST, _list(files)))
    return [written[-2], *written[:-2], written[-1]]


def _list(names: Any) -> str:
    return json.dumps({"schema": SCHEMA, "files": sorted(names)}, indent=1) + "\n"


def _listed(out: Path) -> set[str]:
    """The files of an earlier report there; names that lead elsewhere are not believed."""
    try:
        found = json.loads((out / LIST).read_text(encoding="utf-8"))
        names = {str(name) for name in found["files"]} if found["schema"] == SCHEMA else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    root = out.resolve()
    return {name for name in names if (out / name).resolve().parent in (root, *(root / sub for sub in _FOLDERS))}


_FOLDERS = ("tables", "figures", "data")
