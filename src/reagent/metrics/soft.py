"""Soft-NS and Soft-NC: every embedding element is kept or removed at random, as likely as its token's score says.

    x′ᵢ = xᵢ ⊙ eᵢ,  eᵢ ~ Ber(q), one draw for every element        (the paper's soft perturbation)
    Soft-NS = max(0, H₀ − H(X′)) / H₀,  q = sᵢ                      what is important is kept: does it suffice?
    Soft-NC = H(X′) / H₀,               q = 1 − sᵢ                  what is important is removed: was it needed?

H is the Hellinger distance to the model's next-token distribution over the unperturbed text, H₀ that of the
zero input. Protected tokens stay whole, in the zero input too; every token of a unit has the unit's score.

π-Soft-NS and π-Soft-NC are the same with pᵢ = (sᵢ / max s)^γ in the place of sᵢ, where γ makes the expected share
of selected elements π. A softmax at temperature T has sᵢ / max s = exp((zᵢ − max z) / T): γ takes T with it, so no
temperature changes p, and methods are compared by what they select, not by how much.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reagent.case import Floats, Ids
from reagent.evaluation import Result
from reagent.metrics.context import EvaluationContext
from reagent.metrics.hellinger import distances
from reagent.metrics.monte_carlo import (
    PRECISION,
    RANDOM_PRECISION,
    Advance,
    Draws,
    Series,
    averaged,
    ignore,
    sample,
    to_come,
)
from reagent.models.base import HasEmbeddings, Singles

DRAWS = Draws(round=32)
PI = 0.3
SOFT = ("soft_ns", "soft_nc", "pi_soft_ns", "pi_soft_nc")
NOTHING = 1e-4  # a smaller H₀ is rounding
NEAR = 1e-12


class Selection(NamedTuple):
    """With which probability each unit's elements are selected; `flags` where the share could not be met so."""

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
    if weights @ positive <= share + NEAR:  # γ → 0: everything above zero is selected whole
        short = bool(weights @ positive < share - NEAR)
        return Selection(positive.astype(np.float64), ("too_few_positive",) if short else ())
    first = scores == scores.max()
    if weights @ first >= share - NEAR:  # γ → ∞: only the first place is left, and those who share it are alike
        tied = bool(weights @ first > share + NEAR)
        return Selection(first * (share / (weights @ first)), ("tied",) if tied else ())
    depth = np.full(len(scores), np.inf)
    depth[positive] = np.log(scores.max()) - np.log(scores[positive])
    depth /= depth[positive & ~first].mean()  # the scale of the depths is γ's to choose, so it is taken out first
    return Selection(_decayed(depth, _solve(depth, weights, share)))


def _solve(depth: Floats, weights: Floats, share: float) -> float:
    """The γ at which the mean of exp(−γ · depth) is `share`; the mean falls as γ grows."""
    from scipy.optimize import brentq

    def excess(log_gamma: float) -> float:
        return float(weights @ _decayed(depth, np.exp(log_gamma)) - share)

    low = high = 0.0
    while excess(low) < 0:
        low -= 2.0
    while excess(high) > 0:
        high += 2.0
    return float(np.exp(brentq(excess, low, high, xtol=1e-13)) if low < high else 1.0)


def _decayed(depth: Floats, gamma: float) -> Floats:
    """exp(−γ · depth), where an infinite depth has 0 whatever γ."""
    return np.where(np.isinf(depth), 0.0, np.exp(-gamma * np.where(np.isinf(depth), 0.0, depth)))


# --- the perturbed inputs ---


def perturbed(embeddings: Singles, keep: Floats, uniform: Singles) -> Singles:
    """x ⊙ e: an element of token i stays where its number in [0, 1) is below `keep`ᵢ; [rows, length, width].

    >>> ones, numbers = np.ones((2, 3), np.float32), np.full((1, 2, 3), 0.5, np.float32)
    >>> perturbed(ones, np.array([[1.0, 0.4]]), numbers).tolist()
    [[[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]]
    """
    return np.asarray(embeddings * (uniform < keep[..., None]), dtype=np.float32)


