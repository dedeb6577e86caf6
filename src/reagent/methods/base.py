"""The interface of every attribution method: Method, Attribution, Progress."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from reagent.case import Case, Floats
from reagent.explanation import Explanation, Group, Sufficiency
from reagent.models.base import Model
from reagent.replacers.base import Proposals


@dataclass(frozen=True)
class Attribution:
    """Scores of a case, and how the method ended.

    Lists have one entry per output unit. Row t of `scores`, `effects` and `stderr` has len(input) + t numbers.
    """

    scores: list[Floats]
    steps: list[int]
    stopped: list[str]  # keys of `explanation.STOP_REASONS`
    runs: list[list[int]]  # steps of each run, for methods with several runs
    probes: int  # forward passes, without those of stopping tests
    stopping_tests: int
    effects: list[Floats] | None = None
    stderr: list[Floats] | None = None
    effect_unit: str | None = None
    groups: list[list[Group]] | None = None
    sufficiency: list[Sufficiency | None] | None = None
    shapley_values: list[Floats] | None = None  # signed, in the unit of the effects, if the scores come from them
    answer: "Attribution | None" = None  # of the answer as a whole: one row over the prompt

    def explained_only(self, case: Case) -> "Attribution":
        """The same attribution with uniform rows for output units that are not explained."""
        if case.stride == 1:
            return self

        def zero_others(rows: list[Floats] | None) -> list[Floats] | None:
            return rows and [row if t in case.explained_rows else np.zeros(len(row)) for t, row in enumerate(rows)]

        def default_others(values: list[Any], default: Any) -> list[Any]:
            return [value if t in case.explained_rows else default for t, value in enumerate(values)]

        free = [~case.protected[: len(row)] for row in self.scores]
        uniform = [mask / max(mask.sum(), 1) for mask in free]
        return replace(
            self,
            scores=[row if t in case.explained_rows else uniform[t] for t, row in enumerate(self.scores)],
            effects=zero_others(self.effects),
            stderr=zero_others(self.stderr),
            shapley_values=zero_others(self.shapley_values),
            groups=self.groups and default_others(self.groups, []),
            sufficiency=self.sufficiency and default_others(self.sufficiency, None),
            steps=default_others(self.steps, 0),
            stopped=default_others(self.stopped, "unasked"),
            runs=default_others(self.runs, []),
        )


@dataclass(frozen=True)
class Progress:
    """Progress of a method. `total` may decrease when a search stops early.

    `partial` is the result so far: a method passes an Attribution, and the caller of `explain` receives it as an
    Explanation.
    """

    done: int
    total: int
    unit: str
    partial: "Attribution | Explanation | None" = None
    prompt: int = 0  # of a list of prompts: the index of this one …
    prompts: int = 1  # … and their number


ProgressCallback = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
    """No-op progress callback."""


class Method(Protocol):
    """An attribution method: a frozen dataclass whose fields are the hyperparameters.

    A method that needs more from a model than probabilities also has `check(model)`, which raises a CapabilityError
    before any work is done.
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
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain every output unit of `case`, using `proposals` as replacements."""
        ...
