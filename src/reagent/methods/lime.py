"""LIME (Ribeiro, Singh and Guestrin, 2016): a linear model of which units were kept, fitted around the text.

Samples replace each unit with probability 1/2; those more like the text count more; a weighted ridge
regression then says what keeping each unit is worth. Captum runs it (`LimeBase` and its similarity kernel).
The regression alone is ours: captum's exact one needs scikit-learn, which we do not, and its own, by
gradient descent, stops far from the answer.

One pass over prompt and continuation answers for every target, so all targets share the samples, and
captum is handed answers that are already there. For target t the features are the units before it.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reagent.case import Case, Floats, Mask
from reagent.methods.base import Attribution, ProgressCallback, no_progress
from reagent.methods.normalization import check_how
from reagent.methods.probing import Probing, attribution, rows
from reagent.models.base import Model
from reagent.replacers.base import Proposals
from reagent.validation import check_integer, check_range

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Lime:
    """How the neighbourhood of the text is sampled, and how the linear model is fitted to it."""

    samples: int = 512
    ratio: float = 0.5  # probability that a unit is replaced
    width: float = 25.0  # of the kernel exp(−d² / 2 width²), d = 100 · cosine distance: LIME's own for text
    alpha: float = 1.0  # strength of the ridge: LIME's own
    scores: str = "positive"  # how effects become scores, see scores.py

    def __post_init__(self) -> None:
        owner = "method 'lime'"
        check_integer(owner, "samples", self.samples, 1)
        check_range(owner, "ratio", self.ratio, 1e-9, 1)
        check_range(owner, "width", self.width, 1)  # narrower, and every sample weighs nothing
        check_range(owner, "alpha", self.alpha, 1e-9)
        check_how(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return asdict(self)

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same samples."""
        probing = Probing(model, case, proposals, report, total=self.samples)
        free = probing.free
        choosing, drawing = rng.spawn(2)
        replaced = choosing.random((self.samples, len(free))) < self.ratio
        costs = probing.costs(replaced, proposals.choose(drawing.random(replaced.shape), free))
        # The text itself is a sample too, as in LIME; it costs nothing and needs no pass.
        kept = np.concatenate([np.ones((1, len(free)), dtype=np.bool_), ~replaced])
        gains = -np.concatenate([np.zeros((1, costs.shape[1])), costs])
        effects = np.zeros((len(free), len(case.output)))
        for t in range(len(case.output)):
            before = int(np.searchsorted(free, len(case.input) + t))
            if before:
                effects[:before, t] = self._worth(kept[:, :before], gains[:, t])
        return attribution(case, self.scores, rows(case, free, effects), None, self.samples, probing.done)

    def _worth(self, kept: Mask, gains: Floats) -> Floats:
        """The coefficients of the linear model, through captum; `kept` is [samples, features]."""
        import torch
        from captum.attr import LimeBase
        from captum.attr._core.lime import get_exp_kernel_similarity_function

        features = torch.from_numpy(kept).float()

        def samples(_text: torch.Tensor) -> Any:
            yield from features[:, None]  # one by one, [1, features] each

        lime = LimeBase(
            forward_func=lambda _: torch.from_numpy(gains),  # captum asks once, for all samples in their order
            interpretable_model=_Ridge(self.alpha),
            similarity_func=get_exp_kernel_similarity_function("cosine", self.width / 100),
            perturb_func=samples,
            perturb_interpretable_space=True,
            from_interp_rep_transform=lambda sample, _text: sample,
            to_interp_rep_transform=None,
        )
        text = torch.ones(1, kept.shape[1])
        found = lime.attribute(text, n_samples=len(features), perturbations_per_eval=len(features))
        return np.asarray(found.numpy())


class _Ridge:
    """Weighted ridge regression with an intercept, in the form of captum's interpretable models.

    Exact, and with no random number: captum's own linear layers and loaders draw from torch's global generator.
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.coefficients = np.zeros(0)

    def fit(self, train_data: Any) -> None:
        x, y, weights = (part.double().numpy() for part in train_data.dataset.tensors)
        middle, level = np.average(x, axis=0, weights=weights), np.average(y, weights=weights)
        weighted = (x - middle).T * weights  # [features, samples]
        gram = weighted @ (x - middle) + self.alpha * np.eye(x.shape[1])
        self.coefficients = np.linalg.solve(gram, weighted @ (y - level))

    def representation(self) -> "torch.Tensor":
        import torch

        return torch.from_numpy(self.coefficients)
