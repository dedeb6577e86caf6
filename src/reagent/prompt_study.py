"""Prompt studies: which parts of a template matter over many inputs, and which can go.

Everything is measured on the log-probability of an answer: the one that each input expects, or the model's own.

- the *effect* of a part: what the answer loses when the part alone is removed from the prompt. It is measured for each
  input, and its mean over the inputs has a confidence interval.
- *idle*: the interval lies between −threshold and +threshold, and all idle parts together lose less than the threshold.
- *redundant*: idle alone, but not when other idle parts are removed too, since they say the same.
- *borderline*: idle alone, but with the other idle parts the losses add up to the threshold.
- *needed*, *hurts*: the interval lies above 0, or below 0. *unclear*: none of these; more inputs are needed.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from reagent import serialization
from reagent._version import __version__
from reagent.atomic_io import atomic_write
from reagent.errors import InputError
from reagent.explanation import Info
from reagent.explanation_parts import Score
from reagent.field_types import check_fields
from reagent.serialization import Count, JsonDocument, JsonSchema

if TYPE_CHECKING:
    import pandas

Verdict = Literal["needed", "hurts", "idle", "redundant", "borderline", "unclear"]
Share = Annotated[float, JsonSchema(minimum=0, maximum=1)]


@dataclass(frozen=True, slots=True)
class MeanEffect:
    """The mean over inputs of what the answer loses, with its confidence interval; null if it is undefined."""

    mean: float | None
    low: float | None
    high: float | None
    inputs: Count
    """The number of inputs that have the part."""


@dataclass(frozen=True, slots=True)
class StudyPart:
    """A part of the template, and what it does."""

    name: str
    kind: Literal["section", "example", "slot"]
    text: str
    """As it is in the template."""
    tokens: float
    """Mean number of tokens that it adds to the prompt."""
    effect: MeanEffect
    matters: Share | None
    """Share of inputs where removing it changes the answer by more than the threshold, in either direction."""
    matters_low: Share | None
    matters_high: Share | None
    verdict: Verdict
    effects: tuple[float | None, ...]
    """What the answer of each input loses; null where the part is absent or was not measured."""


@dataclass(frozen=True, slots=True)
class PartGroup:
    """Parts that say the same: without all of them the answer loses more than the single effects add up to."""

    parts: Annotated[tuple[Count, ...], JsonSchema(minItems=2)]
    effect: MeanEffect
    single: float
    """Sum of the mean effects of the single parts."""


@dataclass(frozen=True, slots=True)
class Removable:
    """The idle parts, all removed together."""

    parts: tuple[Count, ...]
    effect: MeanEffect
    tokens: float
    """Mean number of tokens that the prompt saves."""


@dataclass(frozen=True, slots=True)
class StudyInput:
    """An input, and its answer in the whole prompt."""

    id: str
    answer: str
    value: float
    """Log-probability of the answer in the whole prompt, in nats, unless `unit` is another."""
    tokens: Count
    """Tokens of the whole prompt."""


@dataclass(frozen=True, slots=True)
class FailedInput:
    """An input that could not be measured."""

    id: str
    error: str


@dataclass(frozen=True, slots=True)
class StudyCost:
    """The work of the whole study, without loading the model; that of earlier runs is included."""

    forward_passes: Count
    tokens: Count
    seconds: Annotated[float, JsonSchema(minimum=0)]


@dataclass(frozen=True, kw_only=True)
class Study(JsonDocument):
    """A template over many inputs: what each part does."""

    __pydantic_config__: ClassVar = serialization.STRICT
    SCHEMA: ClassVar = "reagent.study/1"
    OLDER_SCHEMAS: ClassVar = dict[str, frozenset[str]]()
    ADDED_LATER: ClassVar = frozenset[str]()

    version: str = __version__
    """Version of reagent that made the study."""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    name: str
    """Name of the template."""
    template: str
    metric: Literal["answer", "own"]
    """Whose log-probability is measured: the answer that each input expects, or the model's own."""
    unit: str
    """Unit of all effects."""
    threshold: Annotated[float, JsonSchema(minimum=0)]
    """Effects between −threshold and +threshold count as none."""
    level: Score
    """Confidence level of the intervals."""
    worth: MeanEffect
    """What the answer loses when all parts but the slots are removed."""
    parts: Annotated[tuple[StudyPart, ...], JsonSchema(minItems=1)]
    removable: Removable
    groups: tuple[PartGroup, ...]
    inputs: Annotated[tuple[StudyInput, ...], JsonSchema(minItems=1)]
    failed: tuple[FailedInput, ...]
    alternatives: Info
    """Slots whose value is replaced by these, and not removed."""
    chat: bool
    """Whether the prompt is one message in the model's chat template."""
    model: Annotated[Info, JsonSchema(required=["id", "revision", "dtype", "backend"])]
    cost: StudyCost

    def __post_init__(self) -> None:
        check_fields(self)
        used = [*self.removable.parts, *(part for group in self.groups for part in group.parts)]
        if any(not 0 <= part < len(self.parts) for part in used):
            raise InputError(f"groups must refer to one of the {len(self.parts)} parts")
        if any(len(part.effects) != len(self.inputs) for part in self.parts):
            raise InputError(f"each part must have {len(self.inputs)} effects, one for each input")

    def part(self, name: str) -> StudyPart:
        """The part with this name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise InputError(f"there is no part {name!r}. Known: {', '.join(part.name for part in self.parts)}")

    def with_verdict(self, *verdicts: Verdict) -> list[StudyPart]:
        """The parts with one of these verdicts, in the order of the template."""
        return [part for part in self.parts if part.verdict in verdicts]

    @property
    def prompt_tokens(self) -> float:
        """Mean number of tokens of the prompts."""
        return sum(one.tokens for one in self.inputs) / len(self.inputs)

    # --- views (imported lazily: this module does not depend on them) ---

    def show(self) -> None:
        """Print what matters and what can go to the terminal."""
        from reagent.views.studies import show

        show(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained HTML page; also written to `path` if given."""
        from reagent.views.studies_page import render_page

        page = render_page(self)
        if path is not None:
            atomic_write(path, page)
        return page

    def to_frame(self) -> "pandas.DataFrame":
        """A table with a row for each part."""
        from reagent.views.dataframe import study_to_frame

        return study_to_frame(self)

    def _repr_html_(self) -> str:
        from reagent.views.studies_page import render_fragment

        return render_fragment(self)

    def __repr__(self) -> str:
        return f"<Study of {self.name!r}: {len(self.parts)} parts, {len(self.inputs)} inputs on {self.model.get('id')}>"
