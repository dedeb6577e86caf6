"""Datasets: prompts to explain in bulk, one file per dataset.

base.py             Example and Dataset, and samples of them
registry.py         the datasets by their ids
longra.py           relations between words, with a distractor in between; the next word is the target
longra_repeated.py  the same with the word mentioned two or three times
tellmewhy.py        short stories, each with a question why
wikibio.py          the beginnings of biographies
passages.py         questions about documents, with the sentences that answer them
user_files.py       a user's own prompts
filters.py          the examples that suit a model
readers.py          rows of JSONL, CSV and Parquet files
hub.py              rows of datasets on the hub
assets/             the bundled samples and their sources
"""

from reagent.data.base import Dataset, Example, sample
from reagent.data.filters import filter_examples, keep_answered, keep_predicted
from reagent.data.registry import DATASETS, DatasetInfo, dataset_names, find_dataset, list_datasets, load_dataset

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetInfo",
    "Example",
    "dataset_names",
    "filter_examples",
    "find_dataset",
    "keep_answered",
    "keep_predicted",
    "list_datasets",
    "load_dataset",
    "sample",
]
