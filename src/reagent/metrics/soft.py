"""Soft-NS and Soft-NC: embedding elements are kept or removed at random, with probabilities from the scores.

    x′ᵢ = xᵢ ⊙ eᵢ,  eᵢ ~ Ber(q), one draw for every element        (the paper's soft perturbation)
    Soft-NS = max(0, H₀ − H(X′)) / H₀,  q = sᵢ                      important elements are kept: are they sufficient?
    Soft-NC = H(X′) / H₀,               q = 1 − sᵢ                  important elements are removed: were they needed?

H is the Hellinger distance to the model's next-token distribution after the unperturbed text. H₀ is the distance of
the zero input. Protected tokens are never perturbed, not even in the zero input. Every token of a unit has the unit's
score.

π-Soft-NS and π-Soft-NC use pᵢ = (sᵢ / max s)^γ instead of sᵢ. γ is chosen so that the expected share of selected
elements is π. A softmax at temperature T has sᵢ / max s = exp((zᵢ − max z) / T), so γ cancels T: the temperature does
not change p. Methods are compared by which elements they select, not by how many.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reagent.case import Floats, Ids
from reagent.evaluation import Result
from reagent.metrics.base import results_of
from reagent.metrics.context import EvaluationContext
from reagent.metrics.hellinger import distances
from reagent.metrics.monte_carlo import (
    TYPICAL_DRAWS,
    AttributionKey,
    DrawBudget,
    make_samples,
    sample,
    summarize,
)
from reagent.models.base import HasEmbeddings, Model, Singles, capability_error, find_embeddings

if TYPE_CHECKING:  # the config imports the metrics
    from reagent.metrics.config import EvaluationConfig

BUDGET = DrawBudget(round_size=32)
PI = 0.3
MIN_ZERO_DISTANCE = 1e-4  # a smaller H₀ is rounding
TOLERANCE = 1e-12  # of shares


@dataclass(frozen=True)
class SoftMetric:
    """One of the four soft metrics; all that are requested share the perturbed inputs."""

    id: str
    summary: str
    blind_to: str
    keeps_selected: bool  # NS keeps the selected elements, NC removes them
    equal_share: bool  # π: every explanation selects the same expected share
    higher_is_better: bool = True
    needs: str = "embeddings"

    def check(self, model: Model, config: "EvaluationConfig") -> None:
        del config
        if find_embeddings(model) is None:
            raise capability_error(model, HasEmbeddings, f"metric {self.id!r}")

    def measure(self, context: EvaluationContext) -> list[list[Result]]:
        names = context.requested(SOFT_METRICS)
        return results_of(self.id, context.shared("soft", lambda: measure_soft(context, names)))

    def estimate_passes(self, config: "EvaluationConfig", targets: int, explanations: int) -> float:
        return targets * (config.draws or TYPICAL_DRAWS) * (explanations + 1)

    def shares(self, pis: Sequence[float]) -> Sequence[float | None]:
        """The shares to select; None: the scores themselves are the probabilities."""
        return list(pis) if self.equal_share else [None]


_SHARPNESS = "it prefers peaked scores, whatever their order; zeroed embeddings are far from any text"
_ZEROS = "zeroed embeddings are far from any text"
SOFT_METRICS = {
    metric.id: metric
    for metric in (
        SoftMetric(
            "soft_ns",
            "how little changes when elements are kept with their token's score as probability",
            _SHARPNESS,
            keeps_selected=True,
            equal_share=False,
        ),
        SoftMetric(
            "soft_nc",
            "how much changes when elements are removed with their token's score as probability",
            _SHARPNESS,
            keeps_selected=False,
            equal_share=False,
        ),
        SoftMetric(
            "pi_soft_ns",
            "soft_ns with an equal expected share π of kept elements",
            _ZEROS,
            keeps_selected=True,
            equal_share=True,
        ),
        SoftMetric(
            "pi_soft_nc",
            "soft_nc with an equal expected share π of removed elements",
            _ZEROS,
            keeps_selected=False,
            equal_share=True,
        ),
    )
}


# --- selection at an equal share ---


class Selection(NamedTuple):
    """The probability with which each unit's elements are selected; flags if the share cannot be reached as usual."""

    p: Floats
    flags: tuple[str, ...] = ()


