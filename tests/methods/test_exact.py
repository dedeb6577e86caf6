"""Exact Shapley values: equal to the definition, with planted redundancy and complementarity."""

from dataclasses import replace
from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest

import tiny
from methods.problem import make_problem
from reagent.case import Floats, Ids
from reagent.errors import CapabilityError, InputError
from reagent.methods.base import Progress
from reagent.methods.exact import (
    MAX_UNITS,
    Exact,
    all_subsets,
    games_of_targets,
    interaction_index,
    moebius,
    shapley_values,
)
from reagent.methods.shapley import Shapley
from reagent.models.huggingface import HuggingFaceModel
from reagent.testing import ScriptedModel, all_of, any_of, mentions
from reagent.testing.planted import WORDS

TEXT = "The river runs through"


def games(n: int, targets: int = 2) -> Floats:
    return np.random.default_rng(n).normal(size=(2**n, targets))


def index(units: tuple[int, ...]) -> int:
    return sum(1 << i for i in units)


# --- the mathematics ---


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_shapley_values_are_the_mean_over_all_orders(n: int) -> None:
    game = games(n)
    expected = np.zeros((n, 2))
    for order in permutations(range(n)):
        for k, unit in enumerate(order):
            expected[unit] += game[index(order[: k + 1])] - game[index(order[:k])]
    orders = max(1, len(list(permutations(range(n)))))
    np.testing.assert_allclose(shapley_values(game), expected / orders, atol=1e-12)
    np.testing.assert_allclose(shapley_values(game).sum(0), game[-1] - game[0], atol=1e-12)


def test_interactions_are_the_weighted_mean_of_second_differences() -> None:
    n, game = 5, games(5)
    result = interaction_index(game)
    for i, j in combinations(range(n), 2):
        others = [k for k in range(n) if k not in (i, j)]
        expected = np.zeros(2)
        for size in range(n - 1):
            for rest in combinations(others, size):
                base = index(rest)
                joint = game[base | 1 << i | 1 << j] - game[base | 1 << i] - game[base | 1 << j] + game[base]
                expected += joint / ((n - 1) * comb(n - 2, size))
        np.testing.assert_allclose(result[i, j], expected, atol=1e-12)
        np.testing.assert_array_equal(result[i, j], result[j, i])
    assert not result[np.arange(n), np.arange(n)].any()


def test_moebius_coefficients_add_up_to_the_values() -> None:
    game = games(4)
    members = all_subsets(4)
    coefficients = moebius(game)
    for value, subset in zip(game, members, strict=True):
        inside = ~(members & ~subset).any(1)
        np.testing.assert_allclose(coefficients[inside].sum(0), value, atol=1e-12)


def test_three_units_of_which_two_are_enough() -> None:
    game = (all_subsets(3).sum(1) >= 2).astype(float)
    assert moebius(game).tolist() == [0, 0, 0, 1, 0, 1, 1, -2]
    np.testing.assert_allclose(shapley_values(game), 1 / 3)


def test_a_game_has_a_power_of_two_of_values() -> None:
    with pytest.raises(InputError, match=r"2\^n values.*got 3"):
        shapley_values(np.zeros(3))


# --- the method ---


def log_odds_model(rule: str) -> ScriptedModel:
    """Says "w0" because of the words w5 and w6, wherever they are: either, both, or exactly one of them."""

    def logits(context: Ids) -> Floats:
        a, b = ((context == word).any(-1) for word in (5, 6))
        table = np.zeros((len(context), len(WORDS)))
        table[:, 0] = 4.0 * {"or": a | b, "and": a & b, "xor": a ^ b}[rule]
        return table

    return ScriptedModel(WORDS, logits)


@pytest.mark.parametrize(("rule", "sign"), [("or", -1), ("and", 1), ("xor", -2)])
def test_planted_interactions_are_found_by_deletion(rule: str, sign: int) -> None:
    problem = make_problem(log_odds_model(rule), "w1 w5 w2 w6 w3", " w0")
    free, game = Exact().measure_game(*problem, np.random.default_rng(0))
    assert free.tolist() == [0, 1, 2, 3, 4]
    kept = all_subsets(5)
    present = {"or": kept[:, 1] | kept[:, 3], "and": kept[:, 1] & kept[:, 3], "xor": kept[:, 1] ^ kept[:, 3]}[rule]
    strength = game[present, 0].mean() - game[~present, 0].mean()
    np.testing.assert_allclose(game[:, 0] - game[~present, 0].mean(), strength * present, atol=1e-9)
    interactions = interaction_index(game[:, 0])
    assert interactions[1, 3] == pytest.approx(sign * strength)
    interactions[1, 3] = interactions[3, 1] = 0
    np.testing.assert_allclose(interactions, 0, atol=1e-9)


