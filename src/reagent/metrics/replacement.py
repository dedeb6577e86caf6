"""Comprehensiveness and sufficiency by removal: the important units are removed, or all others.

    comprehensiveness: the top 5, 10, 20, 30, 50 % of the units are removed. A large change is good: the important
                       units were needed.
    sufficiency:       all other units are removed. A small change is good: the important units are sufficient.

Units are removed by replacement, so that the text is still one that the model might read, or by deletion. There are two
measures of change: the drop in the target's log-probability in nats (of its log-odds, in a contrast), which every model
gives, and the Hellinger distance between next-token distributions, for replacement, if the model gives them. The value
is the area over the curve, the mean over the five shares. Equal scores are ordered by their effects, then at random,
anew in every draw. The replacements of a draw are the same for all explanations and targets, and others for each share:
the errors of the five points of a curve are then independent, and their mean has a smaller one.

For comprehensiveness, the members of a redundant group follow its best member in the ranking: a fact that is stated
twice is removed only if both mentions are. For sufficiency the ranking stays as it is, since one member is enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.evaluation import Result
from reagent.explanation import Group
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
from reagent.removal import Remover, require_removal

if TYPE_CHECKING:  # the config imports the metrics
    from reagent.metrics.config import EvaluationConfig

SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
BUDGET = DrawBudget(round_size=16, maximum=256)
NATS_BUDGET = DrawBudget(fixed=32)  # nats have no scale on which a standard error of 0.01 would be small


@dataclass(frozen=True)
class ReplacementMetric:
    """One of the two metrics; they share the texts that both need."""

    id: str
    summary: str
    removes_top: bool  # the most important units, or all others
    higher_is_better: bool
    needs: str = "probabilities"
    blind_to: str = "it sees the ranking only, not the size of the scores; the result depends on the removal"

    def check(self, model: Model, config: "EvaluationConfig") -> None:
        """Every model gives the drop in nats; not every model can mask units."""
        for removal in config.removals:
            require_removal(model, removal, f"metric {self.id!r}")

    def measure(self, context: EvaluationContext) -> list[list[Result]]:
        names = context.requested(REPLACEMENT_METRICS)
        return results_of(self.id, context.shared("replacement", lambda: measure_all_removals(context, names)))

    def estimate_passes(self, config: "EvaluationConfig", targets: int, explanations: int) -> float:
        replaces = "replace" in config.removals
        others = len(config.removals) - replaces
        draws = replaces * (config.draws or TYPICAL_DRAWS) * (explanations + 1)
        # Without replacements only random attributions and ties differ between draws.
        draws += others * ((config.draws or NATS_BUDGET.limit) + explanations)
        return targets * draws * len(SHARES)


REPLACEMENT_METRICS = {
    metric.id: metric
    for metric in (
        ReplacementMetric(
            "comprehensiveness",
            "how much changes when the most important units are removed",
            removes_top=True,
            higher_is_better=True,
        ),
        ReplacementMetric(
            "sufficiency",
            "how much changes when all but the most important units are removed",
            removes_top=False,
            higher_is_better=False,
        ),
    )
}


@dataclass(frozen=True)
class _Target:
    """One output unit, and the change that removing units before it causes."""

    context: EvaluationContext
    removal: str
    distributions: HasDistributions | None  # for replacement, if the model gives them
    t: int

    @cached_property
    def case(self) -> Case:
        return self.context.case.for_target(self.t)

    @cached_property
    def remover(self) -> Remover:
        return self.context.remover(self.removal, self.case)

    @cached_property
    def free(self) -> Ids:
        """The units before the target that can be removed."""
        return self.remover.free

    @cached_property
    def reference(self) -> Floats:
        """Log-probabilities after the unperturbed text; [positions, vocabulary]."""
        assert self.distributions is not None
        return np.asarray(self.distributions.after_tokens(self.case.ids[None], self.case.positions)[0])

    def removed(self, key: AttributionKey, draws: range) -> Mask:
        """Which free units are removed; [draws, shares, free units]."""
        context, t = self.context, self.t
        removes_top = REPLACEMENT_METRICS[key.metric].removes_top
        chance = context.rng("ties", t).random((draws.stop, context.units_before(t)))[draws.start :]
        groups: Sequence[Group] = ()
        if key.explanation is None:
            scores = context.random_scores(t, draws.stop)[draws.start :]
            effects = np.zeros(scores.shape)
        else:
            scores, effects = (
                np.broadcast_to(rows[key.explanation], chance.shape) for rows in (context.scores(t), context.effects(t))
            )
            groups = context.explanations[key.explanation][t].groups
        order = np.lexsort((chance[:, self.free], -effects[:, self.free], -scores[:, self.free]))
        if removes_top:
            order = keep_groups_together(order, groups, self.free)
        rank = np.argsort(order, axis=-1)  # [draws, free units]
        top = rank[:, None] < np.array([count_units(share, len(self.free)) for share in SHARES])[:, None]
        return np.asarray(top if removes_top else ~top)

    def changes(self, removed: Mask, draws: range) -> Floats:
        """The change in each measure; [..., draws, shares, free units] → [..., draws, shares, measures]."""
        rows = removed.reshape(-1, removed.shape[-1])
        if self.removal != "replace":
            changes = self._drop(self.remover.score(rows).value)
            return changes.reshape(*removed.shape[:-1], -1)
        table = self.context.proposals
        counts = [count_units(share, len(self.free)) for share in SHARES]
        own = [counts.index(count) for count in counts]  # shares of equally many units are measured once
        uniform = self.context.rng("replacement").random((draws.stop, len(SHARES), len(table.weights)))
        uniform = uniform[draws.start :, own]
        columns = table.choose(uniform[..., self.free].reshape(-1, len(self.free)), self.free)
        columns = np.broadcast_to(columns.reshape(removed.shape[-3:]), removed.shape).reshape(rows.shape)
        texts = table.apply(rows, columns, self.free)
        # Explanations often replace the same units: the model reads every text once.
        unique, inverse = np.unique(texts[:, : len(self.case.ids)], axis=0, return_inverse=True)
        return self._measure_texts(unique)[inverse.reshape(-1)].reshape(*removed.shape[:-1], -1)

    def _drop(self, values: Floats) -> Floats:
        return np.asarray(self.context.case.values[self.t] - values)

    def _measure_texts(self, texts: Ids) -> Floats:
        """The Hellinger distance, if there are distributions, and the drop in nats; [texts, measures]."""
        if self.distributions is None:
            return self._drop(self.case.score_outputs(self.context.model, texts).value)
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


def keep_groups_together(order: Ids, groups: Sequence[Group], free: Ids) -> Ids:
    """The ranking in which the members of each redundant group directly follow its best member; [draws, free units].

    >>> pair = Group(units=(3, 5), kind="redundant", effect=3.0, stderr=None, single=0.5)
    >>> keep_groups_together(np.array([[1, 0, 2]]), [pair], np.array([3, 4, 5])).tolist()
    [[1, 0, 2]]
    >>> keep_groups_together(np.array([[0, 1, 2]]), [pair], np.array([3, 4, 5])).tolist()
    [[0, 2, 1]]
    """
    redundant = [np.flatnonzero(np.isin(free, group.units)).tolist() for group in groups if group.kind == "redundant"]
    if not redundant:
        return order

    def rearrange(row: Sequence[int]) -> list[int]:
        placed: list[int] = []
        for unit in row:
            if unit not in placed:
                partners = {partner for members in redundant if unit in members for partner in members}
                placed += [unit, *(other for other in row if other in partners - {unit, *placed})]
        return placed

    return np.array([rearrange(row) for row in order.tolist()])


def measure_all_removals(context: EvaluationContext, names: Sequence[str]) -> list[list[Result]]:
    """The metrics `names` of REPLACEMENT_METRICS for every explanation, by each removal of the config."""
    by_removal = [measure_removal(context, names, removal) for removal in context.config.removals]
    return [[result for results in rows for result in results] for rows in zip(*by_removal, strict=True)]


def measure_name(measure: str, removal: str) -> str:
    """The name of a result; that of replacement is the plain one.

    >>> measure_name("nats", "replace"), measure_name("nats", "delete")
    ('nats', 'nats_delete')
    """
    return measure if removal == "replace" else f"{measure}_{removal}"


def measure_removal(context: EvaluationContext, names: Sequence[str], removal: str) -> list[list[Result]]:
    """The metrics `names` for every explanation, in each measure that the model and the removal allow."""
    distributions = find_distributions(context.model) if removal == "replace" else None
    measures = ("nats",) if distributions is None else ("hellinger", "nats")
    budget = (NATS_BUDGET if distributions is None else BUDGET).with_fixed(context.config.draws)
    targets = {t: _Target(context, removal, distributions, t) for t in context.targets}
    empty = [t for t, target in targets.items() if not len(target.free)]
    samples = make_samples(names, len(context.explanations), slice(len(SHARES)), empty)

    def compute(t: int, keys: Sequence[AttributionKey], draws: range) -> list[Floats]:
        passes = len(keys) * len(draws) * len(SHARES)
        if t in empty:
            changes = np.zeros((len(keys), len(draws), len(SHARES), len(measures)))
        else:
            changes = targets[t].changes(np.stack([targets[t].removed(key, draws) for key in keys]), draws)
        remaining = budget.remaining(context.targets, t, draws) * len(keys) * len(SHARES)
        context.progress.advance(passes, remaining - passes)
        return list(changes.swapaxes(2, 3).reshape(len(keys), len(draws), -1))  # columns: by measure, then by share

    sample(samples, context.targets, budget, compute)
    return [
        [
            summarize(
                samples,
                AttributionKey(name, e),
                measure_name(measure, removal),
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
