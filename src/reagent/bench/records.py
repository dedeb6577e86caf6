"""The results of a benchmark: one Cell for each explanation of a suite."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reagent.evaluation import Evaluation
from reagent.explanation import Explanation

STATES = ("done", "failed")


@dataclass(frozen=True)
class Cell:
    """One method on one example of one dataset by one model, from one seed."""

    key: str  # a hash of everything that the numbers depend on
    suite: str
    model: str  # as the suite names it: smollm2, a hub id …
    dataset: str  # longra, tellmewhy, wikibio, or a file's name
    level: str  # token or sequence
    example: str
    group: str
    method: str  # its id: reagent, lime …
    label: str  # the name in the suite: "reagent", "reagent r=0.1"; unique in a suite
    options: Mapping[str, Any]  # all options: preset, replacer, ratio …
    seed: int
    status: str  # one of STATES
    error: str | None
    explanation: Explanation | None
    evaluation: Evaluation | None
    seconds: float
    explained: str = ""  # the key of the explanation alone, without the metrics
    measured: Mapping[str, Any] | None = None  # numbers of a cell that has no explanation: of a prompt study

    @property
    def place(self) -> "Place":
        return self.model, self.dataset, self.example, self.label, self.seed


# Model, dataset, example, label and seed. A store has one cell for each place.
Place = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class ModelRecord:
    """An inspected model: its provenance, and its examples of filtered datasets."""

    info: Mapping[str, Any]  # id, revision, dtype, backend
    examples: Mapping[str, tuple[tuple[str, str | None], ...]] = field(default_factory=dict)  # ids and targets
