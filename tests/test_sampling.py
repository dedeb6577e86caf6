"""Balanced sampling: every unit equally often, every candidate once before any twice."""

import numpy as np
import pytest

from reagent.sampling import BalancedSampler, sample_balanced


@pytest.mark.parametrize(("size", "block_size"), [(1, 1), (7, 1), (29, 3), (10, 10), (12, 5)])
def test_every_round_replaces_every_unit_once(size: int, block_size: int) -> None:
    replaced, uniform = sample_balanced(size, block_size, 60, 4, np.random.default_rng(0))
    round_length = -(-size // block_size)
    assert replaced.sum(1).max() <= block_size
    assert replaced.sum(1).min() >= 1
    for start in range(0, 60 - round_length, round_length):
        np.testing.assert_array_equal(replaced[start : start + round_length].sum(0), 1)
    assert (uniform >= 0).all()
    assert (uniform < 1).all()
    if 4 * round_length <= 60:  # in the first four rounds, each unit has one number in each quarter
        used = [np.sort(uniform[: 4 * round_length, i][replaced[: 4 * round_length, i]]) for i in range(size)]
        np.testing.assert_array_equal((np.array(used) * 4).astype(int), np.tile(np.arange(4), (size, 1)))


def test_fewer_probes_are_the_first_of_more() -> None:
    few, many = (sample_balanced(29, 3, n, 10, np.random.default_rng(5)) for n in (64, 256))
    np.testing.assert_array_equal(few[0], many[0][:64])
    np.testing.assert_array_equal(few[1], many[1][:64])


def test_exhausted_units_are_skipped() -> None:
    sampler = BalancedSampler(2, 1, 3, np.random.default_rng(0))
    replaced, uniform = sampler.next_uncertain(6, np.array([1.0, 0.01]), exhausted_after=np.full(2, 3))
    np.testing.assert_array_equal(replaced.sum(0), 3)
    np.testing.assert_array_equal(np.sort((uniform[replaced[:, 0], 0] * 3).astype(int)), [0, 1, 2])
