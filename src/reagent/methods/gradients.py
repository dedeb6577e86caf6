"""Gradient methods: gradients of the target's value with respect to the embeddings of the tokens before it.

The methods are captum's (`captum.attr`). Effects are in nats, summed over the width of an embedding and over the tokens
of a unit; a positive effect makes the target more likely. The value of a target of several tokens is the sum of their
log-probabilities, the value of a contrasted target its log-odds. Protected tokens keep their embeddings everywhere and
have no effect. The tokens of a target of several tokens also keep theirs, because only the units before a target
explain it.

One forward pass serves all targets, followed by one backward pass per target. Only forward passes are counted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from reagent.case import Case, Floats
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.captum_adapter import CaptumAdapter, EmbeddedCase
from reagent.methods.normalization import NORMALIZATIONS, check_normalization
from reagent.models.base import Differentiable, Model, require
from reagent.replacers.base import Proposals
from reagent.validation import check_integer, check_name, check_range

if TYPE_CHECKING:
    import torch

SEGMENT_POINTS = 8  # quadrature points on one segment of a path
DRAW_SIZE = 4  # random points that are drawn together
MIN_SCALE = 0.1  # nats: smallest change that a completeness gap is measured against
QUADRATURE_METHODS = ("gausslegendre", "riemann_trapezoid", "riemann_middle", "riemann_left", "riemann_right")


@dataclass(frozen=True)
class InputXGradient:
    """Input × gradient: each embedding times the gradient, the first-order effect of setting it to zero.

    The sum over the width of an embedding is signed, and may be negative for a unit that the target needs: to first
    order the target gains if the embedding shrinks, though it is lost if the embedding is zero. The norm has no sign.
    """

    replaces: ClassVar[bool] = False

    reduction: str = "sum"  # over the width of an embedding: the sum, or the norm, as Inseq shows it
    scores: str = "positive"  # normalization, see normalization.py
    batch: int | None = None  # maximum number of points computed at once, to limit the memory

    def __post_init__(self) -> None:
        _check("input_x_gradient", self.scores, self.batch)
        check_name("reduction of input_x_gradient", self.reduction, REDUCTIONS)

    @property
    def info(self) -> dict[str, Any]:
        options = {**asdict(self), "scores": NORMALIZATIONS[self.scores]}
        if self.reduction == "sum":
            del options["reduction"]  # not in stored benchmarks, whose keys depend on the options
        return options

    def check(self, model: Model) -> None:
        require(model, Differentiable, "method 'input_x_gradient'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with one forward pass."""
        before = model.meter.forward_passes
        embedded = EmbeddedCase.of(model, case, "input_x_gradient", self.batch)
        from captum.attr import InputXGradient as CaptumMethod

        rows = np.zeros((embedded.targets, embedded.length))
        for group in embedded.groups(case.explained_rows, points=1):
            captum = CaptumAdapter(embedded, group).connect(CaptumMethod)
            for t in group:
                # Without requires_grad, captum sets it and warns.
                products = captum.attribute(embedded.point(1.0).requires_grad_(), target=t)
                rows[t] = REDUCTIONS[self.reduction](products)
            on_progress(Progress(group[-1] + 1, embedded.targets, "targets"))
        passes = model.meter.forward_passes - before
        return embedded.attribution(rows, self.scores, [1] * embedded.targets, ["fixed"] * embedded.targets, passes)


class PathIntegral(NamedTuple):
    """Integrated gradients of all targets, and their completeness."""

    rows: Floats  # effects of positions, [targets, length]
    gap: Floats  # [targets]: |sum of effects − change of the value| / |change of the value|
    steps: list[int]
    reached: list[float]  # end of the integrated part of the path, from the text (1) towards zero embeddings (0)


