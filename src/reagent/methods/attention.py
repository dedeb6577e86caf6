"""Attention methods: where the position that predicts a target looks. One forward pass serves all targets.

The target at position p is predicted from position p − 1, so its row is the one of p − 1. A target of several
tokens has the mean of their rows, as far as they look at what stands before it. A contrast has the row of its
place: attention cannot tell what was said there from what might have been.

Effects are the attention that each unit gets, which is never negative and says nothing of likelier or less likely.
Scores are the same without protected units (a start token often gets most of it), over their sum.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case, Floats
from reagent.errors import UnknownNameError
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.normalization import share
from reagent.models.base import HasAttention, Model, Singles, lacking, require
from reagent.replacers.base import Proposals

SCORES = "attention over its sum, without protected units"


Layers = Sequence[Singles]  # of each layer [heads, length, length]


def mean_of_layers(layers: Layers) -> Floats:
    """[length, length]"""
    return np.asarray(sum(map(_mean_of_heads, layers)) / len(layers))


def last_layer(layers: Layers) -> Floats:
    """[length, length]"""
    return _mean_of_heads(layers[-1])


def rollout(layers: Layers) -> Floats:
    """How much of each input position arrives at each position of the last layer; [length, length]."""
    joint = stays = np.eye(layers[0].shape[-1])
    for layer in layers:
        mixed = 0.5 * _mean_of_heads(layer) + 0.5 * stays  # A of their Eq. 1: half is the residual connection
        joint = mixed / mixed.sum(-1, keepdims=True) @ joint
    return joint


def _mean_of_heads(layer: Singles) -> Floats:
    return np.asarray(layer.mean(0, dtype=np.float64))


LAYERS: dict[str, Callable[[Layers], Floats]] = {"all": mean_of_layers, "last": last_layer, "rollout": rollout}


@dataclass(frozen=True)
class Attention:
    """Attention over `layers`: the mean of `all`, the `last`, or a `rollout` through them (Abnar and Zuidema 2020)."""

    replaces: ClassVar[bool] = False

    layers: str = "all"

    def __post_init__(self) -> None:
        if self.layers not in LAYERS:
            raise UnknownNameError("layers", self.layers, LAYERS)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "scores": SCORES}

    def check(self, model: Model) -> None:
        require(model, HasAttention, self._name)

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with one forward pass."""
        self.check(model)
        assert isinstance(model, HasAttention)
        layers = model.attentions(case.ids[: int(case.positions.max())])  # the last target itself looks at nothing
        if layers is None:
            raise lacking(model, HasAttention, self._name)
        report(Progress(1, 1, "passes"))
        looks = LAYERS[self.layers](layers)
        effects = [_row(case, looks, t) for t in range(len(case.output))]
        shares = [share(row, case.protected, "positive") for row in effects]
        return Attribution(
            scores=[scores for scores, _ in shares],
            effects=effects,
            effect_unit="attention",
            steps=[1] * len(effects),
            stopped=["flat" if flat else "fixed" for _, flat in shares],
            runs=[],
            probes=1,
            stopping_tests=0,
        )

    @property
    def _name(self) -> str:
        return "method 'attention'" if self.layers == "all" else f"method 'attention_{self.layers}'"


def _row(case: Case, looks: Floats, t: int) -> Floats:
    """The attention that each unit before output unit `t` gets from the positions that predict it."""
    unit = len(case.input) + t
    begin, end = case.unit_starts[unit : unit + 2]
    if case.contrast is not None and case.contrast.at == t:
        end = begin + 1
    row = looks[begin - 1 : end - 1, :begin].mean(0)
    return np.asarray(np.add.reduceat(row, case.unit_starts[:unit]))
