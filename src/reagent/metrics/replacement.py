"""Comprehensiveness and sufficiency by replacement: the perturbed text is still text that the model might read.

    comprehensiveness: the top 5, 10, 20, 30, 50 % of the units are replaced. A large change is good: the important
                       units were needed.
    sufficiency:       all other units are replaced. A small change is good: the important units are sufficient.

There are two measures of change: the Hellinger distance between next-token distributions, if the model gives them, and
the drop in the target's log-probability in nats (of its log-odds, in a contrast), which every model gives. The value is
the area over the curve, the mean over the five shares. Equal scores are ordered by their effects, then at random, anew
in every draw. The replacements of a draw are the same for all shares, explanations and targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
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
from reagent.models.base import HasDistributions, Model, find_distributions

if TYPE_CHECKING:  # the config imports the metrics
    from reagent.metrics.config import EvaluationConfig

SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
BUDGET = DrawBudget(round_size=16, maximum=256)
BLACK_BOX_BUDGET = DrawBudget(fixed=32)  # nats have no scale on which a standard error of 0.01 would be small


@dataclass(frozen=True)
class ReplacementMetric:
    """One of the two replacement metrics; they share the texts that both need."""

    id: str
    summary: str
    replaces_top: bool  # the most important units, or all others
    higher_is_better: bool
    needs: str = "probabilities"
    blind_to: str = "it sees the ranking only, not the size of the scores; the result depends on the replacer"

    def check(self, model: Model, config: "EvaluationConfig") -> None:
        """Every model gives the drop in nats."""

    def measure(self, context: EvaluationContext) -> list[list[Result]]:
        names = context.requested(REPLACEMENT_METRICS)
        return results_of(self.id, context.shared("replacement", lambda: measure_replacement(context, names)))

    def estimate_passes(self, config: "EvaluationConfig", targets: int, explanations: int) -> float:
        return targets * (config.draws or TYPICAL_DRAWS) * len(SHARES) * (explanations + 1)


REPLACEMENT_METRICS = {
    metric.id: metric
    for metric in (
        ReplacementMetric(
            "comprehensiveness",
            "how much changes when the most important units are replaced",
            replaces_top=True,
            higher_is_better=True,
        ),
        ReplacementMetric(
            "sufficiency",
            "how much changes when all but the most important units are replaced",
            replaces_top=False,
            higher_is_better=False,
        ),
    )
}


@dataclass(frozen=True)
class _Target:
    """One output unit, and the change that replacing units before it causes."""

    context: EvaluationContext
    distributions: HasDistributions | None
    t: int

    @cached_property
    def case(self) -> Case:
        return self.context.case.for_target(self.t)

    @cached_property
    def free(self) -> Ids:
        """The units before the target that have proposals."""
        return np.flatnonzero(self.context.proposals.replaceable[: self.context.units_before(self.t)])

    @cached_property
    def reference(self) -> Floats:
        """Log-probabilities after the unperturbed text; [positions, vocabulary]."""
        assert self.distributions is not None
        return np.asarray(self.distributions.after_tokens(self.case.ids[None], self.case.positions)[0])

    def replaced(self, key: AttributionKey, draws: range) -> Mask:
        """Which free units are replaced; [draws, shares, free units]."""
        context, t = self.context, self.t
        chance = context.rng("ties", t).random((draws.stop, context.units_before(t)))[draws.start :]
        if key.explanation is None:
            scores = context.random_scores(t, draws.stop)[draws.start :]
            effects = np.zeros(scores.shape)
        else:
            scores, effects = (
                np.broadcast_to(rows[key.explanation], chance.shape) for rows in (context.scores(t), context.effects(t))
            )
        order = np.lexsort((chance[:, self.free], -effects[:, self.free], -scores[:, self.free]))
        rank = np.argsort(order, axis=-1)  # [draws, free units]
        top = rank[:, None] < np.array([count_units(share, len(self.free)) for share in SHARES])[:, None]
        return np.asarray(top if REPLACEMENT_METRICS[key.metric].replaces_top else ~top)

    def changes(self, replaced: Mask, draws: range) -> Floats:
        """The change in each measure; [..., draws, shares, free units] → [..., draws, shares, measures]."""
        table = self.context.proposals
        uniform = self.context.rng("replacement").random((draws.stop, len(table.weights)))[draws.start :]
        columns = table.choose(uniform[:, self.free], self.free)[:, None]  # [draws, 1, free units]
        columns = np.broadcast_to(columns, replaced.shape)
        size = replaced.shape[-1]
        texts = table.apply(replaced.reshape(-1, size), columns.reshape(-1, size), self.free)
        # Shares and explanations often replace the same units: the model reads every text once.
        unique, inverse = np.unique(texts[:, : len(self.case.ids)], axis=0, return_inverse=True)
        return self._measure_texts(unique)[inverse.reshape(-1)].reshape(*replaced.shape[:-1], -1)

    def _measure_texts(self, texts: Ids) -> Floats:
        """The Hellinger distance, if there are distributions, and the drop in nats; [texts, measures]."""
        if self.distributions is None:
            before = self.context.case.values[self.t]
            return np.asarray(before - self.case.score_outputs(self.context.model, texts).value)
        targets, positions = self.case.targets, self.case.positions
        # The last position is that of a contrast, which is not part of the text.
        outputs = len(self.case.ids) - int(self.case.unit_starts[len(self.case.input)])
        before = self.case.output_values(self.reference[np.arange(len(targets)), targets][None])[0]
        step = self.distributions.rows_at_once(int(positions.max()), len(positions))
        changes = []
        for begin in range(0, len(texts), step):
            log_p = self.distributions.after_tokens(texts[begin : begin + step], positions)
            after = self.case.output_values(log_p[:, np.arange(len(targets)), targets].astype(np.float64))[0]
            distance = distances(log_p[:, :outputs], self.reference[:outputs])
            changes.append(np.stack([distance, before - after], axis=1))
        return np.concatenate(changes)


def count_units(share: float, units: int) -> int:
    """A share of the units, but at least one.

    >>> [count_units(share, 29) for share in SHARES]
    [1, 3, 6, 9, 14]
    """
    return max(1, round(share * units))


def measure_replacement(context: EvaluationContext, names: Sequence[str]) -> list[list[Result]]:
    """The metrics `names` of REPLACEMENT_METRICS for every explanation, in each measure that the model allows."""
    distributions = find_distributions(context.model)
    measures = ("nats",) if distributions is None else ("hellinger", "nats")
    budget = (BLACK_BOX_BUDGET if distributions is None else BUDGET).with_fixed(context.config.draws)
    targets = {t: _Target(context, distributions, t) for t in context.targets}
    empty = [t for t, target in targets.items() if not len(target.free)]
    samples = make_samples(names, len(context.explanations), slice(len(SHARES)), empty)

    def compute(t: int, keys: Sequence[AttributionKey], draws: range) -> list[Floats]:
        passes = len(keys) * len(draws) * len(SHARES)
        if t in empty:
            changes = np.zeros((len(keys), len(draws), len(SHARES), len(measures)))
        else:
            changes = targets[t].changes(np.stack([targets[t].replaced(key, draws) for key in keys]), draws)
        remaining = budget.remaining(context.targets, t, draws) * len(keys) * len(SHARES)
        context.progress.advance(passes, remaining - passes)
        return list(changes.swapaxes(2, 3).reshape(len(keys), len(draws), -1))  # columns: by measure, then by share

    sample(samples, context.targets, budget, compute)
    return [
        [
            summarize(
                samples,
                AttributionKey(name, e),
                measure,
                REPLACEMENT_METRICS[name].higher_is_better,
                slice(m * len(SHARES), (m + 1) * len(SHARES)),
                SHARES,
                dict.fromkeys(empty, ("nothing_to_replace",)),
            )
            for name in names
            for m, measure in enumerate(measures)
        ]
        for e in range(len(context.explanations))
    ]
