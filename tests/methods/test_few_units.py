"""Shapley values of a few units from some of their subsets."""

import numpy as np
import pytest

from reagent.methods.exact import all_subsets, shapley_values
from reagent.methods.few_units import FEW_UNITS, edges, estimate_shapley_values, spread_subsets
from reagent.methods.surrogate import DENSE, Surrogate


class Measured:
    """The part of a ProbeSet that the estimate reads, with an exactly known game."""

    def __init__(self, game: np.ndarray, removed: np.ndarray, budget: int | None = None, is_random: bool = False):
        units = removed.shape[1]
        self.before, self.budget = np.array([units]), len(removed) if budget is None else budget
        self.remover = type("Remover", (), {"is_random": is_random})()
        self.removed = np.concatenate([np.zeros((1, units), np.bool_), removed])
        self.drops = game[-1] - game[~self.removed @ (1 << np.arange(units))]

    def known(self, _: int) -> tuple[np.ndarray, np.ndarray]:
        return self.removed, self.drops

    def measured_drops(self, _: int) -> dict[bytes, float]:
        return {row.tobytes(): drop for row, drop in zip(self.removed, self.drops, strict=True)}


def game_of(units: int) -> np.ndarray:
    """Two redundant units, three that are needed together, and noise in all orders."""
    kept = all_subsets(units)
    noise = np.random.default_rng(3).standard_normal(len(kept))
    return 3.0 * (kept[:, 0] | kept[:, 1]) + 2.0 * kept[:, 2:5].all(1) + 0.3 * noise


def estimate(measured: Measured) -> tuple[np.ndarray, np.ndarray]:
    surrogate = Surrogate.fit(measured.removed, measured.drops, DENSE)
    return estimate_shapley_values(measured, 0, surrogate)  # type: ignore[arg-type]


def test_edges_are_the_subsets_of_one_unit() -> None:
    assert edges(3).sum(1).tolist() == [1, 1, 1, 2, 2, 2]


def nothing(units: int) -> np.ndarray:
    return np.empty((0, units), dtype=np.bool_)


@pytest.mark.parametrize(("units", "count"), [(1, 5), (2, 7), (8, 21), (FEW_UNITS, 40)])
def test_subsets_are_drawn_with_their_complements(units: int, count: int) -> None:
    drawn = spread_subsets(count, nothing(units), np.random.default_rng(0))
    assert drawn.shape == (count, units)
    pairs = drawn[: count // 2 * 2].reshape(-1, 2, units)
    assert (pairs[:, 0] == ~pairs[:, 1]).all()


def test_subsets_are_spread() -> None:
    """Units are removed independently of each other, more nearly than in independent draws, and none comes twice."""
    rng = np.random.default_rng(0)
    drawn = spread_subsets(64, nothing(10), rng)
    assert len(np.unique(drawn, axis=0)) == 64

    def dependence(removed: np.ndarray) -> float:
        correlations = np.corrcoef(removed.T) - np.eye(10)
        return float(np.abs(correlations).mean())

    independent = np.mean([dependence(rng.random((64, 10)) < 0.5) for _ in range(20)])
    assert dependence(drawn) < 0.6 * independent


def test_subsets_keep_away_from_what_is_measured() -> None:
    measured = spread_subsets(32, nothing(6), np.random.default_rng(0))
    drawn = spread_subsets(20, measured, np.random.default_rng(1))
    assert len(np.unique(np.concatenate([measured, drawn]), axis=0)) == 52


def test_all_subsets_give_exact_values_without_error() -> None:
    game = game_of(6)
    values, errors = estimate(Measured(game, all_subsets(6)[1:]))
    assert values == pytest.approx(shapley_values(game))
    assert not errors.any()


def test_measured_subsets_count_as_measured() -> None:
    """The estimate is closer than that of the surrogate alone, which smooths what was measured."""
    units, game = 9, game_of(9)
    truth, gains = shapley_values(game), []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        removed = np.unique(np.concatenate([edges(units), spread_subsets(140, edges(units), rng)]), axis=0)
        measured = Measured(game, removed)
        surrogate = Surrogate.fit(measured.removed, measured.drops, DENSE)
        filled, errors = estimate_shapley_values(measured, 0, surrogate)  # type: ignore[arg-type]
        assert (errors > 0).all()
        alone = surrogate.shapley_values()[0]
        gains.append(np.abs(alone - truth).mean() - np.abs(filled - truth).mean())
    assert np.mean(gains) > 0


@pytest.mark.parametrize("options", [{"is_random": True}, {"budget": 20}])
def test_random_replacements_and_few_probes_leave_it_to_the_surrogate(options: dict[str, int]) -> None:
    removed = spread_subsets(60, nothing(8), np.random.default_rng(0))
    measured = Measured(game_of(8), removed, **options)  # type: ignore[arg-type]
    surrogate = Surrogate.fit(measured.removed, measured.drops, DENSE)
    assert estimate(measured)[0] == pytest.approx(surrogate.shapley_values()[0])
