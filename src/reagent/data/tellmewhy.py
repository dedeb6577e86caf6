"""TellMeWhy (Lal et al., 2021): a short story, and a question why somebody did something in it."""

from reagent.data.base import Dataset, Example, revision_of
from reagent.data.hub import Location, rows_from
from reagent.data.readers import Row, read_examples

SUMMARY = "short stories, each followed by a question why; the model answers"
LICENCE = "Apache-2.0"
SOURCE = "own stories in the manner of TellMeWhy (Lal et al., 2021)"

_HUB_LICENCE = "licence not stated by its authors"
_LOCATION = Location("tellmewhy.jsonl", "StonyBrookNLP/tellmewhy", "test", "narrative, question")
_OF_PAPER = 200  # examples drawn from it in the paper

HUB = f"{_LOCATION.hub}, split {_LOCATION.split}, of which {_OF_PAPER} are drawn as in the paper; {_HUB_LICENCE}"


def load_tellmewhy(source: str | None = None) -> Dataset:
    """The bundled stories, or the fields `narrative` and `question` of a file or of the hub."""
    name, rows = rows_from(source, _LOCATION)
    unique: dict[str, Example] = {}  # a question has a row for each answer that people gave
    for example in read_examples(name, rows, _example):
        unique.setdefault(example.prompt, example)
    examples = tuple(unique.values())
    return Dataset(
        id="tellmewhy",
        source=name,
        revision=revision_of(examples),
        licence=LICENCE if name == "bundled" else _HUB_LICENCE,
        level="sequence",
        max_new_tokens=25,
        stride=5,
        examples=examples,
        usual_size=None if name == "bundled" else _OF_PAPER,
    )


def _example(row: Row) -> Example | None:
    story, question = row.text("narrative"), row.text("question")
    if story is None or question is None:
        return None
    return Example(str(row.number), f"{story.strip()} {question.strip()}")
