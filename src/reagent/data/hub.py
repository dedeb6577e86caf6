"""Rows of the hub's datasets, through the library `datasets` (the extra `hub`)."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reagent.data.readers import TABLES, Row, bundled_path, read_rows
from reagent.errors import FetchError, FileError, InputError
from reagent.models._transformers import shorten_message

# The branch with converted tables, for datasets whose own files are a script, which `datasets` no longer runs.
CONVERTED = "refs/convert/parquet"


@dataclass(frozen=True)
class Location:
    """The location of a dataset: a bundled sample, and the complete dataset on the hub."""

    sample: str
    hub: str
    split: str
    fields: str  # required in every row; text for messages


def rows_from(source: str | None, location: Location) -> tuple[str, Iterator[Row]]:
    """The name and the rows of a source: `bundled`, a file, a hub id, or `hub` for the dataset's own id."""
    if source in (None, "bundled"):
        return "bundled", read_rows(bundled_path(location.sample))
    assert source is not None
    path = Path(source).expanduser()
    if path.suffix.lower() in TABLES or path.is_file():
        if not path.is_file():
            raise FileError(f"there is no file {source!r}: give a file with the fields {location.fields}, or a hub id")
        return source, read_rows(path)
    if source == "hub":
        return location.hub, hub_rows(location.hub, location)
    if source.count("/") == 1 or path.is_dir():
        return source, hub_rows(source, location)
    raise InputError(
        f"unknown source {source!r}: give 'bundled', 'hub', a hub id as {location.hub!r}, "
        f"or a file ({', '.join(TABLES)}) with the fields {location.fields}"
    )


def hub_rows(source: str, location: Location) -> Iterator[Row]:
    """The rows of one split; `source` may end in @REVISION."""
    name, _, revision = source.partition("@")
    table = _table(name, location, revision or None)
    for number, fields in enumerate(table):
        yield Row(f"{name}, row {number}", number, fields)


def _table(name: str, location: Location, revision: str | None) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            f"{name!r} is read with the package datasets, which is not installed; run: pip install 'reagent-lm[hub]', "
            f"or give a file with the fields {location.fields}"
        ) from error
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        _check_reachable(name, revision, datasets.config.HF_DATASETS_CACHE)
        try:
            return datasets.load_dataset(name, split=location.split, revision=revision)
        except RuntimeError as error:
            if "script" not in str(error) or revision is not None:
                raise
            return datasets.load_dataset(name, split=location.split, revision=CONVERTED)
    except Exception as error:  # datasets raises anything from OSError to ArrowInvalid
        raise FetchError(
            f"cannot load {name!r} (split {location.split}) from the hub: {shorten_message(error)}; check the name "
            f"and the connection, give a file with the fields {location.fields}, or use the bundled sample"
        ) from error


def _check_reachable(name: str, revision: str | None, kept: Path) -> None:
    """Fail at once, where `datasets` would retry for half a minute; folders and cached datasets need no hub."""
    from huggingface_hub import dataset_info

    if not Path(name).is_dir() and not (Path(kept) / name.replace("/", "___")).is_dir():
        dataset_info(name, revision=revision, timeout=10)