def select(scores: Floats, share: float, sizes: Floats | None = None) -> Selection:
    """pᵢ = (sᵢ / max s)^γ with γ solved so that the mean of p is `share`; `sizes` weigh units by their tokens.

    >>> select(np.array([0.5, 0.25, 0.25]), 0.5).p.round(6)  # γ = 2: 1, ¼, ¼
    array([1.  , 0.25, 0.25])
    >>> select(np.array([1.0, 0.0, 0.0]), 0.5)
    Selection(p=array([1., 0., 0.]), flags=('too_few_positive',))
    """
    weights = np.ones(len(scores)) if sizes is None else np.asarray(sizes, dtype=np.float64)
    weights = weights / weights.sum()
    positive = scores > 0
    if weights @ positive <= share + TOLERANCE:  # γ → 0: every positive score is selected with probability 1
        short = bool(weights @ positive < share - TOLERANCE)
        return Selection(positive.astype(np.float64), ("too_few_positive",) if short else ())
    first = scores == scores.max()
    if weights @ first >= share - TOLERANCE:  # γ → ∞: only the highest scores are selected, all alike
        tied = bool(weights @ first > share + TOLERANCE)
        return Selection(first * (share / (weights @ first)), ("tied",) if tied else ())
    depth = np.full(len(scores), np.inf)
    depth[positive] = np.log(scores.max()) - np.log(scores[positive])
    depth /= depth[positive & ~first].mean()  # γ absorbs the scale of the depths, so it is removed first
    return Selection(_decay(depth, _solve(depth, weights, share)))


def _solve(depth: Floats, weights: Floats, share: float) -> float:
    """The γ at which the mean of exp(−γ · depth) is `share`; the mean falls as γ grows."""
    from scipy.optimize import brentq

    def excess(log_gamma: float) -> float:
        return float(weights @ _decay(depth, np.exp(log_gamma)) - share)

    low = high = 0.0
    while excess(low) < 0:
        low -= 2.0
    while excess(high) > 0:
        high += 2.0
    return float(np.exp(brentq(excess, low, high, xtol=1e-13)) if low < high else 1.0)


def _decay(depth: Floats, gamma: float) -> Floats:
    """exp(−γ · depth); 0 at an infinite depth for every γ."""
    return np.where(np.isinf(depth), 0.0, np.exp(-gamma * np.where(np.isinf(depth), 0.0, depth)))


# --- the perturbed inputs ---


def perturb(embeddings: Singles, keep: Floats, uniform: Singles) -> Singles:
    """x ⊙ e: an element of token i is kept if its number in [0, 1) is below `keep`ᵢ; [rows, length, width].

    >>> ones, numbers = np.ones((2, 3), np.float32), np.full((1, 2, 3), 0.5, np.float32)
    >>> perturb(ones, np.array([[1.0, 0.4]]), numbers).tolist()
    [[[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]]
    """
    return np.asarray(embeddings * (uniform < keep[..., None]), dtype=np.float32)


