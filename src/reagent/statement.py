"""Record: a statement about one explanation for those who must be able to check it.

It names the five elements of an attribution contract (Nguyen 2026, arXiv 2605.23080): the explained output, the
features, the generative process, what is held fixed, and the score; and with them the intervention, the files of the
model, a second run with another seed, a counterfactual, and the known limits. `sha256` is the hash of everything else,
as canonical JSON. It shows whether the record was changed, and not who wrote it.
"""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from reagent import serialization
from reagent._version import __version__
from reagent.atomic_io import atomic_write
from reagent.errors import InputError
from reagent.explanation import Explanation, Info, StandardError
from reagent.field_types import check_fields
from reagent.serialization import Count, JsonDocument, JsonSchema

Sha256 = Annotated[str, JsonSchema(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Contract:
    """What the explanation claims, in words."""

    explained: str
    """Which output is explained."""
    features: str
    """Which parts of the context can have an importance."""
    process: str
    """How the model is assumed to generate."""
    held_fixed: str
    """What is the same in every text that was scored."""
    score: str
    """The number of the model that is attributed."""
    intervention: str
    """What is done to a feature."""


@dataclass(frozen=True)
class RecordedFile:
    """A file of the model."""

    name: str
    size: Count
    """In bytes."""
    sha256: Sha256


@dataclass(frozen=True)
class RecordedUnit:
    """One of the most important units of the prompt."""

    text: str
    start: Count
    end: Count
    score: float
    effect: float | None
    stderr: StandardError | None
    second_score: float | None
    """Its score with the second seed."""


@dataclass(frozen=True)
class Stability:
    """How much the scores change with another seed."""

    seed: Count
    """The second one."""
    rank_correlation: float | None
    """Spearman's, over all units that are not protected; null if one run gives all of them the same score."""
    largest_change: float
    """The largest change of a score."""
    shared: Count
    """How many of the most important units are among the most important ones of the second run."""
    compared: Count
    """How many are compared."""


@dataclass(frozen=True)
class Counterfactual:
    """What the model says without the most important unit, or without the group that it belongs to."""

    removed: tuple[str, ...]
    answer: str
    """The model's own continuation of the prompt without them; empty if it ends there."""


@dataclass(frozen=True, kw_only=True)
class Record(JsonDocument):
    """A statement about one explanation, with a hash of its content."""

    __pydantic_config__: ClassVar = serialization.STRICT
    SCHEMA: ClassVar = "reagent.record/1"
    OLDER_SCHEMAS: ClassVar = dict[str, frozenset[str]]()
    ADDED_LATER: ClassVar = frozenset[str]()

    version: str = __version__
    """Version of reagent that made the record."""
    created: Annotated[str, JsonSchema(format="date-time")] = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )
    explanation_sha256: Sha256
    """Hash of the explanation as canonical JSON: sorted keys, no spaces, UTF-8."""
    prompt: str
    completion: str
    contract: Contract
    model: Info
    files: tuple[RecordedFile, ...]
    """Weights, configuration and tokenizer; empty if they are not on this machine."""
    method: Info
    replacer: Info | None
    seed: Count
    units: tuple[RecordedUnit, ...]
    """The most important ones, the best first."""
    stability: Stability | None
    """Null if the method could not be run again; the limits say why."""
    counterfactual: Counterfactual | None
    limits: tuple[str, ...]
    sha256: Sha256 = ""
    """Hash of all other fields as canonical JSON."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.sha256:
            object.__setattr__(self, "sha256", self.compute_sha256())

    def compute_sha256(self) -> str:
        return canonical_sha256({name: value for name, value in self.to_dict().items() if name != "sha256"})

    def verify(self, explanation: Explanation | None = None) -> None:
        """Raise an InputError if the record was changed, or if it is about another explanation."""
        own = self.compute_sha256()
        if own != self.sha256:
            raise InputError(
                f"the record was changed after it was written: its content has the SHA-256 {own}, and it says "
                f"{self.sha256}; get the original"
            )
        if explanation is not None and explanation_sha256(explanation) != self.explanation_sha256:
            raise InputError(
                f"the record is about another explanation: this one has the SHA-256 {explanation_sha256(explanation)}, "
                f"and the record says {self.explanation_sha256}; give that one"
            )

    # --- JSON ---

    def to_json(self, indent: int | None = 1) -> str:
        """The JSON form as text, with a line for each value, since auditors read it."""
        return super().to_json(indent)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a record from a JSON file, without checking the hash: `verify` does."""
        return super().load(path)

    # --- views (imported lazily: this module does not depend on them) ---

    def to_markdown(self, path: str | Path | None = None) -> str:
        """One page of Markdown; also written to `path` where one is given."""
        from reagent.views.record import render_markdown

        return _write(render_markdown(self), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """One page of HTML that needs no network and no script; also written to `path` where one is given."""
        from reagent.views.record import render_page

        return _write(render_page(self), path)

    def show(self) -> None:
        """Print it as Markdown."""
        print(self.to_markdown())

    def __repr__(self) -> str:
        return f"<Record of {self.completion!r} on {self.model.get('id')}: {self.sha256}>"


def explanation_sha256(explanation: Explanation) -> str:
    return canonical_sha256(explanation.to_dict())


def canonical_sha256(data: Any) -> str:
    """The hash of JSON with sorted keys, without spaces, in UTF-8.

    >>> canonical_sha256({"b": 1, "a": "é"}) == canonical_sha256({"a": "é", "b": 1})
    True
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _write(text: str, path: str | Path | None) -> str:
    if path is not None:
        atomic_write(path, text)
    return text
