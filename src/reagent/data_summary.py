"""The global view: which words matter on average over many explained prompts, with examples.

For each prompt, the scores and effects of all places of a word are summed: those of the answer as a whole, or of the
phrase or token that was asked for. The *importance* of a word is its mean score over all prompts, where it is 0 in
prompts without the word; the importances of all words sum to 1. The *effect* is its mean over the prompts that have it.
Punctuation alone is no word.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from reagent import serialization
from reagent._version import __version__
from reagent.atomic_io import atomic_write
from reagent.explanation_parts import Score
from reagent.field_types import check_fields
from reagent.prompt_study import MeanEffect
from reagent.serialization import Count, JsonDocument, JsonSchema

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class WordExample:
    """A prompt in which the word matters most."""

    prompt: Count
    """Number of the prompt, from 0."""
    before: str
    """The text before the word, shortened."""
    word: str
    after: str
    answer: str
    score: Score
    effect: float | None


@dataclass(frozen=True, slots=True)
class SummaryWord:
    """A word, or a larger unit, over all prompts."""

    text: str
    """As it is most often written."""
    prompts: Count
    """Number of prompts that have it."""
    importance: Score
    score: Score
    """Mean score in the prompts that have it."""
    effect: MeanEffect | None
    """Mean effect in the prompts that have it; null if the method gives no effects."""
    examples: tuple[WordExample, ...]


@dataclass(frozen=True, kw_only=True)
class Summary(JsonDocument):
    """The words of many explained prompts, the most important first."""

    __pydantic_config__: ClassVar = serialization.STRICT
    SCHEMA: ClassVar = "reagent.summary/1"
    OLDER_SCHEMAS: ClassVar = dict[str, frozenset[str]]()
    ADDED_LATER: ClassVar = frozenset[str]()

    version: str = __version__
    """Version of reagent that made the summary."""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    unit: str
    prompts: Annotated[int, JsonSchema(minimum=1)]
    least: Count
    """Words in fewer prompts are left out."""
    effect_unit: str | None
    models: tuple[str, ...]
    methods: tuple[str, ...]
    words: tuple[SummaryWord, ...]

    def __post_init__(self) -> None:
        check_fields(self)

    # --- views (imported lazily: this module does not depend on them) ---

    def show(self, n: int = 20) -> None:
        """Print the `n` most important words to the terminal."""
        from reagent.views.data_summary import show

        show(self, n)

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained HTML page; also written to `path` if given."""
        from reagent.views.data_summary import render_page

        page = render_page(self)
        if path is not None:
            atomic_write(path, page)
        return page

    def to_frame(self) -> "pandas.DataFrame":
        """A table with a row for each word."""
        from reagent.views.dataframe import summary_to_frame

        return summary_to_frame(self)

    def _repr_html_(self) -> str:
        from reagent.views.data_summary import render_fragment

        return render_fragment(self)

    def __repr__(self) -> str:
        best = ", ".join(word.text for word in self.words[:3])
        return f"<Summary of {self.prompts} prompts: {best}>"