class _Target:
    """One output unit: the embeddings before it, and the distance that a perturbation of them causes."""

    def __init__(
        self, reader: HasEmbeddings, context: EvaluationContext, t: int, advance: Callable[[int], None]
    ) -> None:
        case, n = context.case, context.units_before(t)
        self.reader, self.context, self.t, self.advance = reader, context, t, advance
        begin, end = int(case.unit_starts[n]), int(case.unit_starts[n + 1])
        self.positions: Ids = np.arange(begin, end)
        # The later tokens of a phrase follow its earlier tokens, which are not perturbed.
        self.unit_of = case.unit_of[: end - 1]
        self.free = np.append(context.unprotected(t), False)[np.minimum(self.unit_of, n)]  # [length]
        self.embeddings = reader.embed(case.ids[: end - 1])  # [length, width]
        self.reference = reader.after_embeddings(self.embeddings[None], self.positions)[0]
        zero = np.where(self.free[:, None], np.float32(0), self.embeddings)
        self.zero = float(distances(reader.after_embeddings(zero[None], self.positions), self.reference)[0])
        advance(2)

    @property
    def is_measurable(self) -> bool:
        """Whether the zero input changes the model's distribution at all."""
        return self.zero >= MIN_ZERO_DISTANCE

    def measure(self, keys: Sequence[AttributionKey], selected: Sequence[Floats], draws: range) -> list[Floats]:
        """Values from the probabilities of selection [shares, draws, units] of each key; [draws, shares] each."""
        keeps = [SOFT_METRICS[key.metric].keeps_selected for key in keys]
        keep = [p if kept else 1 - p for kept, p in zip(keeps, selected, strict=True)]
        h = np.split(self.distances(np.concatenate(keep), draws), np.cumsum([len(p) for p in keep])[:-1])
        return [self.normalize(rows, kept).T for kept, rows in zip(keeps, h, strict=True)]

    def distances(self, keep: Floats, draws: range) -> Floats:
        """H for units kept with probability `keep` [variants, draws, units]; [variants, draws]."""
        variants, _, units = keep.shape
        padded = np.concatenate([keep, np.ones((variants, len(draws), 1))], axis=-1)
        padded = np.where(self.free, padded[..., np.minimum(self.unit_of, units)], 1.0)  # [variants, draws, length]
        rows = padded.swapaxes(0, 1).reshape(variants * len(draws), -1)  # the random numbers of a draw are made once
        h = np.empty(len(rows))
        uniform: dict[int, Singles] = {}
        step = self.reader.rows_at_once(len(self.embeddings), len(self.positions))
        for begin in range(0, len(rows), step):
            batch = range(begin, min(begin + step, len(rows)))
            numbers = [draws[row // variants] for row in batch]
            uniform = {d: uniform[d] if d in uniform else self._uniform(d) for d in numbers}
            inputs = perturb(self.embeddings, rows[batch.start : batch.stop], np.stack([uniform[d] for d in numbers]))
            h[batch] = distances(self.reader.after_embeddings(inputs, self.positions), self.reference)
            self.advance(len(batch))
        return h.reshape(len(draws), variants).T

    def normalize(self, h: Floats, keeps_selected: bool) -> Floats:
        """Soft-NS or Soft-NC from H; 0 if the target is not measurable."""
        if not self.is_measurable:
            return np.zeros(h.shape)
        return np.maximum(0.0, self.zero - h) / self.zero if keeps_selected else h / self.zero

    def _uniform(self, draw: int) -> Singles:
        """Random numbers of one draw; they depend neither on the explanations nor on the batches."""
        rng = self.context.rng("soft", self.t, draw)
        return rng.random(self.embeddings.shape, dtype=np.float32)


# --- the metrics ---


def measure_soft(context: EvaluationContext, names: Sequence[str]) -> list[list[Result]]:
    """The metrics `names` of SOFT_METRICS for every explanation; of several π, the first gives the value."""
    reader, pis = find_embeddings(context.model), context.config.pis
    assert reader is not None  # `check` ran before
    metrics = [SOFT_METRICS[name] for name in names]
    budget = BUDGET.with_fixed(context.config.draws)
    variants = sum(len(metric.shares(pis)) for metric in metrics) * (len(context.explanations) + 1)
    remaining = len(context.targets) * (2 + budget.limit * variants)

    def advance(passes: int) -> None:
        nonlocal remaining
        remaining -= passes
        context.progress.advance(passes, remaining)

    targets = {t: _Target(reader, context, t, advance) for t in context.targets}
    unmeasurable = [t for t, target in targets.items() if not target.is_measurable]
    samples = make_samples(names, len(context.explanations), slice(0, 1), unmeasurable)

    def compute(t: int, keys: Sequence[AttributionKey], draws: range) -> list[Floats]:
        nonlocal remaining
        selected = [_probabilities(context, t, key, draws) for key in keys]
        remaining = budget.remaining(context.targets, t, draws) * sum(map(len, selected))
        return targets[t].measure(keys, selected, draws)

    sample(samples, context.targets, budget, compute)
    return [
        [
            summarize(
                samples,
                AttributionKey(metric.id, e),
                "hellinger",
                metric.higher_is_better,
                curve=pis if metric.equal_share else (),
                flags={t: _flags(context, t, e, metric, t in unmeasurable) for t in context.targets},
            )
            for metric in metrics
        ]
        for e in range(len(context.explanations))
    ]


def _probabilities(context: EvaluationContext, t: int, key: AttributionKey, draws: range) -> Floats:
    """The probability with which each unit's elements are selected; [shares, draws, units]."""
    if key.explanation is None:
        rows = context.random_scores(t, draws.stop)[draws.start :]
    else:
        rows = context.scores(t)[[key.explanation]]
    shares = SOFT_METRICS[key.metric].shares(context.config.pis)
    selected = [[_selection(context, t, row, share).p for row in rows] for share in shares]
    return np.broadcast_to(np.array(selected), (len(shares), len(draws), context.units_before(t)))


def _selection(context: EvaluationContext, t: int, scores: Floats, share: float | None) -> Selection:
    """The scores themselves, or the selection of a share."""
    if share is None:
        return Selection(scores)
    free = context.unprotected(t)
    sizes = np.diff(context.case.unit_starts)[: len(scores)][free]
    selection = select(scores[free], share, sizes)
    p = np.zeros(len(scores))
    p[free] = selection.p
    return Selection(p, selection.flags)


def _flags(
    context: EvaluationContext, t: int, explanation: int, metric: SoftMetric, unmeasurable: bool
) -> tuple[str, ...]:
    row = context.scores(t)[explanation]
    shares = metric.shares(context.config.pis)
    flags = [flag for share in shares for flag in _selection(context, t, row, share).flags]
    return (*(["no_effect_of_input"] if unmeasurable else []), *flags)
