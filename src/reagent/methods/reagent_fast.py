"""ReAGent, preset `fast`: what the answer rests on, from probes shared by all output tokens.

The published method replaces random sets of tokens and stops when the tokens called important are sufficient. The fast
preset keeps both ideas, and adds the measurements that tell *how* the tokens matter:

1. Random removal. Each probe removes a large random share of the units; a sparse model (surrogate.py) is fitted to the
   drops in log-probability. This finds facts, also those that the prompt states several times, with a number of
   probes that grows with the number of causes and with log n. It is the estimator of ContextCite (Cohen-Wang et al.,
   2024) with mixed shares and a Bayesian fit. Units near the output are removed less often, because a text that no
   longer asks the question tells nothing about its facts.
2. Single effects. Each unit that may matter is removed alone from the unchanged text (necessity), the others in blocks
   (single_effects.py). The most promising ones are also replaced by other units of the text (substitution.py).
3. Groups. Sets of units that act together are removed jointly (redundancy.py).
4. Order and sufficiency. The order of importance is measured from both ends (importance_order.py). The search ends when
   the important units alone carry the answer: the published stopping condition. Otherwise it takes further probes that
   keep these units.

With at most twelve units the scores are Shapley values; all subsets are measured if the probes suffice.

If only answers are compared (`Response.saturates`), every unit is removed alone first, and the scores are these single
effects and what groups add. Larger removals soon lead to unrelated answers, which are all alike.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from reagent.case import Case, Floats, Ids, Mask
from reagent.errors import InputError
from reagent.explanation import Group, Sufficiency
from reagent.methods.base import Attribution, Progress, ProgressCallback, no_progress
from reagent.methods.exact import all_subsets
from reagent.methods.few_units import FEW_UNITS, PROBES_FOR_EDGES, edges, estimate_shapley_values, spread_subsets
from reagent.methods.importance_order import ImportanceOrder, OrderSearch
from reagent.methods.normalization import normalize
from reagent.methods.probe_set import ProbeSet
from reagent.methods.redundancy import (
    FoundGroup,
    RedundancySearch,
    Requests,
    find_complementary,
    find_question,
    inherit_groups,
)
from reagent.methods.single_effects import count_blocks, estimate_single_effects
from reagent.methods.surrogate import DENSE, FEWER_ITERATIONS, MAX_ITERATIONS, SPARSE, Surrogate
from reagent.models.base import Model, limit_probes
from reagent.removal import check_removal, make_remover, require_removal
from reagent.replacers.base import Proposals
from reagent.validation import check_integer

SHARES_KEPT = (0.5, 0.35, 0.2)  # of the units, in turn …
SHARES_KEPT_OF_ANSWERS = (0.9, 0.8, 0.7)  # … and if only answers are compared, which soon are unrelated
MOST_ALONE = 0.95  # of the probes, if only answers are compared and each unit is removed alone …
TIE_BREAK = 0.1  # … with this weight of the Shapley values
NEAR_UNITS, NEAR_KEPT = 5, 0.8  # units directly before the output, and how often a probe keeps each
RANDOM_PROBES = 48  # for up to MANY_UNITS units …
MORE_PROBES = 16  # … and this number more for each doubling
MANY_UNITS = 64
MOST_RANDOM = 0.4  # share of the probes that may be used …
LEAST_RANDOM = 0.3  # … and of a fixed number of probes
MAX_SINGLE = 16  # units removed alone
MAX_SUBSTITUTED, SUBSTITUTED_PART = 8, 6  # units that are also replaced, at most 1/6 of the remaining probes
SEARCH_PROBES = 52  # for groups and order of one target
FEWEST_SEARCH_PROBES = 4  # with this number or fewer there is no search
SHARED_SEARCH_PROBES = 96  # for groups and order of all targets, if there are several
FEW_PROBES = 128  # for at most twelve units
RESERVE = 16  # 1/16 of the probes is reserved for groups and sufficiency
ROUND = 32  # further probes if the test fails
KEPT_AGAIN = 0.5  # share of the other units that these keep
IMPORTANT_SHARE, FEWEST_IMPORTANT = 0.3, 5  # of the units, in the test of sufficiency: the published share
NEGLIGIBLE = 0.02  # a smaller score does not make a unit important
CEILING = 0.85  # quantile of the drops of the random probes: larger drops say nothing about kept units
SUFFICIENT_SHARE = 0.5  # of the answer that the important units must carry, or …
SUFFICIENT_RANK = 3  # … the target is among that many most likely tokens, the published condition


@dataclass(frozen=True)
class ReagentFast:
    """Random removal, single and joint effects, and a test of sufficiency."""

    probes: int | None = None  # exact number; by default, until the important units are sufficient
    max_probes: int = 256  # upper limit if `probes` is not given
    removal: str | None = (
        None  # delete, mask or replace, see removal.py; by default delete, or replace if a replacer is named
    )

    def __post_init__(self) -> None:
        check_removal(self.chosen_removal)
        for name in ("probes", "max_probes"):
            if getattr(self, name) is not None:
                check_integer("preset 'fast'", name, getattr(self, name), 1)

    @property
    def info(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "removal": self.chosen_removal,
            "scores": "measured order of importance; Shapley values for few units",
        }

    @property
    def chosen_removal(self) -> str:
        return "delete" if self.removal is None else self.removal

    @property
    def budget(self) -> int:
        """The maximum number of probes."""
        return self.probes or self.max_probes

    @property
    def replaces(self) -> bool:
        """Whether the method needs a replacer."""
        return self.chosen_removal == "replace"

    def check(self, model: Model) -> None:
        require_removal(model, self.chosen_removal, "preset 'fast'")

    def for_level(self, level: int, levels: int) -> "ReagentFast":
        """The same method with its share of the probes, for one of several levels."""
        if self.probes and self.probes < levels:
            raise InputError(f"{levels} levels need at least {levels} probes, got {self.probes}")
        return replace(self, probes=self.probes and max(1, (self.probes + level) // levels))

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same probes."""
        remover = make_remover(self.chosen_removal, model, case, proposals)
        probes = ProbeSet(remover, case, limit_probes(model, self.budget), rng.spawn(1)[0], on_progress)
        search = _Search(self, probes, rng)
        if len(probes.free):
            search.run()
        attribution = search.attribution()
        on_progress(Progress(probes.spent, probes.spent, "probes", partial=attribution))
        return attribution