def test_a_fact_that_is_stated_twice_gets_the_scores_but_no_single_effect() -> None:
    problem = make_problem(mentions("w5"), "w1 w5 w2 w5", " w0")
    result = problem.run(Exact())
    np.testing.assert_allclose(result.scores[0], [0, 0.5, 0, 0.5], atol=1e-9)
    np.testing.assert_allclose(result.effects[0], 0, atol=1e-9)
    assert result.stderr is None
    assert (result.probes, result.effect_unit, result.stopped) == (15, "nats", ["fixed"])


@pytest.mark.parametrize("model", [any_of({1: 2, 3: 4}), all_of({1: 2, 3: 4})], ids=["or", "and"])
def test_replacement_finds_the_same_causes(model: ScriptedModel) -> None:
    result = make_problem(model, "w1 w2 w3 w4 w5", " w0").run(Exact(removal="replace", draws=3))
    np.testing.assert_allclose(result.scores[0], [0, 0.5, 0, 0.5, 0], atol=1e-9)
    np.testing.assert_allclose(result.stderr[0], 0, atol=1e-9)
    assert result.probes == 3 * 31


@pytest.mark.parametrize("removal", ["delete", "mask", "replace"])
def test_every_target_has_the_shapley_values_of_its_own_game(tiny_model: HuggingFaceModel, removal: str) -> None:
    problem = make_problem(tiny_model, "The river runs", max_new_tokens=3)
    method = Exact(removal=removal, draws=2)
    before = tiny_model.meter.forward_passes
    result = problem.run(method)
    assert tiny_model.meter.forward_passes - before == result.probes
    free, game = method.measure_game(*problem, np.random.default_rng(0))
    case = problem.case
    for t, own in enumerate(games_of_targets(game, case, free)):
        units = free[free < len(case.input) + t]
        assert len(own) == 2 ** len(units)
        values = np.zeros(len(case.input) + t)
        values[units] = np.maximum(shapley_values(own), 0)
        if values.any():
            np.testing.assert_allclose(result.scores[t], values / values.sum(), atol=1e-6)
        for i, unit in enumerate(units):
            assert result.effects[t][unit] == pytest.approx(own[-1] - own[-1 - (1 << i)], abs=1e-6)
        assert own[-1] == pytest.approx(case.values[t])


def test_sampled_shapley_values_approach_the_exact_ones(tiny_model: HuggingFaceModel) -> None:
    problem = make_problem(tiny_model, TEXT, " the")
    free, game = Exact().measure_game(*problem, np.random.default_rng(0))
    sampled = problem.run(Shapley(64, removal="delete"))
    errors = (sampled.effects[0][free] - shapley_values(game[:, 0])) / sampled.stderr[0][free]
    assert np.abs(errors).max() < 4


def test_words_phrases_contrasts_and_protected_tokens() -> None:
    model = HuggingFaceModel(tiny.network_of("opt"), tiny.tokenizer_of("opt"))
    tokens = len(make_problem(model, TEXT).case.input)
    for problem in (
        make_problem(model, TEXT, max_new_tokens=2, groups=[i // 3 for i in range(tokens)]),
        make_problem(model, "The river", " and the", phrase=(0, 8)),
        make_problem(model, "The river", " and the", contrast=" and play"),
    ):
        result = problem.run(Exact())
        assert problem.case.input[0].protected
        assert all(row[0] == 0 for row in result.scores)
        assert all(row.sum() == pytest.approx(1) for row in result.scores)


def test_too_many_units_are_an_error_before_any_pass() -> None:
    problem = make_problem(mentions("w5"), " ".join(["w5"] * (MAX_UNITS + 1)), " w0 w1")
    before = problem.model.meter.forward_passes
    with pytest.raises(InputError, match=rf"at most {MAX_UNITS} units .* has {MAX_UNITS + 2}: use coarser units"):
        problem.run(Exact())
    assert problem.model.meter.forward_passes == before


def test_protected_units_do_not_count() -> None:
    problem = make_problem(mentions("w5"), " ".join(["w5"] * (MAX_UNITS + 1)), " w0")
    case = problem.case
    kept = tuple(replace(unit, protected=i > 2) for i, unit in enumerate(case.input))
    result = problem._replace(case=replace(case, input=kept)).run(Exact())
    assert result.probes == 7


def test_masks_need_a_model_that_takes_them() -> None:
    with pytest.raises(CapabilityError, match="method 'exact' with removal 'mask'"):
        Exact(removal="mask").check(mentions("w5"))


def test_progress_ends_at_its_total(tiny_model: HuggingFaceModel) -> None:
    for method in (Exact(), Exact(removal="replace", draws=2)):
        progress: list[Progress] = []
        make_problem(tiny_model, "The river runs", " the").run(method, on_progress=progress.append)
        assert progress[-1].done == progress[-1].total


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"removal": "drop"}, "unknown removal 'drop'"),
        ({"draws": 0}, "`draws` of method 'exact'"),
        ({"scores": "max"}, "'max'"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Exact(**options)
