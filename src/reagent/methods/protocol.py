"""What a method is given and what it returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from reagent.explanation import Explanation
from reagent.models.case import Case, Floats
from reagent.models.protocol import Model
from reagent.replacers.proposals import Proposals


@dataclass(frozen=True)
class Attribution:
    """The scores of a case, and how they came about; row t has len(input) + t numbers."""

    scores: list[Floats]
    steps: list[int]
    stopped: list[str]
    runs: list[list[int]]
    probes: int
    stopping_tests: int
    effects: list[Floats] | None = None
    stderr: list[Floats] | None = None
    effect_unit: str | None = None


@dataclass(frozen=True)
class Progress:
    """How far a method is; `total` may shrink when a search stops early. `partial` is what is known so far.

    A method hands out an Attribution; the caller of `explain` gets it as an Explanation.
    """

    done: int
    total: int
    unit: str
    partial: "Attribution | Explanation | None" = None


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """The report of someone who does not look."""


class Method(Protocol):
    """Hyperparameters are the fields of a frozen dataclass; everything else comes with the call.

    A method that asks more of a model than probabilities also has `check(model)`, which stops before any work.
    """

    @property
    def info(self) -> dict[str, Any]:
        """Provenance: the hyperparameters."""
        ...

    def attribute(
        self, model: Model, case: Case, proposals: Proposals, rng: np.random.Generator, report: Report = silent
    ) -> Attribution: ...