@dataclass
class _Target:
    """What is known about one target."""

    row: int
    surrogate: Surrogate
    single: Floats  # effect of removing each free unit alone, [units before the target]
    single_stderr: Floats
    shapley: tuple[Floats, Floats]  # and standard error
    saturates: bool = False  # whether only answers are compared
    groups: list[FoundGroup] = field(default_factory=list)
    order: ImportanceOrder = field(default_factory=ImportanceOrder)
    sufficiency: Sufficiency | None = None

    @property
    def is_game(self) -> bool:
        """Whether the values are Shapley values."""
        return len(self.single) <= FEW_UNITS and not self.saturates

    @property
    def surplus(self) -> Floats:
        """What each unit gets of the effects of its groups beyond the single effects."""
        surplus = np.zeros(len(self.single))
        for group in self.groups:
            if group.kind == "redundant":
                surplus[list(group.units)] += max(group.surplus, 0.0) / len(group.units)
        return surplus

    @property
    def estimate(self) -> Floats:
        """The value of each unit without its groups, before the order is measured."""
        if self.saturates:
            return np.asarray(np.maximum(self.single, 0.0) + TIE_BREAK * np.maximum(self.shapley[0], 0.0))
        return np.asarray((np.maximum(self.shapley[0], 0.0) + np.maximum(self.single, 0.0)) / 2)

    @property
    def value(self) -> Floats:
        """The value of each unit: what its steps added, and the prior of units that were not ordered."""
        if self.is_game:
            return self.shapley[0]
        value, ordered = self.estimate + self.surplus, self.order.units
        if not ordered:
            return value
        steps = (np.array(self.order.gains) + value[ordered]) / 2
        steps = np.maximum(isotonic_regression(steps, increasing=False).x, 0.0)
        others = np.delete(value, ordered).max(initial=0.0)
        value = value * 0.99 * min(1.0, steps[-1] / others if others > 0 else 1.0)
        value[ordered] = steps * (1 - 1e-3 * np.arange(len(ordered)))  # equal steps keep their order
        return value


