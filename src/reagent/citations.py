"""Citations: which documents and sentences an answer comes from, sentence by sentence.

Everything is measured on the log-probability of a part of the answer: a sentence, or the answer as a whole.

- `total`: what the part loses when all documents are removed. If this is little, the part is not from the documents.
- `effect` of a source: what the part loses when this source alone is removed. If this is much, the source is *needed*.
- `alone` of a source: what the part gains when this source is the only one that is kept. If this is most of `total`,
  the source is *sufficient*.
- *redundant* sources: each is sufficient, none is needed, and without all of them the part loses much.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from reagent import serialization
from reagent._version import __version__
from reagent.atomic_io import atomic_write
from reagent.documents import Document
from reagent.errors import InputError
from reagent.explanation import Info, StandardError
from reagent.explanation_parts import Score
from reagent.field_types import check_fields
from reagent.serialization import Count, JsonDocument, JsonSchema

if TYPE_CHECKING:
    import pandas

Mark = Literal["needed", "sufficient", "redundant"]
AS_IMPORTANT = 0.5  # share of the largest importance from which a source is cited although it has no mark, …
MOST_CITED = 5  # … if there are not more sources


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document."""

    document: Count
    """Index of the document."""
    start: Count
    end: Count
    text: str
    """Characters `start` to `end` of the document."""


@dataclass(frozen=True, slots=True)
class Source:
    """A sentence or a document as a source of one part of the answer. Numbers that were not measured are null."""

    index: Count
    """Index of the sentence or of the document."""
    importance: Score
    """From 0 to 1: the mean of `effect` and `alone` as shares of `total`."""
    effect: float | None
    """What the part loses when this source alone is removed, in nats."""
    stderr: StandardError | None
    alone: float | None
    """What the part gains when only this source is kept, relative to no source at all, in nats."""
    alone_stderr: StandardError | None
    marks: tuple[Mark, ...]
    redundant_with: tuple[Count, ...]
    """Indices of sources that say the same."""


