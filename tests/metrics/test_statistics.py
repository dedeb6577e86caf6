"""Tests, intervals and effect sizes, against numbers computed by hand or by scipy."""

import json

import numpy as np
import pytest
from scipy import stats

from reagent.errors import InputError
from reagent.evaluation import Evaluation, Result
from reagent.metrics.statistics import (
    adjust,
    adjust_comparisons,
    against_random,
    bootstrap,
    cohens_d,
    compare,
    log_ratio,
    proportion,
    rank_biserial,
    wilcoxon,
)


def result(value: float, random: float, metric: str = "soft_nc", measure: str = "hellinger", higher: bool = True):
    return Result(metric, measure, higher, value, 0.01, random, 0.01, draws=8, random_draws=8)


def evaluation(*results: Result) -> Evaluation:
    said = {"method": {"id": "m"}, "completion": "x"}
    return Evaluation(
        explanation=said,
        model={"id": "tiny"},
        level="token",
        targets=(0,),
        results=results,
        skipped=(),
        settings={},
        cost={"forward_passes": 1, "seconds": 0.1},
    )


def test_the_papers_figure_is_the_log_of_a_ratio_of_means() -> None:
    own, random = np.array([0.3, 0.5, 0.1, 0.0]), np.array([0.1, 0.0, 0.2, 0.1])
    found = log_ratio(own, random)
    assert found.value == pytest.approx(np.log(0.225 / 0.1))
    assert found.low < found.value
    ratios = [r for r in (own / np.where(random, random, np.nan)) if np.isfinite(r)]
    assert found.value != pytest.approx(np.log(np.mean(ratios)))


def test_a_log_ratio_that_does_not_exist_is_none() -> None:
    zeros = np.zeros(5)
    assert log_ratio(zeros, np.full(5, 0.2)) == (None, None, None)
    assert log_ratio(np.full(5, 0.2), zeros) == (None, None, None)
    assert log_ratio(np.array([-0.5, 0.1]), np.array([0.1, 0.1])).value is None
    some = log_ratio(np.array([0.0, 0.0, 0.0, 0.9]), np.full(4, 0.1))
    assert some.value == pytest.approx(np.log(2.25))
    assert some.low is None  # resamples without the fourth case have the mean 0
    assert some.high is not None


def test_wilcoxon_is_scipys_on_the_pairs_that_differ() -> None:
    rng = np.random.default_rng(0)
    differences = np.concatenate([rng.normal(0.4, 1, 30), np.zeros(5)])
    found = wilcoxon(differences)
    expected = stats.wilcoxon(differences[:30])
    assert found.p == pytest.approx(expected.pvalue)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.pairs == 30


def test_wilcoxon_with_shared_ranks_is_scipys_too() -> None:
    rng = np.random.default_rng(0)
    for count in (2, 3, 5, 8):
        differences = rng.choice([-3.0, -2.0, -1.0, 1.0, 2.0], size=count)
        found, expected = wilcoxon(differences), stats.wilcoxon(differences)
        assert found.statistic == expected.statistic
        assert found.p == pytest.approx(expected.pvalue)


def test_wilcoxon_by_hand() -> None:
    """Five positive differences: W⁻ = 0, and 2 of the 32 signs are as extreme."""
    found = wilcoxon(np.array([0.1, 0.2, 0.3, 0.4, 0.5]))
    assert found.statistic == 0
    assert found.p == pytest.approx(2 / 32)


def test_effect_sizes_by_hand() -> None:
    differences = np.array([3.0, -1.0, 2.0, 0.0])  # ranks 3, 1, 2: (3 + 2 − 1) / 6
    assert rank_biserial(differences) == pytest.approx(4 / 6)
    assert rank_biserial(np.array([1.0, 2.0])) == 1
    assert rank_biserial(np.zeros(3)) == 0
    assert cohens_d(np.array([1.0, 2.0, 3.0])) == pytest.approx(2.0)
    assert cohens_d(np.array([0.5, 0.5])) is None
    assert cohens_d(np.array([0.5])) is None


