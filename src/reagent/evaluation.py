"""What an evaluation found, and its JSON. It knows nothing of how the numbers came about.

A Result is one number: one metric in one measure, averaged over the targets that were looked at, with its
Monte-Carlo standard error and with what a random attribution gets. Nothing here is ever NaN or infinite:
what cannot be measured has a value by definition, and a flag that says so.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reagent._version import __version__
from reagent.atomic_io import atomic_write
from reagent.errors import FileError, InputError
from reagent.explanation import Z_95

SCHEMA = "reagent.evaluation/1"

# What a reader must be told about a number.
FLAGS = {
    "no_effect_of_input": "the model says the same to a zero input, so nothing can be measured there: "
    "0 by definition, and left out of the mean over targets",
    "too_few_positive": "too few scores are above zero to select the share π: all of them are selected whole",
    "tied": "more than the share π have the highest score: each of them is selected with the same smaller probability",
    "constant": "the explanation predicts the same for every replacement: a correlation of 0 by definition",
    "nothing_to_replace": "the replacer has no proposal for anything before the target: 0 by definition",
}


@dataclass(frozen=True)
class TargetResult:
    """The number of one output token; `index` counts through the explanation's output."""

    index: int
    value: float
    stderr: float
    random: float
    random_stderr: float
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Point:
    """One point of a curve: at a share replaced, or at a π."""

    at: float
    value: float
    stderr: float
    random: float
    random_stderr: float


@dataclass(frozen=True)
class Result:
    """One number, its error, and random's value next to it."""

    metric: str
    measure: str  # what was measured: hellinger, nats, spearman, pearson, found
    higher_is_better: bool
    value: float
    stderr: float  # Monte-Carlo: what other seeds would change
    random: float  # the same of random attributions, a fresh one for every draw
    random_stderr: float
    draws: int  # or probes; 0 where nothing is left to chance
    random_draws: int
    flags: tuple[str, ...] = ()  # of FLAGS, of any target
    targets: tuple[TargetResult, ...] = ()
    curve: tuple[Point, ...] = ()

    def __post_init__(self) -> None:
        if self.unknown_flags:
            raise InputError(f"unknown flags of {self.metric}: {', '.join(self.unknown_flags)}")
        for part in (self, *self.targets, *self.curve):
            numbers = [getattr(part, name) for name in ("value", "stderr", "random", "random_stderr")]
            if not all(math.isfinite(number) for number in numbers):
                raise InputError(f"{self.metric} must have finite numbers, got {numbers}")

    @property
    def unknown_flags(self) -> list[str]:
        return sorted(set(self.flags).union(*(target.flags for target in self.targets)) - set(FLAGS))

    @property
    def ratio(self) -> float | None:
        """How many times random's value this is; None where random's may as well be 0."""
        return None if self.random <= max(Z_95 * self.random_stderr, 1e-12) else self.value / self.random


@dataclass(frozen=True)
class Skipped:
    """A metric that was not computed, and why."""

    metric: str
    reason: str


@dataclass(frozen=True)
class Evaluation:
    """How faithful one explanation is to one model."""

    explanation: Mapping[str, Any]  # which one: prompt, completion, method, replacer, model, seed, target, unit
    model: Mapping[str, Any]  # on which model it was measured
    level: str  # token: the one target; sequence: the mean over targets
    targets: tuple[int, ...]  # which output tokens
    results: tuple[Result, ...]
    skipped: tuple[Skipped, ...]
    settings: Mapping[str, Any]
    cost: Mapping[str, Any]  # forward passes, tokens, seconds; shared where explanations were evaluated together
    warnings: tuple[str, ...] = ()
    version: str = __version__
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def result(self, metric: str, measure: str | None = None) -> Result:
        """The number of a metric; without a measure, the first that it has."""
        found = [r for r in self.results if r.metric == metric and measure in (None, r.measure)]
        if not found:
            have = ", ".join(f"{r.metric} ({r.measure})" for r in self.results)
            raise InputError(f"there is no {metric}{f' ({measure})' if measure else ''} here, only: {have}")
        return found[0]

    # --- keeping ---

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as plain lists and dictionaries."""
        data = asdict(self)
        data["results"] = [asdict(result) | {"ratio": result.ratio} for result in self.results]
        order = ("version", "created", *(f.name for f in fields(self) if f.name not in ("version", "created")))
        return {"schema": SCHEMA} | {name: _plain(data[name]) for name in order}

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)

    def save(self, path: str | Path) -> Path:
        """Write the JSON form to a file, whole or not at all."""
        return atomic_write(path, self.to_json() + "\n")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Evaluation":
        """The reverse of `to_dict`."""
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise FileError(f"not an evaluation of schema {SCHEMA!r}: give a file written by reagent evaluate --json")
        try:
            entries = {name: data[name] for name in (f.name for f in fields(cls))}
            entries["results"] = tuple(_result(entry) for entry in data["results"])
            entries["skipped"] = tuple(Skipped(**entry) for entry in data["skipped"])
            entries |= {name: tuple(data[name]) for name in ("targets", "warnings")}
            return cls(**entries)
        except KeyError as error:
            raise FileError(f"not a whole evaluation: {error.args[0]!r} is missing") from error
        except (TypeError, ValueError, AttributeError, InputError) as error:
            raise FileError(f"not a whole evaluation: {error}") from error

    # --- looking (the views are reached lazily: this file knows none of them) ---

    def show(self) -> None:
        """Print a table to the terminal."""
        from reagent.views.evaluation import show

        show(self)

    def __repr__(self) -> str:
        found = ", ".join(f"{r.metric} {r.value:.3f}" for r in self.results[:3])
        return f"<Evaluation of {self.explanation['method'].get('id')} on {self.model.get('id')}: {found}>"


def _result(entry: Mapping[str, Any]) -> Result:
    known = {name: value for name, value in entry.items() if name != "ratio"}
    known["targets"] = tuple(TargetResult(**(t | {"flags": tuple(t["flags"])})) for t in entry["targets"])
    known["curve"] = tuple(Point(**point) for point in entry["curve"])
    return Result(**(known | {"flags": tuple(entry["flags"])}))


def _plain(value: Any) -> Any:
    """Tuples as lists, as JSON has them, so that what is read back is equal to what was written."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
