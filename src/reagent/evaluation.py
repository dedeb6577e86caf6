"""Evaluation: how faithful an explanation is to a model, measured by one or more metrics.

A Result is one number: one metric in one measure, averaged over the evaluated targets, with its Monte Carlo standard
error and the value of random attributions. No number is NaN or infinite: a quantity that cannot be measured has a
value by definition, and is flagged.

The dataclasses here also define the JSON form; serialization.py reads and writes it. After a change of a field,
run `python -m reagent.schemas`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from reagent import serialization
from reagent._version import __version__
from reagent.atomic_io import atomic_write
from reagent.errors import FileError, InputError
from reagent.explanation import Z_95, Info, StandardError
from reagent.field_types import check_fields
from reagent.serialization import Count, JsonDocument, JsonSchema

# Flags of a result, and what they mean for its reader.
FLAGS = {
    "no_effect_of_input": "the model predicts the same for a zero input, so nothing can be measured: "
    "0 by definition, and excluded from the mean over targets",
    "too_few_positive": "too few scores are above zero to select the share π: all of them are selected",
    "tied": "more than the share π have the highest score: each of them is selected with the same smaller probability",
    "constant": "the explanation predicts the same for every removal: a correlation of 0 by definition",
    "nothing_to_replace": "nothing before the target can be removed, because it is protected or the replacer has no "
    "proposal: 0 by definition",
}

Flags = tuple[Annotated[str, JsonSchema(enum=list(FLAGS))], ...]


@dataclass(frozen=True)
class TargetResult:
    """The result for one output token."""

    index: Count
    """Which output token of the explanation."""
    value: float
    stderr: StandardError
    random: float
    random_stderr: StandardError
    flags: Flags = ()


@dataclass(frozen=True)
class Point:
    """One point of a curve."""

    at: float
    """The share of tokens that is replaced, or π."""
    value: float
    stderr: StandardError
    random: float
    random_stderr: StandardError


@dataclass(frozen=True)
class Result:
    """One number, its standard error, and the value of random attributions."""

    metric: str
    measure: str
    """The measured quantity: hellinger, nats, spearman, pearson, found, all, …"""
    higher_is_better: bool
    value: float
    stderr: StandardError
    """Monte Carlo standard error: how much the value varies with the seed."""
    random: float
    """The value of random attributions, drawn anew each time."""
    random_stderr: StandardError
    draws: Count
    """Draws or probes; 0 if nothing is random."""
    random_draws: Count
    flags: Flags = ()
    """Of all targets together."""
    targets: tuple[TargetResult, ...] = ()
    curve: tuple[Point, ...] = ()
    """At several shares of replaced tokens, or several π."""
    ratio: float | None = None
    """Value divided by that of random attributions; null if the latter may be 0. Computed from the other fields."""

    def __post_init__(self) -> None:
        if self.unknown_flags:
            raise InputError(f"unknown flags of {self.metric}: {', '.join(self.unknown_flags)}")
        for part in (self, *self.targets, *self.curve):
            numbers = [getattr(part, name) for name in ("value", "stderr", "random", "random_stderr")]
            if not all(math.isfinite(number) for number in numbers):
                raise InputError(f"{self.metric} must have finite numbers, got {numbers}")
        uncertain = self.random <= max(Z_95 * self.random_stderr, 1e-12)
        object.__setattr__(self, "ratio", None if uncertain else self.value / self.random)

    @property
    def unknown_flags(self) -> list[str]:
        return sorted(set(self.flags).union(*(target.flags for target in self.targets)) - set(FLAGS))


@dataclass(frozen=True)
class Skipped:
    """A metric that was not computed, and why."""

    metric: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Evaluation(JsonDocument):
    """How faithful one explanation is to one model."""

    __pydantic_config__: ClassVar = serialization.STRICT
    SCHEMA: ClassVar = "reagent.evaluation/1"
    OLDER_SCHEMAS: ClassVar = dict[str, frozenset[str]]()
    ADDED_LATER: ClassVar = frozenset[str]()

    version: str = __version__
    """Version of reagent that made the evaluation."""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    explanation: Annotated[
        Info,
        JsonSchema(
            required=[
                "version", "created", "prompt", "completion", "model", "method", "replacer", "seed", "target", "unit"
            ]
        ),
    ]  # fmt: skip
    """Which explanation was evaluated, and how it was made."""
    model: Annotated[Info, JsonSchema(required=["id", "revision", "dtype", "backend"])]
    """The model on which it was measured."""
    level: Annotated[str, JsonSchema(enum=["token", "sequence"])]
    """token: one target; sequence: the mean over several targets."""
    targets: Annotated[tuple[Count, ...], JsonSchema(minItems=1)]
    """Which output tokens were evaluated."""
    results: tuple[Result, ...]
    skipped: tuple[Skipped, ...]
    settings: Annotated[
        Info,
        JsonSchema(
            required=["stride", "draws", "pi", "probes", "ratio", "rationale", "annotation", "seed", "replacer"]
        ),
    ]
    cost: Annotated[Info, JsonSchema(required=["forward_passes", "tokens", "seconds"])]
    """Shared by explanations that were evaluated together."""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    def result(self, metric: str, measure: str | None = None) -> Result:
        """The result of a metric; without a measure, the first one."""
        results = [r for r in self.results if r.metric == metric and measure in (None, r.measure)]
        if not results:
            available = ", ".join(f"{r.metric} ({r.measure})" for r in self.results)
            raise InputError(f"there is no {metric}{f' ({measure})' if measure else ''} here, only: {available}")
        return results[0]

    # --- JSON ---

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`. Anything but a complete evaluation of this schema is a FileError."""
        evaluation = super().from_dict(data)
        for name in ("model", "method"):
            if not isinstance(evaluation.explanation.get(name), Mapping):
                raise FileError(f"not a complete evaluation: 'explanation.{name}' must be an object")
        return evaluation

    # --- views (imported lazily: this module does not depend on them) ---

    def show(self) -> None:
        """Print a table to the terminal."""
        from reagent.views.evaluation import show

        show(self)

    def __repr__(self) -> str:
        values = ", ".join(f"{r.metric} {r.value:.3f}" for r in self.results[:3])
        return f"<Evaluation of {self.explanation['method'].get('id')} on {self.model.get('id')}: {values}>"


@dataclass(frozen=True)
class Evaluations:
    """Evaluations of several explanations of one text. The JSON form is a list of theirs."""

    evaluations: tuple[Evaluation, ...]

    def to_json(self, indent: int | None = None) -> str:
        data = [evaluation.to_dict() for evaluation in self.evaluations]
        return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=indent)

    def save(self, path: str | Path) -> Path:
        """Write the JSON form to a file atomically."""
        return atomic_write(path, self.to_json() + "\n")

    def show(self) -> None:
        """Print one table to the terminal, with a column for each explanation."""
        from reagent.views.evaluation import show_together

        show_together(self.evaluations)
