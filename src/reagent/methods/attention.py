"""Attention methods: the attention from the position that predicts a target. One forward pass serves all targets.

The target at position p is predicted at position p − 1, so its attention row is that of p − 1. A target of several
tokens has the mean of their rows, restricted to the units before the target. A contrasted target has the same row as
without a contrast, because attention does not depend on which token is predicted.

The effect of a unit is the attention that it receives. It is never negative, and does not show whether the unit
makes the target more or less likely. Scores are the attention of the units that are not protected over their sum: a
start token often receives most of the attention.

In an encoder–decoder, a position of the output attends to the source and to the output so far, with half of the weight
each (joint_attention.py). A rollout goes through the layers of the encoder, then through those of the decoder.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case, Floats
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.normalization import normalize
from reagent.models.base import HasAttention, Model, Singles, capability_error, require
from reagent.replacers.base import Proposals
from reagent.validation import check_name

MIN_ROW_SUM = 0.95  # of attention in half precision; rows of layers with sinks sum to less
SCORES = "attention over its sum, without protected units"

Layers = Sequence[Singles]  # for each layer, [heads, length, length]


def mean_of_layers(layers: Layers) -> Floats:
    """Mean over all heads of the layers in which a position attends to anything, [length, length].

    In an encoder–decoder, positions of the output are in the layers of the decoder only.
    """
    total = np.zeros(layers[0].shape[-2:])
    count = np.zeros((len(total), 1))
    for mean in map(_mean_of_heads, layers):
        total += mean
        count += mean.any(-1, keepdims=True)
    return total / np.maximum(count, 1)


def last_layer(layers: Layers) -> Floats:
    """Mean over the heads of the last layer, [length, length]."""
    return _mean_of_heads(layers[-1])


def rollout(layers: Layers) -> Floats:
    """Share of each input position in each position of the last layer (Abnar and Zuidema, 2020); [length, length]."""
    joint = identity = np.eye(layers[0].shape[-1])
    for layer in layers:  # a row of zeros is a position that is not in this layer: it stays as it is
        mixed = 0.5 * _mean_of_heads(layer) + 0.5 * identity  # A = 0.5 W + 0.5 I: half is the residual connection
        joint = mixed / mixed.sum(-1, keepdims=True) @ joint  # Eq. 1: Ã(l) = A(l) Ã(l − 1)
    return joint


def _mean_of_heads(layer: Singles) -> Floats:
    return np.asarray(layer.mean(0, dtype=np.float64))


LAYERS: dict[str, Callable[[Layers], Floats]] = {"all": mean_of_layers, "last": last_layer, "rollout": rollout}


@dataclass(frozen=True)
class Attention:
    """Attention over `layers`: the mean of `all`, the `last`, or a `rollout` through them."""

    replaces: ClassVar[bool] = False

    layers: str = "all"

    def __post_init__(self) -> None:
        check_name("layers", self.layers, LAYERS)

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
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with one forward pass."""
        self.check(model)
        assert isinstance(model, HasAttention)
        layers = model.attentions(case.ids[: int(case.positions.max())])  # the last target is not read
        if layers is None:
            raise capability_error(model, HasAttention, self._name)
        on_progress(Progress(1, 1, "passes"))
        reason = "partial" if _is_partial(model, layers) else "fixed"
        return attribute_rows(case, LAYERS[self.layers](layers), "attention", reason, passes=1)

    @property
    def _name(self) -> str:
        return "method 'attention'" if self.layers == "all" else f"method 'attention_{self.layers}'"


def _is_partial(model: Model, layers: Layers) -> bool:
    """Whether some layers show no attention, as in hybrids with state-space layers, or some of it goes to sinks."""
    missing = len(layers) < getattr(model, "layer_count", 0)
    return missing or any(layer.sum(-1)[layer.any(-1)].min(initial=1.0) < MIN_ROW_SUM for layer in layers)


def attribute_rows(case: Case, matrix: Floats, unit: str, reason: str, passes: int) -> Attribution:
    """The attribution whose effects are rows of a matrix [length, length] that is never negative."""
    effects = [_row(case, matrix, t) for t in range(len(case.output))]
    normalized = [normalize(row, case.protected, "positive") for row in effects]
    return Attribution(
        scores=[scores for scores, _ in normalized],
        effects=effects,
        effect_unit=unit,
        steps=[1] * len(effects),
        stopped=["flat" if flat else reason for _, flat in normalized],
        runs=[],
        probes=passes,
        stopping_tests=0,
    )


def _row(case: Case, attention: Floats, t: int) -> Floats:
    """Attention from the positions that predict output unit `t` to each unit before it."""
    unit = len(case.input) + t
    begin, end = case.unit_starts[unit : unit + 2]
    if case.contrast is not None and case.contrast.at == t:
        end = begin + 1
    row = attention[begin - 1 : end - 1, :begin].mean(0)
    return np.asarray(np.add.reduceat(row, case.unit_starts[:unit]))
