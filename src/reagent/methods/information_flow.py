"""Methods that follow information through the layers of a network: information-flow routes and value zeroing.

Each layer gives a matrix: how much of each token, as the layer reads it, is in each position that it writes. The
target at position p has the row of position p − 1. The effect of a unit is its share in that row. It is never negative,
and does not show whether the unit makes the target more or less likely. Both methods need decoder layers of a known
form (models/decoder_layers.py).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case, Floats, Ids
from reagent.methods.attention import LAYERS, attribute_rows
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.models.base import HasDecoderLayers, Model, Singles, capability_error, require_decoder_layers
from reagent.replacers.base import Proposals
from reagent.validation import check_name

SCORES = "information over its sum, without protected units"


def follow(layers: Sequence[Singles]) -> Floats:
    """The product of the matrices: the share of each token in each position of the last layer, [length, length].

    >>> half = np.array([[1.0, 0.0], [0.5, 0.5]])
    >>> follow([half, half]).tolist()
    [[1.0, 0.0], [0.75, 0.25]]
    """
    return reduce(lambda shares, layer: layer @ shares, [layer.astype(np.float64) for layer in layers])


@dataclass(frozen=True)
class InformationFlow:
    """Information-flow routes (Ferrando and Voita, 2024): what each token contributes to the text after attention.

    The text after attention is a sum: the text before it, and one term for each head and token. A term contributes as
    much as it brings the sum closer in the L1 norm, and nothing if it leads away from it. The paper shows the strongest
    edges as a graph; here all edges count, and paths are added up.
    """

    replaces: ClassVar[bool] = False

    @property
    def info(self) -> dict[str, Any]:
        return {"scores": SCORES}

    def check(self, model: Model) -> None:
        require_decoder_layers(model, "method 'ifr'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with one forward pass."""
        layers = require_decoder_layers(model, "method 'ifr'").contributions(_read_ids(case))
        if layers is None:
            raise capability_error(model, HasDecoderLayers, "method 'ifr'")
        on_progress(Progress(1, 1, "passes"))
        return attribute_rows(case, follow(layers), "information", "fixed", passes=1)


@dataclass(frozen=True)
class ValueZeroing:
    """Value zeroing (Mohebbi and others, 2023): how much a layer's output changes without the value of a token.

    The change is the cosine distance between the outputs of the layer with and without the value; attention weights
    stay as they are. The paper joins the layers of encoders by a rollout. In a causal network the first token can
    receive only itself, and a rollout through many layers gives it nearly everything.
    """

    replaces: ClassVar[bool] = False

    layers: str = "all"  # the mean of `all`, the `last`, or a `rollout`

    def __post_init__(self) -> None:
        check_name("layers of value_zeroing", self.layers, LAYERS)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "scores": SCORES}

    def check(self, model: Model) -> None:
        require_decoder_layers(model, "method 'value_zeroing'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with one pass, and one more for each token."""
        before = model.meter.forward_passes
        layers = require_decoder_layers(model, "method 'value_zeroing'").value_zeroing(_read_ids(case))
        matrix = LAYERS[self.layers]([layer[None] for layer in layers])
        passes = model.meter.forward_passes - before
        on_progress(Progress(passes, passes, "passes"))
        return attribute_rows(case, matrix, "information", "fixed", passes)


def _read_ids(case: Case) -> Ids:
    return case.ids[: int(case.positions.max())]  # the last target is not read
