"""Gradient methods: how the value of a target changes with the embeddings of what stands before it.

The mathematics is captum's (`captum.attr`). Effects are in nats, summed over the width of an embedding and over
the tokens of a unit; a positive one makes the target likelier. A target of several tokens has the sum of their
log-probabilities, a contrast has log-odds. Protected tokens keep their embeddings everywhere and have no effect;
a target of several tokens keeps its own too, since only what stands before it is to explain it.

One forward pass serves all targets, and a backward pass goes out from each. What is counted are forward passes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from reagent.case import Case, Floats
from reagent.errors import UnknownNameError
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.normalization import HOW, check_how
from reagent.methods.slopes import Slopes, Text
from reagent.models.base import Differentiable, Model, require
from reagent.replacers.base import Proposals
from reagent.validation import check_integer, check_range

if TYPE_CHECKING:
    import torch

PIECE = 8  # points on one piece of a path
BLOCK = 4  # random points that are drawn together
SMALLEST = 0.1  # nats: where less than this is to be explained, a gap is measured against it
RULES = ("gausslegendre", "riemann_trapezoid", "riemann_middle", "riemann_left", "riemann_right")


@dataclass(frozen=True)
class InputXGradient:
    """Each embedding times the gradient at it: what the text would lose without it if the model were linear.

    `scores` are the positive effects over their sum, or as the option says (`scores.HOW`).
    """

    replaces: ClassVar[bool] = False

    scores: str = "positive"
    batch: int | None = None  # points computed at once, at most: bounds the memory

    def __post_init__(self) -> None:
        _check("input_x_gradient", self.scores, self.batch)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "scores": HOW[self.scores]}

    def check(self, model: Model) -> None:
        require(model, Differentiable, "method 'input_x_gradient'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with one forward pass."""
        before = model.meter.forward_passes
        text = Text.of(model, case, "input_x_gradient", self.batch)
        from captum.attr import InputXGradient as Captum

        rows = np.zeros((text.targets, text.length))
        for group in text.groups(case.explained_rows, points=1):
            captum = Slopes(text, group).of(Captum)
            for t in group:
                # Captum warns when it has to ask for gradients itself.
                rows[t] = _summed(captum.attribute(text.at(1.0).requires_grad_(), target=t))
            report(Progress(group[-1] + 1, text.targets, "targets"))
        passes = model.meter.forward_passes - before
        return text.attribution(rows, self.scores, [1] * text.targets, ["fixed"] * text.targets, passes)


class Integral(NamedTuple):
    """Effects of positions, and how well they add up."""

    rows: Floats  # [targets, length]
    gap: Floats  # [targets]: by how much the sum misses what is to be explained, as a share of it
    steps: list[int]
    reached: list[float]  # from the text (1) how far towards zero embeddings (0)


