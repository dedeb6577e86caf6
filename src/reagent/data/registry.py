"""The datasets by their ids; those of installed packages are found by the same functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reagent.data import longra, longra_repeated, tellmewhy, user_files, wikibio
from reagent.data.base import Dataset
from reagent.errors import InputError, UnknownNameError
from reagent.plugins import find_all, load_plugin, plugin_names


class LoadDataset(Protocol):
    """Loads a dataset: the bundled sample, or the same fields from a file or from the hub."""

    def __call__(self, source: str | None = None) -> Dataset: ...


@dataclass(frozen=True)
class DatasetInfo:
    """A dataset as it is listed."""

    summary: str
    licence: str  # of the bundled sample
    source: str  # where it comes from
    load: LoadDataset
    hub: str = ""  # the complete dataset on the hub: its id, size and licence


DATASETS: Mapping[str, DatasetInfo] = {
    "longra": DatasetInfo(longra.SUMMARY, longra.LICENCE, longra.SOURCE, longra.load_longra),
    "longra_repeated": DatasetInfo(
        longra_repeated.SUMMARY, longra.LICENCE, longra_repeated.SOURCE, longra_repeated.load_longra_repeated
    ),
    "tellmewhy": DatasetInfo(
        tellmewhy.SUMMARY, tellmewhy.LICENCE, tellmewhy.SOURCE, tellmewhy.load_tellmewhy, tellmewhy.HUB
    ),
    "wikibio": DatasetInfo(wikibio.SUMMARY, wikibio.LICENCE, wikibio.SOURCE, wikibio.load_wikibio, wikibio.HUB),
}


def dataset_names() -> list[str]:
    """The ids of all datasets: built in, then those of installed packages."""
    return [*DATASETS, *(name for name in plugin_names("datasets") if name not in DATASETS)]


def find_dataset(name: str) -> DatasetInfo | None:
    """A dataset by its id, built in or from an installed package."""
    plugin = DATASETS.get(name) or load_plugin("datasets", name)
    if plugin is None or isinstance(plugin, DatasetInfo):
        return plugin
    if not callable(plugin):
        raise InputError(f"the plugin {plugin!r} is not a dataset: register a DatasetInfo or a function that loads one")
    summary = (plugin.__doc__ or name).strip().splitlines()[0]
    return DatasetInfo(summary, "not stated", "an installed package", plugin)


def list_datasets() -> dict[str, DatasetInfo]:
    """All datasets by id; a plugin that cannot be loaded is left out with a warning."""
    listed = find_all(dataset_names(), find_dataset)
    return {name: info for name, info in listed.items() if info is not None}


def load_dataset(name_or_file: str | Dataset, source: str | None = None) -> Dataset:
    """A dataset by its id, or a file of prompts; a Dataset is returned as it is.

    `source` replaces the bundled sample: a file with the fields of that dataset, a hub id, or `hub`.

    >>> load_dataset("tellmewhy").examples[0].prompt.endswith("?")
    True
    """
    if isinstance(name_or_file, Dataset):
        return name_or_file
    info = find_dataset(name_or_file)
    if info is not None:
        return info.load(source)
    if not user_files.looks_like_file(name_or_file):
        raise UnknownNameError("dataset", name_or_file, dataset_names(), hint="; or give a file of prompts")
    if source is not None:
        raise InputError(
            f"{name_or_file!r} is a file: leave out the source, or give one of {', '.join(dataset_names())}"
        )
    return user_files.load_file(Path(name_or_file))
