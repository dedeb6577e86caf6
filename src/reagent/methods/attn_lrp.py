"""AttnLRP (Achtibat and others, 2024): the logit of a target, handed down through the layers to the tokens.

The rules are in models/relevance.py. Relevance is signed. It does not add up to the logit: softmax and biases keep a
part of it. A target of several tokens has the sum of their logits, a contrasted
target the difference of both logits, which is its log-odds.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reagent.case import Case
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.normalization import NORMALIZATIONS, check_normalization, normalize
from reagent.models.base import Model, require_decoder_layers
from reagent.replacers.base import Proposals


@dataclass(frozen=True)
class AttnLrp:
    """Layer-wise relevance propagation with the rules of AttnLRP."""

    replaces: ClassVar[bool] = False

    scores: str = "positive"  # normalization, see normalization.py

    def __post_init__(self) -> None:
        check_normalization(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return {"scores": NORMALIZATIONS[self.scores]}

    def check(self, model: Model) -> None:
        require_decoder_layers(model, "method 'attn_lrp'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with one forward pass, and a backward pass for each."""
        targets = list(case.explained_rows)
        found = require_decoder_layers(model, "method 'attn_lrp'").relevance(case, targets)
        on_progress(Progress(1, 1, "passes"))
        effects = [np.zeros(len(case.input) + t) for t in range(len(case.output))]
        for t, row in zip(targets, found, strict=True):
            begins = case.unit_starts[: len(case.input) + t]
            effects[t] = np.add.reduceat(row[: case.unit_starts[len(begins)]].astype(np.float64), begins)
        normalized = [normalize(row, case.protected, self.scores) for row in effects]
        return Attribution(
            scores=[scores for scores, _ in normalized],
            effects=effects,
            effect_unit="relevance",
            steps=[1] * len(effects),
            stopped=["flat" if flat else "fixed" for _, flat in normalized],
            runs=[],
            probes=1,
            stopping_tests=0,
        )