@dataclass(frozen=True)
class IntegratedGradients:
    """Gradients along the straight path from zero embeddings to the text, so that the effects add up.

    Their sum is what the model makes of the target after the text, less what it makes of it after zero
    embeddings. By how much it misses that is the completeness gap, and it tells where steps are needed: from the
    text towards zero, a piece of the path whose gap is not small is cut in two. A network without additive
    positions normalises even the smallest embeddings to full size; close to zero a deep one then jumps about,
    and no number of steps settles it. What is left of the path after `max_steps` is left out, and the target is
    marked as incomplete.

    `scores` are the positive effects over their sum, or as the option says (`scores.HOW`).
    """

    replaces: ClassVar[bool] = False

    steps: int | None = None  # exactly so many, on the path in one piece; by default, as many as it needs
    max_steps: int = 128  # where that ends at the latest
    tolerance: float = 0.01  # which gap is small, as a share of what is to be explained
    method: str = "gausslegendre"  # captum's name of the rule that places the steps on a piece
    scores: str = "positive"
    batch: int | None = None  # points computed at once, at most: bounds the memory

    def __post_init__(self) -> None:
        owner = _check("integrated_gradients", self.scores, self.batch)
        if self.steps is not None:
            check_integer(owner, "steps", self.steps, 2)
        check_integer(owner, "max_steps", self.max_steps, PIECE)
        check_range(owner, "tolerance", self.tolerance, 0, 1)
        if self.method not in RULES:
            raise UnknownNameError("method of quadrature", self.method, RULES)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "baseline": "zero embeddings", "scores": HOW[self.scores]}

    def check(self, model: Model) -> None:
        require(model, Differentiable, "method 'integrated_gradients'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units along the same path."""
        before = model.meter.forward_passes
        text = Text.of(model, case, "integrated_gradients", self.batch)
        found = self.integrate(text, report)
        ended = ["fixed" if self.steps else "incomplete" if reached else "settled" for reached in found.reached]
        return text.attribution(found.rows, self.scores, found.steps, ended, model.meter.forward_passes - before)

    def integrate(self, text: Text, report: ProgressCallback = no_progress) -> Integral:
        """Effects of positions, and the completeness gap of each target."""
        count = text.targets
        found = Integral(np.zeros((count, text.length)), np.zeros(count), [0] * count, [1.0] * count)
        points, most = self.steps or PIECE, self.steps or self.max_steps
        groups = [group for same in text.paths for group in text.groups(same, points)]
        for i, group in enumerate(groups):
            path = _Path(Slopes(text, group), self.method)
            ahead = [(0.0, 1.0)]  # pieces to do; the last one, which is the nearest to the text, comes first
            while ahead and path.steps + points <= most:
                start, stop = ahead.pop()
                piece = path.piece(start, stop, points)
                if self.steps or (np.abs(piece.gap) <= np.maximum(self.tolerance / 2 * path.scale, text.noise)).all():
                    path.settled.append(piece)
                else:
                    middle = stop / 8 if start == 0 else float(np.sqrt(start * stop))
                    ahead += [(start, middle), (middle, stop)]
                report(Progress(i * most + path.steps, len(groups) * most, "steps"))
            found.rows[group], found.gap[group] = path.rows, path.gap
            for t in group:
                found.steps[t], found.reached[t] = path.steps, path.reached
        return found


class _Piece(NamedTuple):
    start: float
    rows: Floats  # [targets, length]
    gap: Floats  # [targets], nats: by how much the rows miss the change along the piece


class _Path:
    """The way from zero embeddings to the text for some targets; the integrals over its pieces add up."""

    def __init__(self, slopes: Slopes, rule: str) -> None:
        self.slopes = slopes
        self.rule = rule
        self.steps = 0
        self.settled: list[_Piece] = []
        self.known: dict[float, Floats] = {}
        self.whole = self._value(1.0) - self._value(0.0)  # [targets], nats
        self.scale = np.maximum(np.abs(self.whole), SMALLEST)

    @property
    def reached(self) -> float:
        return min((piece.start for piece in self.settled), default=1.0)

    @property
    def rows(self) -> Floats:
        shape = (len(self.slopes.targets), self.slopes.text.length)
        return np.asarray(sum((piece.rows for piece in self.settled), np.zeros(shape)))

    @property
    def gap(self) -> Floats:
        return np.asarray(np.abs(self.rows.sum(-1) - self.whole) / self.scale)

    def piece(self, start: float, stop: float, points: int) -> _Piece:
        """From one share of the way to another."""
        from captum.attr import IntegratedGradients as Captum

        text, captum = self.slopes.text, self.slopes.of(Captum)
        rows = np.stack(
            [
                _summed(captum.attribute(text.at(stop), text.at(start), t, n_steps=points, method=self.rule))
                for t in self.slopes.targets
            ]
        )
        self.steps += points
        with np.errstate(invalid="ignore"):  # gradients that a dtype has no room for settle nothing
            return _Piece(start, rows, rows.sum(-1) - (self._value(stop) - self._value(start)))

    def _value(self, share: float) -> Floats:
        """What the model makes of the targets at this share of the way; [targets]."""
        if share not in self.known:
            self.known[share] = self.slopes.values(self.slopes.text.at(share)).numpy()[0, self.slopes.targets]
        return self.known[share]


@dataclass(frozen=True)
class GradientShap:
    """Gradients at random points between zero embeddings and the text, times the embeddings.

    The standard errors are those of the random points: how much other points would change the effects.
    `scores` are the positive effects over their sum, or as the option says (`scores.HOW`).
    """

    replaces: ClassVar[bool] = False

    n_samples: int = 64
    stdevs: float = 0.0  # of noise on the text, as a share of the standard deviation of its embeddings
    scores: str = "positive"
    batch: int | None = None  # points computed at once, at most: bounds the memory

    def __post_init__(self) -> None:
        owner = _check("gradient_shap", self.scores, self.batch)
        check_integer(owner, "n_samples", self.n_samples, 1)
        check_range(owner, "stdevs", self.stdevs, 0)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "baseline": "zero embeddings", "scores": HOW[self.scores]}

    def check(self, model: Model) -> None:
        require(model, Differentiable, "method 'gradient_shap'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,
        report: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same random points."""
        before = model.meter.forward_passes
        text = Text.of(model, case, "gradient_shap", self.batch)
        # Blocks are cut here and nowhere else, so that draws do not depend on the room that a model has.
        sizes = [len(block) for block in np.array_split(np.arange(self.n_samples), -(-self.n_samples // BLOCK))]
        seeds = [int(seed) for seed in rng.integers(2**32, size=len(sizes))]
        blocks = np.zeros((len(sizes), text.targets, text.length))
        groups = [group for same in text.paths for group in text.groups(same, BLOCK)]
        for i, group in enumerate(groups):
            for b, (size, seed) in enumerate(zip(sizes, seeds, strict=True)):
                slopes = Slopes(text, group)
                for t in group:
                    blocks[b, t] = self._block(slopes, t, size, seed)
                report(Progress(i * len(sizes) + b + 1, len(groups) * len(sizes), "blocks"))
        weights = np.array(sizes) / self.n_samples
        return text.attribution(
            np.tensordot(weights, blocks, 1),
            self.scores,
            [self.n_samples] * text.targets,
            ["fixed"] * text.targets,
            passes=model.meter.forward_passes - before,
            stderr=_error_of_mean(text.by_unit(blocks), weights),
        )

    def _block(self, slopes: Slopes, t: int, size: int, seed: int) -> Floats:
        """The mean over some random points, which are the same for every target; [length]."""
        from captum.attr import GradientShap as Captum

        text = slopes.text
        noise = self.stdevs * float(text.embeddings.std())
        with _global_generators(seed):
            found = slopes.of(Captum).attribute(text.at(1.0), text.at(0.0), n_samples=size, stdevs=noise, target=t)
        return _summed(found)


def _error_of_mean(blocks: Floats, weights: Floats) -> Floats | None:
    """The standard error of a weighted mean over [blocks, ...] that were drawn independently; unknown from one."""
    if len(blocks) < 2:
        return None
    spread = np.tensordot(weights**2, (blocks - np.tensordot(weights, blocks, 1)) ** 2, 1)
    return np.asarray(np.sqrt(spread * len(blocks) / (len(blocks) - 1)))


def _summed(found: "torch.Tensor") -> Floats:
    """Captum's answer for one target, [1, length, width], over the width; [length]."""
    return np.asarray(found.detach().double().sum(-1).numpy()[0])


def _check(method: str, scores: str, batch: int | None) -> str:
    owner = f"method {method!r}"
    check_how(scores)
    if batch is not None:
        check_integer(owner, "batch", batch, 1)
    return owner


_DRAWING = Lock()


@contextmanager
def _global_generators(seed: int) -> Iterator[None]:
    """Captum draws from the global generators of numpy and torch: they are seeded, and set back afterwards."""
    import torch

    with _DRAWING:
        numpy_state, torch_state = np.random.get_state(), torch.get_rng_state()
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)  # of the CPU, where the drawing is done; no other is touched
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            torch.set_rng_state(torch_state)
