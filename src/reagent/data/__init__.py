"""What is explained in bulk: one file per data set.

longra.py     relations between words, with a distractor in between; the next word is the target
tellmewhy.py  short stories, each with a question why
wikibio.py    how biographies begin
user_files.py      a user's own prompts
example.py    Example and Dataset, and samples of them
known.py      which examples a model knows
rows.py       rows of files: JSONL, CSV, Parquet
hub.py        rows of the hub's data sets
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reagent.data import longra, tellmewhy, user_files, wikibio
from reagent.data.base import Dataset, Example, sample
from reagent.data.filters import keep_known
from reagent.errors import InputError, UnknownNameError


class Load(Protocol):
    """Loads a data set: what is bundled, or the same fields from a file or from the hub."""

    def __call__(self, source: str | None = None) -> Dataset: ...


@dataclass(frozen=True)
class DatasetInfo:
    """A data set as a person finds it in a list."""

    summary: str
    licence: str  # of what is bundled
    source: str  # where it comes from
    load: Load
    hub: str = ""  # the whole of it, for which what is bundled stands in: its hub id, size and licence


DATASETS: Mapping[str, DatasetInfo] = {
    "longra": DatasetInfo(longra.SUMMARY, longra.LICENCE, longra.SOURCE, longra.load),
    "tellmewhy": DatasetInfo(tellmewhy.SUMMARY, tellmewhy.LICENCE, tellmewhy.SOURCE, tellmewhy.load, tellmewhy.HUB),
    "wikibio": DatasetInfo(wikibio.SUMMARY, wikibio.LICENCE, wikibio.SOURCE, wikibio.load, wikibio.HUB),
}


def load_dataset(name_or_file: str, source: str | None = None) -> Dataset:
    """A data set by its id, or a file of prompts.

    `source` takes the place of what is bundled: a file with the fields of that data set, a hub id, or `hub`.

    >>> load_dataset("tellmewhy").examples[0].prompt.endswith("?")
    True
    """
    if name_or_file in DATASETS:
        return DATASETS[name_or_file].load(source)
    if not user_files.looks_like_file(name_or_file):
        raise UnknownNameError("data set", name_or_file, DATASETS, hint="; or give a file of prompts")
    if source is not None:
        raise InputError(f"{name_or_file!r} is a file already: give no other source, or one of {', '.join(DATASETS)}")
    return user_files.load(Path(name_or_file))


__all__ = ["DATASETS", "Dataset", "DatasetInfo", "Example", "keep_known", "load_dataset", "sample"]
