"""The connection between a case and captum: a case as embeddings, and its gradients for captum.

Captum explains one number, but a text has many targets. At each point (a sequence of embeddings) where captum requests
a gradient, one forward pass serves all targets, followed by one backward pass per target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from reagent.case import Case, Floats, Mask
from reagent.errors import InputError
from reagent.methods.base import Attribution
from reagent.methods.normalization import normalize
from reagent.models.base import Differentiable, Model, Singles, capability_error, require

if TYPE_CHECKING:
    import torch

MAX_GRADIENT_NUMBERS = 64 * 2**20  # held in memory at once: 256 MiB
EPSILON = {"float16": 2**-10, "bfloat16": 2**-7}  # machine epsilon
ROUNDING = 16  # error of a value, in epsilons
MIXED_NOISE = 0.25  # nats: the same for scores with products in bfloat16, compared with gradients in float32
TOLERANCE = 0.005  # nats, and share of the value: allowed difference between values from tokens and from embeddings


class _DifferentiableModel(Differentiable, Model, Protocol):
    """A model that gives gradients."""


@dataclass(frozen=True)
class EmbeddedCase:
    """A case, its embeddings, and the model that computes values and gradients from them."""

    model: _DifferentiableModel
    case: Case
    embeddings: Singles  # [length, width], of all tokens that the model reads
    batch: int | None

    @classmethod
    def of(cls, model: Model, case: Case, method: str, batch: int | None) -> "EmbeddedCase":
        """Embed a case; a CapabilityError if the model gives no gradients."""
        wanted_by = f"method {method!r}"
        require(model, Differentiable, wanted_by)
        differentiable = cast(_DifferentiableModel, model)
        embeddings = differentiable.embed(case.ids[: int(case.positions.max())])  # the last target is not read
        if embeddings is None:
            raise capability_error(model, Differentiable, wanted_by)
        embedded = cls(differentiable, case, embeddings, batch)
        if all(unit.logprob is not None for unit in case.output):
            # A network that uses more of its tokens than their embeddings would be explained wrongly.
            values = embedded.values(embeddings[None])[0]
            allowed = TOLERANCE + 2 * embedded.noise + MIXED_NOISE * (model.info["dtype"] == "mixed")
            if not np.allclose(values, case.values, rtol=allowed, atol=allowed):
                raise capability_error(model, Differentiable, wanted_by)
        return embedded

    @property
    def targets(self) -> int:
        return len(self.case.output)

    @property
    def length(self) -> int:
        return len(self.embeddings)

    def point(self, share: float) -> "torch.Tensor":
        """A point on the straight path from zero embeddings (0) to the text (1), [1, length, width]."""
        import torch

        return torch.from_numpy(share * self.embeddings[None])

    def values(self, points: Singles) -> Floats:
        """Value of each output unit at each point, [points, outputs]."""
        return self.model.values(self.case, points, self.batch)

    @property
    def noise(self) -> float:
        """Rounding error of a value in nats, from the network's dtype."""
        return ROUNDING * EPSILON.get(self.model.info["dtype"], 0.0)

    def gradients(self, points: Singles, targets: Sequence[int]) -> Singles:
        """Gradients of the targets, [points, targets, length, width]; not finite if they overflow the dtype."""
        return self.model.gradients(self.case, points, targets, self.batch)

    # --- which targets share a path, and which positions are fixed on it ---

    @property
    def paths(self) -> list[list[int]]:
        """The targets of each path.

        Targets of one token share a path. A target of several tokens has its own, on which its tokens are fixed.
        """
        sizes = [len(unit.ids) for unit in self.case.output]
        shared = [t for t in self.case.explained_rows if sizes[t] == 1]
        return [path for path in (shared, *([t] for t in self.case.explained_rows if sizes[t] > 1)) if path]

    def groups(self, targets: Sequence[int], points: int) -> list[list[int]]:
        """The targets in groups whose gradients at `points` points fit into memory."""
        size = max(1, MAX_GRADIENT_NUMBERS // (points * self.embeddings.size))
        return [list(targets[start : start + size]) for start in range(0, len(targets), size)]

    def fixed_positions(self, targets: Sequence[int]) -> Mask:
        """Mask of the protected tokens and of the tokens of targets with several tokens, [length]."""
        unit_of = self.case.unit_of[: self.length]
        own = [len(self.case.input) + t for t in targets if len(self.case.output[t].ids) > 1]
        return np.asarray(self.case.protected[unit_of] | np.isin(unit_of, own))

    # --- from positions to units ---

    def by_unit(self, rows: Floats) -> Floats:
        """Sums over the tokens of each unit, from [..., length] to [..., units]."""
        read = self.case.unit_starts[self.case.unit_starts < self.length]
        sums = np.zeros((*rows.shape[:-1], len(self.case.units)))  # 0 for units that are not read
        sums[..., : len(read)] = np.add.reduceat(rows, read, axis=-1)
        return sums

    def attribution(
        self,
        rows: Floats,
        normalization: str,
        steps: list[int],
        stopped: list[str],
        passes: int,
        stderr: Floats | None = None,
    ) -> Attribution:
        """The attribution from effects of positions [targets, length] and standard errors of units [targets, units].

        The row of a target has the units before it.
        """
        if not np.isfinite(rows).all():
            raise InputError(
                f"a gradient of {self.model.info['id']!r} is too large for {self.model.info['dtype']}: "
                f"load it as bfloat16 or float32"
            )
        before = [len(self.case.input) + t for t in range(self.targets)]
        effects = [row[:end] for row, end in zip(self.by_unit(rows), before, strict=True)]
        normalized = [normalize(row, self.case.protected, normalization) for row in effects]
        return Attribution(
            scores=[scores for scores, _ in normalized],
            effects=effects,
            stderr=None if stderr is None else [row[:end] for row, end in zip(stderr, before, strict=True)],
            effect_unit="nats",
            steps=steps,
            stopped=["flat" if flat else reason for (_, flat), reason in zip(normalized, stopped, strict=True)],
            runs=[],
            probes=passes,
            stopping_tests=0,
        )


class CaptumAdapter:
    """Values and gradients of some targets, in the form that captum's methods call.

    Captum requests the gradients of one target after another at the same points. The first request computes the
    gradients of all targets; the others reuse them.
    """

    def __init__(self, embedded: EmbeddedCase, targets: Sequence[int]) -> None:
        self.embedded = embedded
        self.targets = list(targets)
        self._fixed = embedded.fixed_positions(targets)
        self._points: Singles | None = None
        self._gradients: Singles | None = None

    def connect(self, captum_method: Any) -> Any:
        """An instance of one of captum's methods that gets its values and gradients from here."""
        method = captum_method(self.values)
        method.gradient_func = self
        return method

    def values(self, points: "torch.Tensor") -> "torch.Tensor":
        """Values of all output units, from [points, length, width] to [points, outputs]."""
        import torch

        return torch.from_numpy(self.embedded.values(self._with_fixed(points)))

    def __call__(
        self, forward_fn: Any, inputs: "tuple[torch.Tensor, ...]", target_ind: int, additional_forward_args: Any = None
    ) -> "tuple[torch.Tensor]":  # the parameter names are captum's
        """Gradients of one target, [points, length, width]."""
        import torch

        del forward_fn, additional_forward_args
        points = self._with_fixed(inputs[0])
        if self._points is None or not np.array_equal(points, self._points):
            self._points, self._gradients = points, self.embedded.gradients(points, self.targets)
            self._gradients[:, :, self._fixed] = 0
        assert self._gradients is not None
        return (torch.from_numpy(self._gradients[:, self.targets.index(target_ind)]),)

    def _with_fixed(self, points: "torch.Tensor") -> Singles:
        """The points with the original embeddings at fixed positions."""
        return np.where(self._fixed[:, None], self.embedded.embeddings, points.detach().numpy())
