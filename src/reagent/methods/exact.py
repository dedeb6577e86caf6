"""Exact Shapley values and interactions: every subset of the units is scored.

The players are the units before a target that can be removed. The value of a subset is the log-probability of the
target when only these units (and the units that are never removed) are kept. With n units there are 2^n subsets, so
that n is limited; for short prompts or coarse units the result is the truth that sampled methods approximate.

A game is an array of 2^n values. Bit i of an index tells whether unit i is kept: `game[0]` is the value when all are
removed, `game[-1]` the value of the whole text. Further axes, such as targets, are carried along.

- The Möbius coefficient of a set is the part of the value that its units only have together.
- The Shapley value of a unit is its share in all sets: each coefficient is divided equally among the units of its set.
- The Shapley interaction index of two units (Grabisch and Roubens, 1999) is their joint share beyond the single ones:
  negative for redundant units (either is enough), positive for complementary ones (both are needed).
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.errors import InputError
from reagent.methods.base import Attribution, ProgressCallback, no_progress
from reagent.methods.normalization import check_normalization
from reagent.methods.probing import ProbeRunner, make_attribution, mean_and_stderr, rows_per_target, stratified_uniform
from reagent.models.base import Model
from reagent.removal import Remover, check_removal, make_remover, require_removal
from reagent.replacers.base import Proposals
from reagent.validation import check_integer

MAX_UNITS = 12  # 4,096 subsets


@dataclass(frozen=True)
class Exact:
    """Scores every subset of the units."""

    removal: str = "delete"  # delete, mask or replace, see removal.py
    draws: int = 4  # fixed draws of replacements that are averaged; only used by replace
    scores: str = "positive"  # normalization of the Shapley values, see normalization.py

    def __post_init__(self) -> None:
        check_removal(self.removal)
        check_integer("method 'exact'", "draws", self.draws, 1)
        check_normalization(self.scores)

    @property
    def info(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def replaces(self) -> bool:
        """Whether the method needs a replacer."""
        return self.removal == "replace"

    def check(self, model: Model) -> None:
        require_removal(model, self.removal, "method 'exact'")

    def attribute(
        self,
        model: Model,
        case: Case,
        proposals: Proposals,
        rng: np.random.Generator,
        on_progress: ProgressCallback = no_progress,
    ) -> Attribution:
        """Explain all output units with the same subsets: 2^units − 1 passes, times `draws` for replacements.

        `scores` come from the Shapley values, and `effects` are those of removing each unit alone.
        """
        remover = make_remover(self.removal, model, case, proposals)
        runner = ProbeRunner(remover, case, on_progress)
        games = self._measure(runner, rng)  # [draws, subsets, targets]
        free, last = remover.free, games.shape[1] - 1
        alone = last ^ (1 << np.arange(len(free)))  # the index of each subset that lacks one unit
        effects, errors = mean_and_stderr(games[:, [last]] - games[:, alone])
        values = np.stack(
            [_padded(shapley_values(game), len(free)) for game in games_of_targets(games.mean(0), case, free)], axis=1
        )
        attribution = make_attribution(
            case, self.scores, rows_per_target(case, free, values), None, len(games), runner.done
        )
        return replace(
            attribution,
            effects=rows_per_target(case, free, effects),
            stderr=None if errors is None else rows_per_target(case, free, errors),
            shapley_values=attribution.effects,
        )

    def measure_game(
        self, model: Model, case: Case, proposals: Proposals, rng: np.random.Generator
    ) -> tuple[Ids, Floats]:
        """The units that can be removed, and the value of every subset of them for each target, [subsets, targets].

        See `games_of_targets` for the game of one target.
        """
        remover = make_remover(self.removal, model, case, proposals)
        return remover.free, self._measure(ProbeRunner(remover, case, no_progress), rng).mean(0)

    def _measure(self, runner: ProbeRunner, rng: np.random.Generator) -> Floats:
        """The value of every subset in each draw, [draws, subsets, targets]."""
        _check_size(runner.remover, runner.case)
        n, draws = len(runner.remover.free), self.draws if runner.remover.is_random else 1
        removed = ~all_subsets(n)[:-1]  # the value of the whole text is known
        runner.total = draws * len(removed)
        drops = [runner.effects(removed, uniform) for uniform in stratified_uniform(draws, n, rng)]
        whole = np.zeros((draws, 1, len(runner.case.output)))
        return np.asarray(runner.case.values - np.concatenate([np.stack(drops), whole], axis=1))


def games_of_targets(game: Floats, case: Case, free: Ids) -> list[Floats]:
    """For each target the game of the units before it, [2^units before it]; `game` is [subsets, targets].

    Units after a target cannot change it; the subsets that keep all of them are taken.
    """
    before = np.searchsorted(free, len(case.input) + np.arange(len(case.output)))
    return [game[len(game) - (1 << int(n)) :, t] for t, n in enumerate(before)]


def all_subsets(n: int) -> Mask:
    """Every subset of n units, [2^n, n]; bit i of the index of a subset tells whether it has unit i.

    >>> all_subsets(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    return np.asarray((np.arange(1 << n)[:, None] >> np.arange(n)) & 1, dtype=np.bool_)


def moebius(values: Floats) -> Floats:
    """The Möbius coefficient of every subset, [2^n, …], from the values of all subsets.

    The value of a subset is the sum of the coefficients of its subsets.

    >>> OR, AND, XOR = (np.array(game, dtype=float) for game in ([0, 1, 1, 1], [0, 0, 0, 1], [0, 1, 1, 0]))
    >>> [moebius(game).tolist() for game in (OR, AND, XOR)]
    [[0.0, 1.0, 1.0, -1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, -2.0]]
    """
    coefficients, subsets = np.array(values, dtype=np.float64), np.arange(len(values))
    for i in range(_size(values)):
        has = subsets[(subsets >> i) & 1 == 1]
        coefficients[has] -= coefficients[has ^ (1 << i)]
    return coefficients


def shapley_values(values: Floats) -> Floats:
    """The Shapley value of every unit, [n, …], from the values of all subsets.

    >>> [shapley_values(np.array(game)).tolist() for game in ([0, 1, 1, 1], [0, 0, 0, 1], [0, 1, 1, 0])]
    [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]
    """
    members = all_subsets(_size(values))  # [subsets, n]
    shares = members / np.maximum(members.sum(1, keepdims=True), 1)
    return np.asarray(np.tensordot(shares, moebius(values), (0, 0)))


def interaction_index(values: Floats) -> Floats:
    """The Shapley interaction index of every pair of units, [n, n, …], symmetric, with zeros on the diagonal.

    >>> [float(interaction_index(np.array(game))[0, 1]) for game in ([0, 1, 1, 1], [0, 0, 0, 1], [0, 1, 1, 0])]
    [-1.0, 1.0, -2.0]
    """
    members = all_subsets(_size(values)).astype(np.float64)
    weights = members[:, :, None] * members[:, None] / np.maximum(members.sum(1) - 1, 1)[:, None, None]
    weights[:, np.arange(members.shape[1]), np.arange(members.shape[1])] = 0.0
    return np.asarray(np.tensordot(weights, moebius(values), (0, 0)))


def _size(values: Floats) -> int:
    """The number of units of a game of 2^n values."""
    n = len(values).bit_length() - 1
    if len(values) != 1 << n:
        raise InputError(f"a game of n units has 2^n values, one for each subset: got {len(values)}")
    return n


def _padded(values: Floats, size: int) -> Floats:
    return np.concatenate([values, np.zeros(size - len(values))])


def _check_size(remover: Remover, case: Case) -> None:
    n = len(remover.free)
    if n > MAX_UNITS:
        fewer = ", or fewer output tokens" if len(case.output) > 1 else ""
        raise InputError(
            f"method 'exact' scores every subset of at most {MAX_UNITS} units before the last target, and this text "
            f"has {n}: use coarser units (units='sentence'), a shorter prompt{fewer}, or method 'shapley'"
        )