class _Target:
    """One output unit: its context as embeddings, and how far from its distribution a perturbed context leads."""

    def __init__(self, reader: HasEmbeddings, subject: EvaluationContext, t: int, made: Callable[[int], None]) -> None:
        case, n = subject.case, subject.before(t)
        self.reader, self.subject, self.t, self.made = reader, subject, t, made
        begin, end = int(case.unit_starts[n]), int(case.unit_starts[n + 1])
        self.positions: Ids = np.arange(begin, end)
        # Of a phrase, what stands before its later tokens is the phrase itself, which stays whole.
        self.unit_of = case.unit_of[: end - 1]
        self.free = np.append(subject.free(t), False)[np.minimum(self.unit_of, n)]  # [length]
        self.embeddings = reader.embed(case.ids[: end - 1])  # [length, width]
        self.reference = reader.after_embeddings(self.embeddings[None], self.positions)[0]
        zero = np.where(self.free[:, None], np.float32(0), self.embeddings)
        self.zero = float(distances(reader.after_embeddings(zero[None], self.positions), self.reference)[0])
        made(2)

    def distances(self, keep: Floats, numbers: range) -> Floats:
        """H for units kept with probability `keep` [variants, draws, units]; [variants, draws]."""
        variants, draws, units = keep.shape
        padded = np.concatenate([keep, np.ones((variants, draws, 1))], axis=-1)
        padded = np.where(self.free, padded[..., np.minimum(self.unit_of, units)], 1.0)  # [variants, draws, length]
        rows = padded.swapaxes(0, 1).reshape(variants * draws, -1)  # draw by draw, whose numbers are made once
        found = np.empty(len(rows))
        uniform: dict[int, Singles] = {}
        step = self.reader.rows_at_once(len(self.embeddings), len(self.positions))
        for begin in range(0, len(rows), step):
            some = range(begin, min(begin + step, len(rows)))
            of = [numbers[row // variants] for row in some]
            uniform = {d: uniform[d] if d in uniform else self._uniform(d) for d in of}
            texts = perturbed(self.embeddings, rows[some.start : some.stop], np.stack([uniform[d] for d in of]))
            found[some] = distances(self.reader.after_embeddings(texts, self.positions), self.reference)
            self.made(len(some))
        return found.reshape(draws, variants).T

    def _uniform(self, draw: int) -> Singles:
        """Numbers that depend on seed, target and draw only: the same for all explanations, however batches are cut."""
        rng = self.subject.rng("soft", self.t, draw)
        return rng.random(self.embeddings.shape, dtype=np.float32)


# --- the metrics ---


@dataclass(frozen=True)
class _Which:
    """One attribution under one metric: that of an explanation, or a fresh random one for every draw."""

    name: str
    explanation: int | None

    def selected(self, subject: EvaluationContext, t: int, draws: range, pis: Sequence[float]) -> Floats:
        """With which probability each unit's elements are selected; [points, draws, units]."""
        if self.explanation is None:
            rows = subject.random(t, draws.stop)[draws.start :]
        else:
            rows = subject.scores(t)[[self.explanation]]
        chosen = [[_selection(subject, t, row, share).p for row in rows] for share in _shares(self.name, pis)]
        return np.broadcast_to(np.array(chosen), (len(chosen), len(draws), subject.before(t)))


def passes(subject: EvaluationContext, names: Sequence[str], draws: Draws, pis: Sequence[float]) -> int:
    """How many forward passes `soft` takes at most."""
    variants = sum(len(_shares(name, pis)) for name in names) * (len(subject.explanations) + 1)
    return len(subject.targets) * (2 + draws.limit * variants)


def soft(
    reader: HasEmbeddings,
    subject: EvaluationContext,
    names: Sequence[str],
    draws: Draws = DRAWS,
    pis: Sequence[float] = (PI,),
    advance: Advance = ignore,
) -> list[list[Result]]:
    """The metrics `names` of SOFT of every explanation; of several π, the first gives the number."""
    left = passes(subject, names, draws, pis)

    def made(rows: int) -> None:
        nonlocal left
        left -= rows
        advance(rows, left)

    targets = {t: _Target(reader, subject, t, made) for t in subject.targets}
    unmeasured = frozenset(t for t, target in targets.items() if target.zero < NOTHING)
    which = [_Which(name, e) for name in names for e in (*range(len(subject.explanations)), None)]
    series = [Series(slice(0, 1), RANDOM_PRECISION if w.explanation is None else PRECISION, unmeasured) for w in which]

    def ask(t: int, some: Sequence[int], numbers: range) -> list[Floats]:
        nonlocal left
        chosen = [which[i].selected(subject, t, numbers, pis) for i in some]
        left = to_come(subject.targets, t, numbers, draws) * sum(map(len, chosen))
        keep = [p if which[i].name.endswith("ns") else 1 - p for i, p in zip(some, chosen, strict=True)]
        h = np.split(targets[t].distances(np.concatenate(keep), numbers), np.cumsum([len(p) for p in keep])[:-1])
        return [_normalised(rows, targets[t].zero, which[i].name).T for i, rows in zip(some, h, strict=True)]

    sample(series, subject.targets, draws, ask)
    by = dict(zip(which, series, strict=True))
    return [
        [
            averaged(
                name,
                "hellinger",
                True,
                by[_Which(name, e)],
                by[_Which(name, None)],
                slice(0, 1),
                pis if name.startswith("pi_") else (),
                {t: _flags(subject, t, e, name, pis, t in unmeasured) for t in subject.targets},
            )
            for name in names
        ]
        for e in range(len(subject.explanations))
    ]


def _shares(name: str, pis: Sequence[float]) -> Sequence[float | None]:
    return list(pis) if name.startswith("pi_") else [None]


def _selection(subject: EvaluationContext, t: int, scores: Floats, share: float | None) -> Selection:
    """The scores themselves, or what they select at π."""
    if share is None:
        return Selection(scores)
    free = subject.free(t)
    sizes = np.diff(subject.case.unit_starts)[: len(scores)][free]
    chosen = select(scores[free], share, sizes)
    p = np.zeros(len(scores))
    p[free] = chosen.p
    return Selection(p, chosen.flags)


def _flags(
    subject: EvaluationContext, t: int, explanation: int, name: str, pis: Sequence[float], unmeasured: bool
) -> tuple[str, ...]:
    row = subject.scores(t)[explanation]
    found = [flag for share in _shares(name, pis) for flag in _selection(subject, t, row, share).flags]
    return (*(["no_effect_of_input"] if unmeasured else []), *found)


def _normalised(h: Floats, zero: float, name: str) -> Floats:
    if zero < NOTHING:
        return np.zeros(h.shape)
    return np.maximum(0.0, zero - h) / zero if name.endswith("ns") else h / zero