@dataclass(frozen=True)
class IntegratedGradients:
    """Integrated gradients (Sundararajan, Taly and Yan, 2017) from the baseline of zero embeddings to the text.

    The effect of an embedding x_i is x_i ∫ ∂F(αx) / ∂x_i dα over α from 0 to 1 (Eq. 1), where F is the value of the
    target. By completeness, the effects sum to F(x) − F(0); a deviation from this is the completeness gap. It decides
    where steps are needed: starting at the text, a segment of the path whose gap is too large is divided in two. A
    network without additive positions normalises even very small embeddings to full size, so the value of a deep
    network changes abruptly near zero and no number of steps is enough. The part of the path that remains after
    `max_steps` is left out, and the target is marked as incomplete.
    """

    replaces: ClassVar[bool] = False

    steps: int | None = None  # exact number, on the undivided path; by default, as many as the path needs
    max_steps: int = 128  # upper limit if `steps` is not given
    tolerance: float = 0.01  # largest accepted gap, as a share of the change of the value
    method: str = "gausslegendre"  # quadrature method of a segment, by captum's name
    scores: str = "positive"  # normalization, see normalization.py
    batch: int | None = None  # maximum number of points computed at once, to limit the memory

    def __post_init__(self) -> None:
        owner = _check("integrated_gradients", self.scores, self.batch)
        if self.steps is not None:
            check_integer(owner, "steps", self.steps, 2)
        check_integer(owner, "max_steps", self.max_steps, SEGMENT_POINTS)
        check_range(owner, "tolerance", self.tolerance, 0, 1)
        check_name("quadrature method", self.method, QUADRATURE_METHODS)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "baseline": "zero embeddings", "scores": NORMALIZATIONS[self.scores]}

    def check(self, model: Model) -> None:
        require(model, Differentiable, "method 'integrated_gradients'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units along the same path."""
        before = model.meter.forward_passes
        embedded = EmbeddedCase.of(model, case, "integrated_gradients", self.batch)
        integral = self.integrate(embedded, on_progress)
        stopped = ["fixed" if self.steps else "incomplete" if reached else "settled" for reached in integral.reached]
        passes = model.meter.forward_passes - before
        return embedded.attribution(integral.rows, self.scores, integral.steps, stopped, passes)

    def integrate(self, embedded: EmbeddedCase, on_progress: ProgressCallback = no_progress) -> PathIntegral:
        """Effects of positions, and the completeness gap of each target."""
        count = embedded.targets
        integral = PathIntegral(np.zeros((count, embedded.length)), np.zeros(count), [0] * count, [1.0] * count)
        points, max_steps = self.steps or SEGMENT_POINTS, self.steps or self.max_steps
        groups = [group for targets in embedded.paths for group in embedded.groups(targets, points)]
        for i, group in enumerate(groups):
            path = _IntegrationPath(CaptumAdapter(embedded, group), self.method)
            pending = [(0.0, 1.0)]  # segments to integrate; the last one, the nearest to the text, is taken first
            while pending and path.steps + points <= max_steps:
                start, stop = pending.pop()
                segment = path.integrate(start, stop, points)
                accepted = np.maximum(self.tolerance / 2 * path.scale, embedded.noise)
                if self.steps or (np.abs(segment.gap) <= accepted).all():
                    path.segments.append(segment)
                else:
                    middle = stop / 8 if start == 0 else float(np.sqrt(start * stop))
                    pending += [(start, middle), (middle, stop)]
                on_progress(Progress(i * max_steps + path.steps, len(groups) * max_steps, "steps"))
            integral.rows[group], integral.gap[group] = path.rows, path.gap
            for t in group:
                integral.steps[t], integral.reached[t] = path.steps, path.reached
        return integral


class _Segment(NamedTuple):
    start: float
    rows: Floats  # [targets, length]
    gap: Floats  # [targets], nats: sum of the rows − change of the value along the segment


class _IntegrationPath:
    """The path from zero embeddings to the text for some targets, as the sum of its integrated segments."""

    def __init__(self, captum: CaptumAdapter, quadrature: str) -> None:
        self.captum = captum
        self.quadrature = quadrature
        self.steps = 0
        self.segments: list[_Segment] = []
        self._values: dict[float, Floats] = {}
        self.change = self._value(1.0) - self._value(0.0)  # [targets], nats
        self.scale = np.maximum(np.abs(self.change), MIN_SCALE)

    @property
    def reached(self) -> float:
        return min((segment.start for segment in self.segments), default=1.0)

    @property
    def rows(self) -> Floats:
        shape = (len(self.captum.targets), self.captum.embedded.length)
        return np.asarray(sum((segment.rows for segment in self.segments), np.zeros(shape)))

    @property
    def gap(self) -> Floats:
        return np.asarray(np.abs(self.rows.sum(-1) - self.change) / self.scale)

    def integrate(self, start: float, stop: float, points: int) -> _Segment:
        """The integral of Eq. 1 over the segment of the path from α = `start` to α = `stop`."""
        from captum.attr import IntegratedGradients as CaptumMethod

        embedded, method = self.captum.embedded, self.captum.connect(CaptumMethod)
        text, baseline = embedded.point(stop), embedded.point(start)
        rows = np.stack(
            [
                _sum_width(method.attribute(text, baseline, t, n_steps=points, method=self.quadrature))
                for t in self.captum.targets
            ]
        )
        self.steps += points
        with np.errstate(invalid="ignore"):  # gradients that overflow the dtype give a gap that is not a number
            return _Segment(start, rows, rows.sum(-1) - (self._value(stop) - self._value(start)))

    def _value(self, share: float) -> Floats:
        """Values of the targets at a share of the path, [targets]."""
        if share not in self._values:
            point = self.captum.embedded.point(share)
            self._values[share] = self.captum.values(point).numpy()[0, self.captum.targets]
        return self._values[share]


@dataclass(frozen=True)
class GradientShap:
    """Gradient SHAP (Lundberg and Lee, 2017): the integral of Eq. 1 of integrated gradients by Monte Carlo.

    Gradients are averaged over random points between zero embeddings and the text, times the embeddings. The standard
    errors are the Monte Carlo errors of the random points.
    """

    replaces: ClassVar[bool] = False

    n_samples: int = 64
    stdevs: float = 0.0  # of noise added to the text, as a share of the standard deviation of its embeddings
    scores: str = "positive"  # normalization, see normalization.py
    batch: int | None = None  # maximum number of points computed at once, to limit the memory

    def __post_init__(self) -> None:
        owner = _check("gradient_shap", self.scores, self.batch)
        check_integer(owner, "n_samples", self.n_samples, 1)
        check_range(owner, "stdevs", self.stdevs, 0)

    @property
    def info(self) -> dict[str, Any]:
        return {**asdict(self), "baseline": "zero embeddings", "scores": NORMALIZATIONS[self.scores]}

    def check(self, model: Model) -> None:
        require(model, Differentiable, "method 'gradient_shap'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,  # noqa: ARG002
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same random points."""
        before = model.meter.forward_passes
        embedded = EmbeddedCase.of(model, case, "gradient_shap", self.batch)
        # The samples are divided into draws here and nowhere else, so that they do not depend on the memory.
        draws = -(-self.n_samples // DRAW_SIZE)
        sizes = [len(draw) for draw in np.array_split(np.arange(self.n_samples), draws)]
        seeds = [int(seed) for seed in rng.integers(2**32, size=len(sizes))]
        rows = np.zeros((len(sizes), embedded.targets, embedded.length))
        groups = [group for targets in embedded.paths for group in embedded.groups(targets, DRAW_SIZE)]
        for i, group in enumerate(groups):
            for d, (size, seed) in enumerate(zip(sizes, seeds, strict=True)):
                captum = CaptumAdapter(embedded, group)
                for t in group:
                    rows[d, t] = self._draw(captum, t, size, seed)
                on_progress(Progress(i * len(sizes) + d + 1, len(groups) * len(sizes), "blocks"))
        weights = np.array(sizes) / self.n_samples
        return embedded.attribution(
            np.tensordot(weights, rows, 1),
            self.scores,
            [self.n_samples] * embedded.targets,
            ["fixed"] * embedded.targets,
            passes=model.meter.forward_passes - before,
            stderr=_stderr_of_mean(embedded.by_unit(rows), weights),
        )

    def _draw(self, captum: CaptumAdapter, t: int, size: int, seed: int) -> Floats:
        """The mean over `size` random points, which are the same for every target; [length]."""
        from captum.attr import GradientShap as CaptumMethod

        embedded = captum.embedded
        noise = self.stdevs * float(embedded.embeddings.std())
        text, baseline = embedded.point(1.0), embedded.point(0.0)
        with _seeded_global_generators(seed):
            return _sum_width(
                captum.connect(CaptumMethod).attribute(text, baseline, n_samples=size, stdevs=noise, target=t)
            )


def _stderr_of_mean(draws: Floats, weights: Floats) -> Floats | None:
    """Standard error of the weighted mean over independent draws, [draws, ...]; None from a single draw."""
    if len(draws) < 2:
        return None
    variance = np.tensordot(weights**2, (draws - np.tensordot(weights, draws, 1)) ** 2, 1)
    return np.asarray(np.sqrt(variance * len(draws) / (len(draws) - 1)))


def _sum_width(attributions: "torch.Tensor") -> Floats:
    """Captum's attributions of one target, [1, length, width], summed over the width; [length]."""
    return np.asarray(attributions.detach().double().sum(-1).numpy()[0])


def _norm_width(attributions: "torch.Tensor") -> Floats:
    return np.asarray(attributions.detach().double().norm(dim=-1).numpy()[0])


REDUCTIONS = {"sum": _sum_width, "norm": _norm_width}


def _check(method: str, scores: str, batch: int | None) -> str:
    """Check the options that all gradient methods share; the name of the method in error messages."""
    owner = f"method {method!r}"
    check_normalization(scores)
    if batch is not None:
        check_integer(owner, "batch", batch, 1)
    return owner


_GLOBAL_GENERATORS = Lock()


@contextmanager
def _seeded_global_generators(seed: int) -> Iterator[None]:
    """Seed the global generators of numpy and torch, which captum draws from, and restore them afterwards."""
    import torch

    with _GLOBAL_GENERATORS:
        numpy_state, torch_state = np.random.get_state(), torch.get_rng_state()
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)  # captum draws on the CPU; other devices are not touched
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            torch.set_rng_state(torch_state)
