"""A case as embeddings, and what captum is told about it.

Captum explains one number, and a text has many targets: at each point where captum wants a gradient, one forward
pass serves all of them, and a backward pass goes out from each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from reagent.case import Case, Floats, Mask
from reagent.errors import InputError
from reagent.methods.base import Attribution
from reagent.methods.normalization import share
from reagent.models.base import Differentiable, Model, Singles, capability_error, require

if TYPE_CHECKING:
    import torch

ROOM = 64 * 2**20  # numbers: the gradients that are held at once, 256 MiB
EPSILON = {"float16": 2**-10, "bfloat16": 2**-7}  # steps between numbers near 1
ROUNDING = 16  # so many steps, a value may be off
SAME = 0.1  # nats, and the same share of the value: how far two ways to the same answer may differ, in any dtype


class _Open(Differentiable, Model, Protocol):
    """A model that gives gradients."""


@dataclass(frozen=True)
class Text:
    """A case, its embeddings, and who can tell their gradients."""

    model: _Open
    case: Case
    embeddings: Singles  # [length, width], of all that is read
    batch: int | None

    @classmethod
    def of(cls, model: Model, case: Case, method: str, batch: int | None) -> "Text":
        """Stops before any work at a model that gives no gradients."""
        wanted_by = f"method {method!r}"
        require(model, Differentiable, wanted_by)
        open_model = cast(_Open, model)
        embeddings = open_model.embed(case.ids[: int(case.positions.max())])  # the last target itself is never read
        if embeddings is None:
            raise capability_error(model, Differentiable, wanted_by)
        text = cls(open_model, case, embeddings, batch)
        if all(unit.logprob is not None for unit in case.output):
            # A network that takes more from its tokens than their embeddings would be explained wrongly.
            found = text.values(embeddings[None])[0]
            if not np.allclose(found, case.values, rtol=SAME, atol=SAME):
                raise capability_error(model, Differentiable, wanted_by)
        return text

    @property
    def targets(self) -> int:
        return len(self.case.output)

    @property
    def length(self) -> int:
        return len(self.embeddings)

    def at(self, share: float) -> "torch.Tensor":
        """A point on the way from zero embeddings (0) to the text (1), [1, length, width]."""
        import torch

        return torch.from_numpy(share * self.embeddings[None])

    def values(self, points: Singles) -> Floats:
        """What the model makes of each output unit, [points, outputs]."""
        return self.model.values(self.case, points, self.batch)

    @property
    def noise(self) -> float:
        """Nats by which a value is uncertain because of the network's dtype."""
        return ROUNDING * EPSILON.get(self.model.info["dtype"], 0.0)

    def gradients(self, points: Singles, targets: Sequence[int]) -> Singles:
        """[points, targets, length, width]; not finite where a dtype has no room for them."""
        return self.model.gradients(self.case, points, targets, self.batch)

    # --- which targets share a path, and which positions stay as they are on it ---

    @property
    def paths(self) -> list[list[int]]:
        """Targets of one token share all points. One of several tokens has its own, on which it is kept whole."""
        sizes = [len(unit.ids) for unit in self.case.output]
        together = [t for t in self.case.explained_rows if sizes[t] == 1]
        return [group for group in (together, *([t] for t in self.case.explained_rows if sizes[t] > 1)) if group]

    def groups(self, targets: Sequence[int], points: int) -> list[list[int]]:
        """As many targets at once as there is room for the gradients at so many points."""
        at_once = max(1, ROOM // (points * self.embeddings.size))
        return [list(targets[start : start + at_once]) for start in range(0, len(targets), at_once)]

    def kept(self, targets: Sequence[int]) -> Mask:
        """Protected tokens, and the tokens of a target that has several; [length]."""
        unit_of = self.case.unit_of[: self.length]
        own = [len(self.case.input) + t for t in targets if len(self.case.output[t].ids) > 1]
        return np.asarray(self.case.protected[unit_of] | np.isin(unit_of, own))

    # --- from positions to units ---

    def by_unit(self, rows: Floats) -> Floats:
        """Sums over the tokens of each unit; [..., length] to [..., units]."""
        read = self.case.unit_starts[self.case.unit_starts < self.length]
        sums = np.zeros((*rows.shape[:-1], len(self.case.units)))  # of what is not read, 0
        sums[..., : len(read)] = np.add.reduceat(rows, read, axis=-1)
        return sums

    def attribution(
        self, rows: Floats, how: str, steps: list[int], ended: list[str], passes: int, stderr: Floats | None = None
    ) -> Attribution:
        """The answer, from effects of positions [targets, length] and errors of units [targets, units].

        Each target gets those that stand before it.
        """
        if not np.isfinite(rows).all():
            raise InputError(
                f"a gradient of {self.model.info['id']!r} is too large for {self.model.info['dtype']}: "
                f"load it as bfloat16 or float32"
            )
        before = [len(self.case.input) + t for t in range(self.targets)]
        effects = [row[:end] for row, end in zip(self.by_unit(rows), before, strict=True)]
        shares = [share(row, self.case.protected, how) for row in effects]
        return Attribution(
            scores=[scores for scores, _ in shares],
            effects=effects,
            stderr=None if stderr is None else [row[:end] for row, end in zip(stderr, before, strict=True)],
            effect_unit="nats",
            steps=steps,
            stopped=["flat" if flat else why for (_, flat), why in zip(shares, ended, strict=True)],
            runs=[],
            probes=passes,
            stopping_tests=0,
        )


class Slopes:
    """Captum's gradient function for some targets of a text.

    Captum asks for one target after another, at the same points: the answer to the first holds for all.
    """

    def __init__(self, text: Text, targets: Sequence[int]) -> None:
        self.text = text
        self.targets = list(targets)
        self.kept = text.kept(targets)
        self.points: Singles | None = None
        self.found: Singles | None = None

    def of(self, captum: Any) -> Any:
        """One of captum's methods, which asks for values and gradients here."""
        method = captum(self.values)
        method.gradient_func = self
        return method

    def values(self, points: "torch.Tensor") -> "torch.Tensor":
        """[points, length, width] to [points, outputs]"""
        import torch

        return torch.from_numpy(self.text.values(self._with_kept(points)))

    def __call__(
        self, forward_fn: Any, inputs: "tuple[torch.Tensor, ...]", target_ind: int, additional_forward_args: Any = None
    ) -> "tuple[torch.Tensor]":  # the names are captum's
        import torch

        del forward_fn, additional_forward_args
        points = self._with_kept(inputs[0])
        if self.points is None or not np.array_equal(points, self.points):
            self.points, self.found = points, self.text.gradients(points, self.targets)
            self.found[:, :, self.kept] = 0
        assert self.found is not None
        return (torch.from_numpy(self.found[:, self.targets.index(target_ind)]),)

    def _with_kept(self, points: "torch.Tensor") -> Singles:
        return np.where(self.kept[:, None], self.text.embeddings, points.detach().numpy())