@dataclass(frozen=True, slots=True)
class Redundancy:
    """Sentences that say the same: each is sufficient, and none is needed."""

    sentences: Annotated[tuple[Count, ...], JsonSchema(minItems=2)]
    effect: float
    """What the part loses when all of them are removed."""
    stderr: StandardError | None


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A sentence of the answer, or the answer as a whole, and its sources."""

    start: Count
    end: Count
    text: str
    """Characters `start` to `end` of the answer."""
    logprob: float
    """Log-probability with all documents, in nats."""
    total: float
    """What the part loses when all documents are removed, in nats."""
    total_stderr: StandardError | None
    from_documents: bool
    """False if removing all documents changes little: the model knows the answer, or invents it."""
    documents: tuple[Source, ...]
    """The most important first."""
    sentences: tuple[Source, ...]
    """The most important first."""
    redundancies: tuple[Redundancy, ...] = ()

    @property
    def cited(self) -> tuple[Source, ...]:
        """The sentences that the part rests on: those with a mark, and a few others that are nearly as important."""
        if not self.from_documents:
            return ()
        least = AS_IMPORTANT * self.sentences[0].importance
        cited = tuple(source for source in self.sentences if source.marks or source.importance >= least)
        return cited if len(cited) <= MOST_CITED else tuple(source for source in cited if source.marks)

    def source(self, sentence: int) -> Source:
        """The entry of a sentence."""
        return next(source for source in self.sentences if source.index == sentence)


@dataclass(frozen=True, slots=True)
class Screening:
    """Which sentences were set aside before single ones were measured, and what all of them are worth."""

    discarded: tuple[Count, ...]
    effect: float
    """What the answer loses when all discarded sentences are removed, in nats."""


@dataclass(frozen=True, slots=True)
class PrunedContext:
    """The smallest context that was found to keep the answer."""

    documents: tuple[Document, ...]
    """The documents with only the kept sentences; documents without any are left out."""
    sentences: tuple[Count, ...]
    effect: float
    """What the answer loses in the prompt of these documents, in nats."""
    keeps_answer: bool
    """Whether that is little."""
    answer: str | None
    """What the model answers to this prompt; null if the answer was given, or if the model was not asked."""


@dataclass(frozen=True, slots=True)
class CitationCost:
    """The work that citations took, without loading the model and without writing the answer."""

    forward_passes: Count
    tokens: Count
    seconds: Annotated[float, JsonSchema(minimum=0)]
    requests: Count = 0


@dataclass(frozen=True, kw_only=True)
class Citations(JsonDocument):
    """An answer to a question about documents, and where each of its sentences comes from."""

    __pydantic_config__: ClassVar = serialization.STRICT
    SCHEMA: ClassVar = "reagent.citations/1"
    OLDER_SCHEMAS: ClassVar = dict[str, frozenset[str]]()
    ADDED_LATER: ClassVar = frozenset({"control_tokens", "noise"})

    version: str = __version__
    """Version of reagent that made the citations."""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    question: str
    answer: str
    prompt: str
    """The whole text before the answer, as the model saw it."""
    documents: Annotated[tuple[Document, ...], JsonSchema(minItems=1)]
    sentences: Annotated[tuple[Sentence, ...], JsonSchema(minItems=1)]
    """The sentences of all documents, in order."""
    whole: AnswerPart
    """The answer as a whole."""
    parts: Annotated[tuple[AnswerPart, ...], JsonSchema(minItems=1)]
    """The sentences of the answer."""
    pruned: PrunedContext
    screening: Screening | None
    """Null if every sentence was measured."""
    model: Annotated[Info, JsonSchema(required=["id", "revision", "dtype", "backend"])]
    removal: str
    """How sources are removed: delete, mask or replace."""
    replacer: Info | None
    control_tokens: tuple[str, ...] = ()
    """Control tokens that the texts contained and the model read as such."""
    noise: StandardError | None = None
    """As in an explanation: how much the responses of a server to the same request differ."""
    seed: int
    cost: CitationCost

    def __post_init__(self) -> None:
        """Indices must refer to existing documents and sentences, which matters for files of others."""
        check_fields(self)
        if not (self.documents and self.sentences and self.parts):
            raise InputError("citations need at least one document, one sentence and one part of the answer")
        if any(not 0 <= part.start <= part.end <= len(self.answer) for part in (self.whole, *self.parts)):
            raise InputError("the parts of an answer must lie inside it")
        documents, sentences = range(len(self.documents)), range(len(self.sentences))
        used = [*self.pruned.sentences, *(self.screening.discarded if self.screening else ())]
        for part in (self.whole, *self.parts):
            used += [i for source in part.sentences for i in (source.index, *source.redundant_with)]
            used += [i for redundancy in part.redundancies for i in redundancy.sentences]
            if any(i not in documents for source in part.documents for i in (source.index, *source.redundant_with)):
                raise InputError(f"sources must refer to one of the {len(documents)} documents")
        if any(i not in sentences for i in used):
            raise InputError(f"sources must refer to one of the {len(sentences)} sentences")
        if any(len({s.index for s in part.sentences}) < len(sentences) for part in (self.whole, *self.parts)):
            raise InputError("each part of the answer must have an entry for each sentence of the documents")
        if any(sentence.document not in documents for sentence in self.sentences):
            raise InputError(f"sentences must refer to one of the {len(documents)} documents")

    def prune(self) -> PrunedContext:
        """The smallest context that was found to keep the answer, and the check that it does."""
        return self.pruned

    def part(self, index: int | None = None) -> AnswerPart:
        """A sentence of the answer, or the answer as a whole."""
        if index is None:
            return self.whole
        try:
            return self.parts[index]
        except IndexError:
            raise InputError(f"the answer has {len(self.parts)} sentences, numbered from 0; got {index}") from None

    def footnotes(self) -> dict[int, int]:
        """The number of each cited sentence, from 1, in the order in which the answer cites them."""
        cited = (source.index for part in self.parts for source in part.cited)
        return {sentence: number for number, sentence in enumerate(dict.fromkeys(cited), 1)}

    # --- views (imported lazily: this module does not depend on them) ---

    def show(self) -> None:
        """Print the answer with its sources to the terminal."""
        from reagent.views.citations import show

        show(self)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The answer with numbered footnotes, as Markdown; also written to `path` if given."""
        from reagent.views.citations import render_markdown

        return _write(render_markdown(self), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained HTML page; also written to `path` if given."""
        from reagent.views.citations_page import render_page

        return _write(render_page(self), path)

    def to_frame(self) -> "pandas.DataFrame":
        """A table with a row for each part of the answer and each sentence of the documents."""
        from reagent.views.dataframe import citations_to_frame

        return citations_to_frame(self)

    def _repr_html_(self) -> str:
        from reagent.views.citations_page import render_fragment

        return render_fragment(self)

    def __repr__(self) -> str:
        cited = ", ".join(self.documents[self.sentences[i].document].id for i in self.footnotes())
        origin = "from many sentences" if self.whole.from_documents else "not from the documents"
        return f"<Citations of {self.answer!r} on {self.model.get('id')}: {cited or origin}>"


def by_importance(sources: Sequence[Source]) -> tuple[Source, ...]:
    """The sources, the most important first."""
    return tuple(sorted(sources, key=lambda source: -source.importance))


def _write(text: str, path: str | Path | None) -> str:
    if path is not None:
        atomic_write(path, text)
    return text