def test_holm_and_benjamini_hochberg_on_known_values() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    np.testing.assert_allclose(adjust(p, "holm"), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(adjust(p, "bh"), [0.02, 0.04, 0.04, 0.02])
    np.testing.assert_allclose(adjust([0.9, 0.8], "holm"), [1, 1])
    np.testing.assert_allclose(adjust([0.2], "holm"), [0.2])
    with pytest.raises(InputError, match="unknown correction 'bonferoni'"):
        adjust(p, "bonferoni")


def test_holm_keeps_the_rate_of_any_false_claim() -> None:
    rng = np.random.default_rng(1)
    false_claims = [(adjust(rng.random(10), "holm") < 0.05).any() for _ in range(2000)]
    assert np.mean(false_claims) < 0.065


def test_bootstrap_intervals_cover_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    inside = []
    for seed in range(300):
        found = bootstrap(rng.exponential(size=40), lambda v: v.mean(1), seed=seed, resamples=500)
        inside.append(found.low <= 1 <= found.high)
    assert 0.88 < np.mean(inside) < 0.98
    values = rng.normal(size=30)
    assert bootstrap(values, lambda v: v.mean(1), 1) == bootstrap(values, lambda v: v.mean(1), 1)
    assert bootstrap(np.array([0.4]), lambda v: v.mean(1)) == (0.4, 0.4, 0.4)


def test_proportions_have_wilsons_interval() -> None:
    from scipy.stats import binomtest

    for found in (0, 3, 10):
        values = np.array([1.0] * found + [0.0] * (10 - found))
        expected = binomtest(found, 10).proportion_ci(method="wilson")
        assert proportion(values) == pytest.approx((found / 10, expected.low, expected.high))


def test_many_evaluations_against_random() -> None:
    rng = np.random.default_rng(0)
    cases = [
        evaluation(
            result(0.5 + 0.1 * rng.normal(), 0.2 + 0.1 * abs(rng.normal())),
            result(0.2 + 0.05 * rng.normal(), 0.5, "sufficiency", higher=False),
            result(float(i % 4 > 0), 0.25, "ante", "found"),
        )
        for i in range(20)
    ]
    nc, sufficiency, ante = against_random(cases, correction="holm")
    assert (nc.metric, nc.cases, nc.correction) == ("soft_nc", 20, "holm")
    assert nc.difference.value > 0
    assert nc.log_ratio.low > 0
    assert nc.wilcoxon.p < nc.adjusted_p < 0.01
    assert sufficiency.difference.value > 0, "lower is better, and it is lower"
    assert sufficiency.rank_biserial > 0.9
    assert sufficiency.better == 1
    assert (ante.mean.value, ante.mean.high < 1) == (0.75, True)
    json.dumps([one.to_dict() for one in (nc, sufficiency, ante)], allow_nan=False)
    plain = against_random(cases)
    assert plain[0].adjusted_p is None
    assert adjust_comparisons(plain, "bh")[0].adjusted_p <= nc.adjusted_p


def test_only_numbers_that_all_have_are_compared() -> None:
    both = evaluation(result(0.5, 0.2), result(0.4, 0.1, "soft_ns"))
    found = against_random([both, evaluation(result(0.6, 0.1))])
    assert [one.metric for one in found] == ["soft_nc"]
    with pytest.raises(InputError, match="nothing to compare"):
        against_random([])


def test_one_method_against_another() -> None:
    ours = [result(v, 0.1) for v in (0.5, 0.6, 0.7, 0.65, 0.8, 0.9)]
    found = compare(ours, [0.4, 0.5, 0.65, 0.6, 0.7, 0.85])
    assert found.better == 1
    assert found.wilcoxon.p == pytest.approx(2 / 64)


def test_a_single_case_says_little_and_breaks_nothing() -> None:
    (found,) = against_random([evaluation(result(0.0, 0.0))], correction="bh")
    assert found.wilcoxon.p == 1
    assert found.log_ratio.value is None
    json.dumps(found.to_dict(), allow_nan=False)
