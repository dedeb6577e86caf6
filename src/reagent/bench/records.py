"""What a benchmark found: one Cell for each explanation that a suite asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reagent.evaluation import Evaluation
from reagent.explanation import Explanation

STATES = ("done", "failed")


@dataclass(frozen=True)
class Cell:
    """One method on one example of one dataset by one model, from one seed."""

    key: str  # over everything that matters to the numbers
    suite: str
    model: str  # as it was asked for: smollm2, a hub id …
    dataset: str  # longra, tellmewhy, wikibio, or a file's name
    level: str  # token or sequence
    example: str
    group: str
    method: str  # its id: reagent, lime …
    label: str  # how the suite names the entry: "reagent", "reagent r=0.1"; unique in a suite
    options: Mapping[str, Any]  # everything set: preset, replacer, ratio …
    seed: int
    status: str  # one of STATES
    error: str | None
    explanation: Explanation | None
    evaluation: Evaluation | None
    seconds: float
    explained: str = ""  # the key without the metrics: what the explanation depends on

    @property
    def place(self) -> "Place":
        return self.model, self.dataset, self.example, self.label, self.seed


# Where a cell stands in a suite. A store has one cell at each place.
Place = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class Known:
    """What is known of a model once it was loaded: what keys need, and which examples it passes the filters of."""

    info: Mapping[str, Any]  # id, revision, dtype, backend
    examples: Mapping[str, tuple[tuple[str, str | None], ...]] = field(default_factory=dict)  # ids and targets
