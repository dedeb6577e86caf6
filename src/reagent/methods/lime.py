"""LIME (Ribeiro, Singh and Guestrin, 2016): a local linear model of the target's log-probability.

A sample removes each unit with probability 1/2. Samples that are more similar to the text get a larger weight. The
coefficients of a weighted ridge regression on the kept units are the effects. Captum provides `LimeBase` and the
similarity kernel. The ridge regression is implemented here, because captum's exact regression requires scikit-learn
and its regression by gradient descent stops far from the solution.

One pass scores all targets, so all targets share the samples, and captum receives values that are already computed.
The features of target t are the units before it.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reagent.case import Case, Floats, Mask
from reagent.methods.base import Attribution, ProgressCallback, no_progress
from reagent.methods.normalization import check_normalization
from reagent.methods.probing import ProbeRunner, make_attribution, rows_per_target
from reagent.models.base import Model
from reagent.removal import check_removal, count_passes, make_remover, require_removal
from reagent.replacers.base import Proposals
from reagent.validation import check_integer, check_range

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Lime:
    """Fits a linear model to texts in which about half of the units are removed."""

    samples: int = 512
    ratio: float = 0.5  # probability that a unit is removed
    width: float = 25.0  # of the kernel exp(−d² / 2 width²), d = 100 · cosine distance: LIME's default for text
    alpha: float = 1.0  # ridge penalty: LIME's default
    removal: str = "replace"  # delete, mask or replace, see removal.py
    scores: str = "positive"  # normalization, see normalization.py

    def __post_init__(self) -> None:
        owner = "method 'lime'"
        check_integer(owner, "samples", self.samples, 1)
        check_range(owner, "ratio", self.ratio, 1e-9, 1)
        check_range(owner, "width", self.width, 1)  # below 1, all weights underflow to 0
        check_range(owner, "alpha", self.alpha, 1e-9)
        check_removal(self.removal)
        check_normalization(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def replaces(self) -> bool:
        """Whether the method needs a replacer."""
        return self.removal == "replace"

    def check(self, model: Model) -> None:
        require_removal(model, self.removal, "method 'lime'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same samples."""
        remover = make_remover(self.removal, model, case, proposals)
        free = remover.free
        mask_rng, candidate_rng = rng.spawn(2)
        removed = mask_rng.random((self.samples, len(free))) < self.ratio
        runner = ProbeRunner(remover, case, on_progress, total=count_passes(remover, removed))
        drops = runner.effects(removed, candidate_rng.random(removed.shape))
        # As in LIME, the original text is also a sample; its drop is 0 and needs no pass.
        kept = np.concatenate([np.ones((1, len(free)), dtype=np.bool_), ~removed])
        values = -np.concatenate([np.zeros((1, drops.shape[1])), drops])
        effects = np.zeros((len(free), len(case.output)))
        for t in range(len(case.output)):
            before = int(np.searchsorted(free, len(case.input) + t))
            if before:
                effects[:before, t] = self.coefficients(kept[:, :before], values[:, t])
        rows = rows_per_target(case, free, effects)
        return make_attribution(case, self.scores, rows, None, self.samples, runner.done)

    def coefficients(self, kept: Mask, values: Floats) -> Floats:
        """Coefficients of the linear model, computed through captum; `kept` is [samples, features].

        The first sample is the whole text.
        """
        import torch
        from captum.attr import LimeBase
        from captum.attr._core.lime import get_exp_kernel_similarity_function

        features = torch.from_numpy(kept).float()

        def samples(_text: torch.Tensor) -> Any:
            yield from features[:, None]  # one by one, [1, features] each

        lime = LimeBase(  # minimises Eq. 2 of the paper, Σ π(z) (f(z) − g(z))², plus the ridge penalty
            forward_func=lambda _: torch.from_numpy(values),  # f; captum calls it once, for all samples in order
            interpretable_model=_Ridge(self.alpha),  # g
            similarity_func=get_exp_kernel_similarity_function("cosine", self.width / 100),  # π
            perturb_func=samples,
            perturb_interpretable_space=True,
            from_interp_rep_transform=lambda sample, _text: sample,
            to_interp_rep_transform=None,
        )
        text = torch.ones(1, kept.shape[1])
        coefficients = lime.attribute(text, n_samples=len(features), perturbations_per_eval=len(features))
        return np.asarray(coefficients.numpy())


class _Ridge:
    """Weighted ridge regression with an intercept, with the interface of captum's interpretable models.

    The solution is exact and uses no random numbers; captum's own linear models draw from torch's global generator.
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.coefficients = np.zeros(0)

    def fit(self, train_data: Any) -> None:
        x, y, weights = (tensor.double().numpy() for tensor in train_data.dataset.tensors)
        x_mean, y_mean = np.average(x, axis=0, weights=weights), np.average(y, weights=weights)
        weighted = (x - x_mean).T * weights  # [features, samples]
        gram = weighted @ (x - x_mean) + self.alpha * np.eye(x.shape[1])
        self.coefficients = np.linalg.solve(gram, weighted @ (y - y_mean))

    def representation(self) -> "torch.Tensor":
        import torch

        return torch.from_numpy(self.coefficients)
