"""What a method is given and what it returns."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from reagent.case import Case, Floats
from reagent.explanation import Explanation
from reagent.models.base import Model
from reagent.replacers.base import Proposals


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

    def explained_only(self, case: Case) -> "Attribution":
        """The same, with uniform rows for the output units that were not asked about."""
        if case.stride == 1:
            return self

        def blank(rows: list[Floats] | None) -> list[Floats] | None:
            return rows and [row if t in case.explained_rows else np.zeros(len(row)) for t, row in enumerate(rows)]

        def entries(values: list[Any], otherwise: Any) -> list[Any]:
            return [value if t in case.explained_rows else otherwise for t, value in enumerate(values)]

        free = [~case.protected[: len(row)] for row in self.scores]
        uniform = [mask / max(mask.sum(), 1) for mask in free]
        return replace(
            self,
            scores=[row if t in case.explained_rows else uniform[t] for t, row in enumerate(self.scores)],
            effects=blank(self.effects),
            stderr=blank(self.stderr),
            steps=entries(self.steps, 0),
            stopped=entries(self.stopped, "unasked"),
            runs=entries(self.runs, []),
        )


@dataclass(frozen=True)
class Progress:
    """How far a method is; `total` may shrink when a search stops early. `partial` is what is known so far.

    A method hands out an Attribution; the caller of `explain` gets it as an Explanation.
    """

    done: int
    total: int
    unit: str
    partial: "Attribution | Explanation | None" = None


ProgressCallback = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
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
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        report: ProgressCallback = no_progress,
    ) -> Attribution: ...
