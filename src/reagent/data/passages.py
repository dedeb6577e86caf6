"""Collections of short documents with a question, an answer, and the sentences that the answer comes from.

All places and people are invented, so that the model knows nothing about them. A collection of the kind `known` or
`invented` has no source: the model knows the answer, or makes it up.
"""

from collections.abc import Collection as Container
from dataclasses import dataclass
from functools import cached_property

from reagent.data.readers import Row, bundled_path, read_rows
from reagent.errors import UnknownNameError
from reagent.segmentation import split_sentences

KINDS = {
    "one": "one sentence states the fact",
    "two_exact": "two documents state the fact in the same sentence",
    "two_paraphrase": "two documents state the fact in different words",
    "contradicting": "two documents state different values, and the answer follows one of them",
    "distractor": "other documents share many words with the question, but not the fact",
    "known": "no document states the fact, and the model knows it",
    "invented": "no document mentions what is asked, and the answer is invented",
}
SPLITS = ("choose", "report")
_FILE = "passages.jsonl"

Place = tuple[int, int]  # a document and a sentence of it, both counted from 0


@dataclass(frozen=True)
class Passage:
    """One document of a collection."""

    id: str
    text: str

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The sentences without the white space between them."""
        return tuple(self.text[start:end].strip() for start, end in split_sentences(self.text))


@dataclass(frozen=True)
class Collection:
    """A question about documents, an answer, and where the answer comes from."""

    id: str  # kind and topic: "one-ferry"
    split: str  # one of SPLITS; the two share no topic
    topic: str
    kind: str  # one of KINDS
    question: str
    documents: tuple[Passage, ...]
    answer: str
    sources: tuple[Place, ...]  # each of them is enough for the answer; none if it is not from the documents

    @property
    def from_documents(self) -> bool:
        return bool(self.sources)

    @property
    def places(self) -> tuple[Place, ...]:
        """All sentences, in order."""
        return tuple((d, s) for d, document in enumerate(self.documents) for s in range(len(document.sentences)))

    def sentence(self, place: Place) -> str:
        return self.documents[place[0]].sentences[place[1]]

    def message(self, removed: Container[Place] = ()) -> str:
        """The message of the user: the documents without the removed sentences, and the question.

        The headings of the documents stay, also if no sentence of a document is left.
        """
        texts = [
            " ".join(text for s, text in enumerate(document.sentences) if (d, s) not in removed)
            for d, document in enumerate(self.documents)
        ]
        blocks = [f"Document {number}:\n{text}" for number, text in enumerate(texts, start=1)]
        return "\n\n".join([INSTRUCTION, *blocks, f"Question: {self.question}"])


INSTRUCTION = "Answer the question with the help of the documents."


def load_collections(split: str | None = None) -> tuple[Collection, ...]:
    """The bundled collections of a split, or of both.

    `choose` is for choosing options of a method, and `report` for reporting its quality.

    >>> first = load_collections("choose")[0]
    >>> first.question, first.sentence(first.sources[0])
    ('When does the first ferry to Skarn leave?', 'The first ferry to Skarn leaves at seven in the morning.')
    """
    if split is not None and split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    collections = (_collection(row) for row in read_rows(bundled_path(_FILE)))
    return tuple(collection for collection in collections if split in (None, collection.split))


def _collection(row: Row) -> Collection:
    fields = row.fields
    return Collection(
        **{name: fields[name] for name in ("id", "split", "topic", "kind", "question", "answer")},
        documents=tuple(Passage(document["id"], document["text"]) for document in fields["documents"]),
        sources=tuple((document, sentence) for document, sentence in fields["sources"]),
    )