class _Search:
    """The stages of one explanation."""

    def __init__(self, method: ReagentFast, probes: ProbeSet, rng: np.random.Generator) -> None:
        self.method, self.probes, self.rng = method, probes, rng
        self.case = probes.case
        self.units = len(probes.free)
        self.targets: dict[int, _Target] = {}
        self.complete = False  # all subsets were measured
        self.blocks: list[Mask] = []  # of units that were not removed alone
        self.predicted: dict[int, tuple[Floats, Floats]] = {}  # single effects before any were measured, with errors
        self.first_single: int | None = None  # the number of probes before these were measured
        self.is_random = np.zeros(probes.budget, dtype=np.bool_)  # which probes removed units at random

    @property
    def rows(self) -> Sequence[int]:
        """Targets that are explained and have a unit before them that can be removed."""
        return [t for t in (*self.case.explained_rows, *self._whole) if self.probes.before[t]]

    @property
    def searched_rows(self) -> Sequence[int]:
        """Targets that get probes of their own: the answer as a whole, or all output tokens."""
        return [t for t in self.rows if t in self._whole] or self.rows

    @property
    def _token_rows(self) -> Sequence[int]:
        """Targets without probes of their own: the tokens of a whole answer."""
        return [t for t in self.rows if t not in self.searched_rows]

    @property
    def required_rows(self) -> Sequence[int]:
        """Targets whose important units must be sufficient."""
        return [t for t in self._whole or self.case.required_rows if t in self.targets]

    @property
    def _whole(self) -> tuple[int, ...]:
        """The answer as a whole, if it is a target."""
        return () if self.probes.whole is None else (self.probes.whole,)

    def run(self) -> None:
        if self.units <= FEW_UNITS:
            self._remove_of_few(min(self.probes.budget, self.method.probes or FEW_PROBES))
        elif self.probes.saturates and self.units * self.probes.draws <= MOST_ALONE * self.probes.budget:
            self._remove_each()
            self._remove_at_random(min(self._planned_random_probes(), self.probes.remaining))
        else:
            self._remove_at_random(self._planned_random_probes())
            self._remove_single()
        self._estimate(self.searched_rows)
        self._substitute()
        self._report()
        self._search_groups_and_order(self.searched_rows)
        while not self.complete and self.probes.remaining:
            failed = [t for t in self.required_rows if not self._passed(t)]
            if self.method.probes is None and not failed:
                break
            before = self.probes.spent
            left = self.probes.remaining
            if self.method.probes is not None:  # half of many for a further search
                self._remove_at_random(left if left < ROUND else left // 2)
            elif self.units <= FEW_UNITS:
                self._remove_at_random(min(ROUND, left))
            else:
                self._remove_others(failed, min(ROUND, left))
            if self.probes.spent == before:  # every subset was measured
                break
            self._estimate(self.searched_rows)
            self._search_groups_and_order(failed if self.method.probes is None else self.searched_rows)
            self._report()
        self._estimate_tokens()

    # --- probes ---

    def _remove_of_few(self, count: int) -> None:
        """Probes of a few units: all subsets, or the most telling ones and others far from them (few_units.py)."""
        if not self.probes.remover.is_random and 2**self.units <= count + 1:
            self.probes.measure(all_subsets(self.units))
            self.complete = True
            return
        if self.probes.saturates:  # a text of one unit has an unrelated answer
            self._remove_each()
        self.probes.measure(np.ones((1, self.units), dtype=np.bool_))
        if not self.probes.saturates and count >= PROBES_FOR_EDGES * self.units * self.probes.draws:
            self.probes.measure(edges(self.units), self.probes.draws)
        self._remove_at_random(count - count // RESERVE - self.probes.spent)

    def _remove_each(self) -> None:
        self.probes.measure(np.eye(self.units, dtype=np.bool_), self.probes.draws)

    def _planned_random_probes(self) -> int:
        doublings = max(0.0, np.log2(self.units / MANY_UNITS))
        planned = RANDOM_PROBES + round(MORE_PROBES * float(doublings))
        least = round(LEAST_RANDOM * (self.method.probes or 0))
        return max(1, least, min(planned, round(MOST_RANDOM * self.probes.budget)))

    def _remove_at_random(self, count: int) -> None:
        """Probes that keep a share of the units, most of them far from the output; of a few units, any share."""
        kept = np.resize(SHARES_KEPT_OF_ANSWERS if self.probes.saturates else SHARES_KEPT, count)[:, None] * np.ones(
            self.units
        )
        kept[:, self._near()] = NEAR_KEPT
        begin = len(self.probes.removed)
        self._measure_random(kept, count)
        self.is_random[begin : len(self.probes.removed)] = True

    def _measure_random(self, kept: Floats, count: int) -> None:
        """Exactly `count` new probes, if there are so many subsets; `kept` are the probabilities for many units."""
        goal = self.probes.spent + count
        for _ in range(20):  # a set that was measured before is drawn again
            missing = goal - self.probes.spent
            if missing <= 0:
                return
            if self.units <= FEW_UNITS and not self.probes.saturates:
                removed = spread_subsets(missing, self.probes.removed, self.rng)
            else:
                removed = self.rng.random((len(kept), self.units))[:missing] >= kept[:missing]
            self.probes.measure(removed)
        if self.units <= FEW_UNITS:  # the last subsets are hardly ever drawn
            left = [row for row in all_subsets(self.units) if not self.probes.is_measured(row)]
            self.probes.measure(np.array(left).reshape(-1, self.units)[: goal - self.probes.spent])

    def _near(self, target: _Target | None = None) -> Ids:
        """The last units before a target; without one, the last units of the prompt and all output units."""
        prompt = int(np.searchsorted(self.probes.free, len(self.case.input)))
        last = prompt if target is None else len(target.single)
        return np.arange(max(0, last - min(NEAR_UNITS, prompt // 6)), self.units if target is None else last)

    def _remove_single(self) -> None:
        """Remove the units that may matter alone, and the others in blocks."""
        limit = self.probes.remaining if self.method.probes is None else round(0.7 * self.probes.remaining)
        limit = max(1, min(MAX_SINGLE, limit // self.probes.draws - count_blocks(self.units)))
        units = np.arange(self.units)
        if self.units > limit:
            self._estimate(self.searched_rows)
            values = (np.add(*self.targets[t].shapley) for t in self.searched_rows)
            interest = self._largest(value / max(value.max(), 1e-9) for value in values)
            interest[self._near()] += 0.5
            units = np.argsort(-interest, kind="stable")[:limit]
            self.predicted = {t: (target.single, target.single_stderr) for t, target in self.targets.items()}
            self.first_single = len(self.probes.removed)
        others = self.rng.permutation(np.setdiff1d(np.arange(self.units), units))
        blocks = np.array_split(others, count_blocks(len(others))) if len(others) else []
        self.blocks = [self.probes.set_of(block.tolist()) for block in blocks]
        singles = [self.probes.set_of([int(unit)]) for unit in units]
        self.probes.measure(np.array([*singles, *self.blocks]), self.probes.draws)

    def _substitute(self) -> None:
        """Replace the most promising units by others of the text; with random replacement all probes do that."""
        if self.units <= FEW_UNITS or self.probes.remover.is_random:
            return
        values = (self.targets[t].estimate / max(self.targets[t].estimate.max(), 1e-9) for t in self.searched_rows)
        order = np.argsort(-self._largest(values), kind="stable")
        limit = min(MAX_SUBSTITUTED, self.probes.remaining // SUBSTITUTED_PART)
        self.probes.substitute(order[:limit].tolist())

    def _largest(self, rows: Iterable[Floats]) -> Floats:
        """The largest value of each unit over rows that may end before the last units."""
        largest = np.zeros(self.units)
        for row in rows:
            largest[: len(row)] = np.maximum(largest[: len(row)], row)
        return largest

    def _remove_others(self, rows: Sequence[int], count: int) -> None:
        """Probes that keep the important units of a target and remove a random part of the others."""
        share = -(-count // len(rows))
        for t in rows:
            target = self.targets[t]
            kept = np.full((share, self.units), KEPT_AGAIN)
            kept[:, self._important(target)] = 1.0
            kept[:, self.probes.before[t] :] = 1.0
            self._measure_random(kept, min(share, self.probes.remaining))

    # --- estimates ---

    def _estimate(self, rows: Sequence[int]) -> None:
        """Fit the surrogate of each of these targets to all probes."""
        for t in rows:
            self.probes.report()  # a fit takes a while, and a caller may want to stop
            removed, drops = self.probes.known(t)
            known = self.targets.get(t)
            few, start = self.units <= FEW_UNITS, None if known is None else known.surrogate
            iterations = MAX_ITERATIONS if t in self.searched_rows else FEWER_ITERATIONS
            surrogate = Surrogate.fit(removed, drops, DENSE if few else SPARSE, start, iterations)
            fills_game = few and (self.complete or not self.probes.saturates)
            shapley = estimate_shapley_values(self.probes, t, surrogate) if fills_game else surrogate.shapley_values()
            predicted = self.predicted.get(t) or self._predict_single(t, surrogate)
            single, stderr = estimate_single_effects(self.probes, t, self.blocks, predicted)
            target = _Target(t, surrogate, single, stderr, shapley, self.probes.saturates)
            if known is not None:
                target.groups, target.order, target.sufficiency = known.groups, known.order, known.sufficiency
            self.targets[t] = target

    def _predict_single(self, t: int, surrogate: Surrogate) -> tuple[Floats, Floats]:
        """The single effects that the surrogate predicts from the probes before these effects were measured."""
        removed, drops = self.probes.known(t)
        if self.first_single is not None:
            known = slice(1 + self.first_single)  # after the unchanged text
            surrogate = surrogate.with_probes(removed[known], drops[known])
        return surrogate.effects(np.eye(removed.shape[1], dtype=np.bool_))

    def _estimate_tokens(self) -> None:
        """Estimate the effects on the tokens of a whole answer from all probes, which were made for the answer."""
        self._estimate(self._token_rows)
        for whole in (self.targets[t] for t in self._whole if t in self.targets):
            for t in self._token_rows:
                self.targets[t].groups = inherit_groups(self.probes, t, self.targets[t].single, whole.groups)

    # --- groups, order, sufficiency ---

    def _search_groups_and_order(self, rows: Sequence[int]) -> None:
        """Run the searches of all targets side by side, so that their probes are scored together."""
        if not rows:
            return
        allowance = self.probes.remaining
        if self.method.probes is None:
            shared = max(SHARED_SEARCH_PROBES, (FEWEST_SEARCH_PROBES + 1) * len(rows))
            allowance = min(allowance, shared if len(rows) > 1 else SEARCH_PROBES)
        searches = {t: self._search_target(self.targets[t], allowance // len(rows)) for t in rows}
        while searches:
            wanted: list[Mask] = []
            for t, requests in list(searches.items()):
                try:
                    wanted += next(requests)
                except StopIteration:
                    del searches[t]
            if wanted:
                self.probes.measure(np.array(wanted), self.probes.draws)

    def _search_target(self, target: _Target, allowance: int) -> Requests:
        if self.complete or allowance > FEWEST_SEARCH_PROBES:
            target.groups, target.order = [], ImportanceOrder()
            for wanted in self._find_groups(target, allowance):
                allowance -= len(wanted) * self.probes.draws
                yield wanted
            if len(target.single) > FEW_UNITS and not self.probes.saturates:  # kept units alone say nothing
                search = OrderSearch(
                    self.probes,
                    target.row,
                    target.surrogate,
                    target.single,
                    self.probes.substituted[: len(target.single), target.row],
                    target.estimate,
                    target.surplus,
                    target.groups,
                    self._near(target),
                    self._ceiling(target.row),
                )
                yield from search.run(target.order, max(1, allowance - FEWEST_SEARCH_PROBES))
        yield from self._test_sufficiency(target)

    def _find_groups(self, target: _Target, allowance: int) -> Requests:
        search = RedundancySearch(
            self.probes,
            target.row,
            target.single,
            target.shapley,
            self._near(target),
            find_question(self.case, self.probes.free),
            target.surrogate.priors,
        )
        complementary = find_complementary(self.probes, target.row, target.single, target.groups)
        for wanted in chain(search.run(target.groups, allowance), complementary):
            yield [row for row in wanted if not self.probes.is_measured(row)]

    def _important(self, target: _Target) -> list[int]:
        """The units that the test of sufficiency keeps, the most important first."""
        value = target.value
        limit = max(FEWEST_IMPORTANT, round(IMPORTANT_SHARE * len(value)))
        order = np.argsort(-value, kind="stable")[:limit]
        total = np.maximum(value, 0.0).sum()
        return [int(i) for i in order if total > 0 and value[i] > NEGLIGIBLE * total]

    def _test_sufficiency(self, target: _Target) -> Requests:
        units = self._important(target)
        only, nothing = self.probes.all_but(units, target.row), self.probes.all_but((), target.row)
        yield [only, nothing]
        kept, total = self.probes.result(only, target.row), self.probes.result(nothing, target.row)
        if kept is None or total is None:
            return
        rank = kept.rank if only.any() else None
        passed = total.drop <= 0 or kept.drop <= SUFFICIENT_SHARE * min(total.drop, self._ceiling(target.row))
        passed = passed or (rank is not None and rank < SUFFICIENT_RANK)
        stderr = None if not np.isfinite(kept.stderr) else kept.stderr
        positions = tuple(sorted(int(self.probes.free[i]) for i in units))
        target.sufficiency = Sufficiency(positions, kept.drop, stderr, total.drop, rank, bool(passed))

    def _ceiling(self, t: int) -> float:
        """The drop of a text that says little about a target: the 85 % quantile of the drops of the random probes."""
        random = self.is_random[: len(self.probes.drops)]
        return float(np.quantile(self.probes.drops[random if random.any() else slice(None), t], CEILING))

    def _passed(self, t: int) -> bool:
        sufficiency = self.targets[t].sufficiency
        return sufficiency is not None and sufficiency.passed

    # --- the result ---

    def _report(self) -> None:
        self.probes.on_progress(Progress(self.probes.spent, self.probes.budget, "probes", partial=self.attribution()))

    def attribution(self) -> Attribution:
        answer = self._attribution(self._whole) if self._whole else None
        return replace(self._attribution(range(len(self.case.output))), answer=answer)

    def _attribution(self, rows: Sequence[int]) -> Attribution:
        case = self.case
        values = [self._row(t, "value") for t in rows]
        normalized = [normalize(value, case.protected) for value in values]
        spent = self.probes.spent
        return Attribution(
            scores=[scores for scores, _ in normalized],
            effects=[self._row(t, "single") for t in rows],
            stderr=[self._row(t, "single_stderr") for t in rows],
            effect_unit="nats",
            shapley_values=values if 0 < self.units <= FEW_UNITS and not self.probes.saturates else None,
            groups=[self._groups(t) for t in rows],
            sufficiency=[self.targets[t].sufficiency if t in self.targets else None for t in rows],
            steps=[spent] * len(rows),
            stopped=[self._stopped(t, flat) for t, (_, flat) in zip(rows, normalized, strict=True)],
            runs=[],
            probes=spent,
            stopping_tests=0,
        )

    def _row(self, t: int, name: str) -> Floats:
        """A property of a target as a row over all units before it."""
        row = np.zeros(len(self.case.input) + (0 if t in self._whole else t))
        if t in self.targets:
            values = getattr(self.targets[t], name)
            row[self.probes.free[: len(values)]] = values
        return row

    def _groups(self, t: int) -> list[Group]:
        free = self.probes.free
        return [
            Group(
                units=tuple(sorted(int(free[i]) for i in group.units)),
                kind=group.kind,  # type: ignore[arg-type]
                effect=group.effect,
                stderr=group.stderr if np.isfinite(group.stderr) else None,
                single=group.single,
            )
            for group in (self.targets[t].groups if t in self.targets else ())
        ]

    def _stopped(self, t: int, flat: bool) -> str:
        if t in self.rows and t not in self.targets:  # the tokens of a whole answer are estimated last
            return "unsettled"
        if flat:
            return "flat"
        sufficiency = self.targets[t].sufficiency if t in self.targets else None
        if sufficiency is not None and not sufficiency.passed:
            return "insufficient"
        if self.method.probes:
            return "fixed"
        return "unsettled" if sufficiency is None and t in self.required_rows else "settled"
