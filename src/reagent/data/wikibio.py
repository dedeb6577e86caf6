"""WikiBio in the version of SelfCheckGPT (Manakul et al., 2023): the model continues the beginning of a biography.

The prompt is the first two sentences of the biography that GPT-3 wrote (`gpt3_sentences`), as in the example that
the paper prints. A file without that field may have `gpt3_text`, `wiki_bio_text` or `text`.
"""

import json
from collections.abc import Sequence

from reagent.data.base import Dataset, Example, revision_of
from reagent.data.hub import Location, rows_from
from reagent.data.readers import Row, read_examples
from reagent.errors import FileError
from reagent.segmentation import split_sentences

SUMMARY = "the first two sentences of biographies; the model continues them"
LICENCE = "Apache-2.0"
SOURCE = "own biographies of people who never lived, in the manner of WikiBio (Lebret et al., 2016)"

_HUB_LICENCE = "CC BY-SA 3.0"
_TEXTS = ("gpt3_text", "wiki_bio_text", "text")
_LOCATION = Location(
    "wikibio.jsonl",
    "potsawee/wiki_bio_gpt3_hallucination",
    "evaluation",
    "gpt3_sentences (or gpt3_text, wiki_bio_text, text)",
)
_PROMPT = 2  # sentences

HUB = f"{_LOCATION.hub}, split {_LOCATION.split}, 238 biographies; {_HUB_LICENCE}"


def load_wikibio(source: str | None = None) -> Dataset:
    """The bundled biographies, or those of a file or of the hub."""
    name, rows = rows_from(source, _LOCATION)
    examples = read_examples(name, rows, _example)
    return Dataset(
        id="wikibio",
        source=name,
        revision=revision_of(examples),
        licence=LICENCE if name == "bundled" else _HUB_LICENCE,
        level="sequence",
        max_new_tokens=25,
        stride=5,
        examples=examples,
    )


def _example(row: Row) -> Example | None:
    prompt = " ".join(one.strip() for one in _sentences(row)[:_PROMPT])
    return Example(str(row.fields.get("wiki_bio_test_idx", row.number)), prompt) if prompt else None


def _sentences(row: Row) -> Sequence[str]:
    given = row.fields.get("gpt3_sentences")
    if isinstance(given, str):  # in a CSV file, a list is written as JSON
        try:
            given = json.loads(given)
        except ValueError as error:
            raise FileError(f"{row.where}: 'gpt3_sentences' must be a list of texts, got {given[:40]!r}") from error
    if given is not None:
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise FileError(f"{row.where}: 'gpt3_sentences' must be a list of texts, got {given!r}")
        return [one for one in given if one.strip()]
    field = next((name for name in _TEXTS if name in row.fields), None)
    if field is None:
        raise FileError(f"{row.where} has no field 'gpt3_sentences', nor one of {', '.join(_TEXTS)}")
    text = row.text(field) or ""
    return [text[start:end] for start, end in split_sentences(text)]
