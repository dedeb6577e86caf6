"""Comprehensiveness and sufficiency by replacement: the text stays a text that the model might read.

    comprehensiveness: the top 5, 10, 20, 30, 50 % of the units are replaced by proposals; how far does it move the
                       model? Far is good: what was called important was needed.
    sufficiency:       all but those are replaced. Little is good: what was called important is enough.

Each in two measures: the Hellinger distance between next-token distributions, where a model gives them, and the
drop of the target's log-probability in nats (of its log-odds, in a contrast), for which every model will do. The
number is the area over the curve, the mean over the five shares. Equal scores are ordered by their effects, then
by chance, anew for every draw; the proposals of a draw are the same for all shares, explanations and targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
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
from reagent.models.base import HasDistributions, Model
from reagent.replacers.base import Proposals

REPLACEMENT = ("comprehensiveness", "sufficiency")
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
DRAWS = Draws(round=16, most=256)
BLACK_BOX_DRAWS = Draws(fixed=32)  # nats have no scale on which 0.01 would be precise


@dataclass(frozen=True)
class _Which:
    """One attribution under one metric: that of an explanation, or a fresh random one for every draw."""

    name: str
    explanation: int | None


@dataclass(frozen=True)
class _Target:
    """One output unit, and what it costs to replace some of the units before it."""

    model: Model
    distributions: HasDistributions | None
    subject: EvaluationContext
    table: Proposals
    t: int
    shares: Sequence[float]

    @cached_property
    def case(self) -> Case:
        return self.subject.case.for_target(self.t)

    @cached_property
    def free(self) -> Ids:
        return np.flatnonzero(self.table.replaceable[: self.subject.before(self.t)])

    @cached_property
    def reference(self) -> Floats:
        """Log-probabilities at all that is asked, as the text stands; [asked, vocabulary]."""
        assert self.distributions is not None
        return np.asarray(self.distributions.after_tokens(self.case.ids[None], self.case.positions)[0])

    def replaced(self, which: _Which, draws: range) -> Mask:
        """Which free units are replaced; [draws, shares, free units]."""
        subject, t = self.subject, self.t
        chance = subject.rng("ties", t).random((draws.stop, subject.before(t)))[draws.start :]
        if which.explanation is None:
            scores = subject.random(t, draws.stop)[draws.start :]
            effects = np.zeros(scores.shape)
        else:
            scores, effects = (
                np.broadcast_to(rows[which.explanation], chance.shape)
                for rows in (subject.scores(t), subject.effects(t))
            )
        order = np.lexsort((chance[:, self.free], -effects[:, self.free], -scores[:, self.free]))
        rank = np.argsort(order, axis=-1)  # [draws, free units]
        top = rank[:, None] < np.array([how_many(share, len(self.free)) for share in self.shares])[:, None]
        return np.asarray(top if which.name == "comprehensiveness" else ~top)

    def costs(self, replaced: Mask, draws: range) -> Floats:
        """What replacing the marked units costs; [..., draws, shares, free units] → [..., draws, shares, measures]."""
        rng = self.subject.rng("replacement")
        uniform = rng.random((draws.stop, len(self.table.weights)))[draws.start :]
        columns = self.table.choose(uniform[:, self.free], self.free)[:, None]  # [draws, 1, free units]
        columns = np.broadcast_to(columns, replaced.shape)
        size = replaced.shape[-1]
        texts = self.table.apply(replaced.reshape(-1, size), columns.reshape(-1, size), self.free)
        # Shares and explanations often agree on what to replace: every text is asked about once.
        different, back = np.unique(texts[:, : len(self.case.ids)], axis=0, return_inverse=True)
        return self._ask(different)[back.reshape(-1)].reshape(*replaced.shape[:-1], -1)

    def _ask(self, texts: Ids) -> Floats:
        """Hellinger distance, if it is known, and drop in nats; [texts, measures]."""
        before = self.subject.case.values[self.t]
        if self.distributions is None:
            return np.asarray(before - self.case.score_outputs(self.model, texts).value)
        targets, positions = self.case.targets, self.case.positions
        said = len(self.case.ids) - int(
            self.case.unit_starts[len(self.case.input)]
        )  # without the contrast, who comes last
        before = self.case.output_values(self.reference[np.arange(len(targets)), targets][None])[0]
        step = self.distributions.rows_at_once(int(positions.max()), len(positions))
        found = []
        for begin in range(0, len(texts), step):
            log_p = self.distributions.after_tokens(texts[begin : begin + step], positions)
            after = self.case.output_values(log_p[:, np.arange(len(targets)), targets].astype(np.float64))[0]
            found.append(np.stack([distances(log_p[:, :said], self.reference[:said]), before - after], axis=1))
        return np.concatenate(found)


def how_many(share: float, units: int) -> int:
    """A share of the units, but at least one.

    >>> [how_many(share, 29) for share in SHARES]
    [1, 3, 6, 9, 14]
    """
    return max(1, round(share * units))


def replacement(
    model: Model,
    distributions: HasDistributions | None,
    subject: EvaluationContext,
    table: Proposals,
    names: Sequence[str] = REPLACEMENT,
    draws: Draws = DRAWS,
    shares: Sequence[float] = SHARES,
    advance: Advance = ignore,
) -> list[list[Result]]:
    """The metrics `names` of REPLACEMENT of every explanation, in each measure that the model allows."""
    measures = ("nats",) if distributions is None else ("hellinger", "nats")
    targets = {t: _Target(model, distributions, subject, table, t, shares) for t in subject.targets}
    empty = frozenset(t for t, target in targets.items() if not len(target.free))
    which = [_Which(name, e) for name in names for e in (*range(len(subject.explanations)), None)]
    series = [
        Series(slice(len(shares)), RANDOM_PRECISION if w.explanation is None else PRECISION, empty) for w in which
    ]

    def ask(t: int, some: Sequence[int], numbers: range) -> list[Floats]:
        made = len(some) * len(numbers) * len(shares)
        if t in empty:
            answers = np.zeros((len(some), len(numbers), len(shares), len(measures)))
        else:
            answers = targets[t].costs(np.stack([targets[t].replaced(which[i], numbers) for i in some]), numbers)
        advance(made, to_come(subject.targets, t, numbers, draws) * len(some) * len(shares) - made)
        return list(answers.swapaxes(2, 3).reshape(len(some), len(numbers), -1))  # columns: by measure, then by share

    sample(series, subject.targets, draws, ask)
    by = dict(zip(which, series, strict=True))
    return [
        [
            averaged(
                name,
                measure,
                name == "comprehensiveness",
                by[_Which(name, e)],
                by[_Which(name, None)],
                slice(m * len(shares), (m + 1) * len(shares)),
                shares,
                dict.fromkeys(empty, ("nothing_to_replace",)),
            )
            for name in names
            for m, measure in enumerate(measures)
        ]
        for e in range(len(subject.explanations))
    ]
