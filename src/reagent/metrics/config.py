"""EvaluationConfig: the validated request of an evaluation, built once by the Python API, the CLI and the benchmark."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reagent.errors import InputError, ReagentError
from reagent.metrics.base import Metric
from reagent.metrics.lds import PROBES, RATIO, REMOVAL
from reagent.metrics.rationale import Annotation
from reagent.metrics.registry import METRICS, find_metric
from reagent.metrics.soft import PI
from reagent.models.base import Model
from reagent.removal import check_removal
from reagent.replacers import Replacer, choose_automatic, make_replacer
from reagent.validation import check_integer, check_range, check_types


@dataclass(frozen=True)
class EvaluationConfig:
    """What to measure, at which output tokens, and how precisely."""

    metrics: Sequence[str | Metric] | None = None  # None: all built-in metrics that can be computed
    annotation: Annotation | None = None  # of the prompt, for ante and no_d
    targets: Sequence[int] | None = None  # output tokens; None: the explained one, or every `stride`-th of many
    stride: int = 5
    draws: int | None = None  # exact number of perturbed inputs; None: until the standard error is 0.01
    pi: float | Sequence[float] = PI  # of several, the first gives the value and all of them a curve
    probes: int = PROBES  # lds: number of probes
    ratio: float | Sequence[float] = RATIO  # lds: share of the units that a probe removes; one measure for each
    removal: str | Sequence[str] = REMOVAL  # comprehensiveness, sufficiency, lds: one measure for each
    rationale: int | None = None  # units in a rationale; None: as many as a greedy search used, else 5
    replacer: str | Replacer = "auto"
    replacer_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = 0  # None draws a seed and records it

    def __post_init__(self) -> None:
        owner = "the evaluation"
        if isinstance(self.metrics, str):
            raise InputError(f"metrics are a list of names, as [{self.metrics!r}]")
        check_types(owner, self)
        if self.metrics is not None and not self.metrics:
            raise InputError("there is no metric to compute: give at least one, or leave metrics out for all")
        _ = self.requested_metrics  # raises for an unknown name
        for name, low in (("stride", 1), ("draws", 2), ("probes", 4), ("rationale", 1)):
            if getattr(self, name) is not None:
                check_integer(owner, name, getattr(self, name), low)
        if self.seed is None:
            object.__setattr__(self, "seed", secrets.randbits(32))
        check_integer(owner, "seed", self.own_seed, 0, 2**63)
        if not self.ratios or not self.removals:
            raise InputError("there is no share or no removal: give at least one, as ratio 0.1 and removal 'replace'")
        for ratio in self.ratios:
            check_range(owner, "ratio", ratio, 1e-9, 1)
        for removal in self.removals:
            check_removal(removal)
        if not self.pis:
            raise InputError("there is no π: give at least one share, as 0.3")
        for pi in self.pis:
            check_range(owner, "pi", pi, 1e-6, 1 - 1e-6)
        make_replacer(self.replacer, **self.replacer_options)

    @property
    def requested_metrics(self) -> list[Metric]:
        """Each metric once, in the order of the request."""
        unique: dict[str, Metric] = {}
        for metric in map(find_metric, METRICS if self.metrics is None else self.metrics):
            unique.setdefault(metric.id, metric)
        return list(unique.values())

    @property
    def own_seed(self) -> int:
        assert self.seed is not None  # drawn when the config was made
        return self.seed

    @property
    def pis(self) -> tuple[float, ...]:
        return tuple(self.pi) if isinstance(self.pi, Sequence) else (self.pi,)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Each share once."""
        return tuple(dict.fromkeys(self.ratio if isinstance(self.ratio, Sequence) else (self.ratio,)))

    @property
    def removals(self) -> tuple[str, ...]:
        """Each removal once."""
        return tuple(dict.fromkeys((self.removal,) if isinstance(self.removal, str) else self.removal))

    def find_problems(self, model: Model) -> dict[str, ReagentError]:
        """Why requested metrics cannot be computed for `model`, by the metric's id."""
        problems: dict[str, ReagentError] = {}
        for metric in self.requested_metrics:
            try:
                metric.check(model, self)
            except ReagentError as error:
                problems[metric.id] = error
        return problems

    def make_replacer(self, model: Model) -> Replacer:
        """The replacer; `auto` depends on the model."""
        replacer = choose_automatic(model) if self.replacer == "auto" else self.replacer
        return make_replacer(replacer, **self.replacer_options)

    @property
    def info(self) -> dict[str, Any]:
        """Provenance."""
        return {
            "stride": self.stride,
            "draws": self.draws,
            "pi": list(self.pis),
            "probes": self.probes,
            "ratio": self.ratios[0] if len(self.ratios) == 1 else list(self.ratios),
            "removal": list(self.removals),
            "rationale": self.rationale,
            "annotation": self.annotation
            and {name: [list(span) for span in spans] for name, spans in vars(self.annotation).items()},
            "seed": self.seed,
        }
