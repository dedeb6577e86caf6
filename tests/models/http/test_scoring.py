"""Bounds hold, ranks do not claim what is not known, and a bias is undone exactly."""

import numpy as np
import pytest

from reagent.models.http.responses import PositionLogprobs, TokenLogprob
from reagent.models.http.scoring import UNLISTED, rank_of, remove_bias, upper_bound


def best(logprob: np.ndarray, k: int) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(str(i), float(logprob[i])) for i in np.argsort(-logprob)[:k])


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_a_bound_is_above_every_token_that_is_not_listed(k: int, spread: float) -> None:
    rng = np.random.default_rng(k)
    for _ in range(50):
        logits = rng.normal(0, spread, 100)
        logprob = logits - np.logaddexp.reduce(logits)
        limit = upper_bound(best(logprob, k), k)
        hidden = np.sort(logprob)[::-1][k]
        assert hidden <= limit + 1e-9
        assert limit <= np.sort(logprob)[::-1][k - 1]


def test_a_rank_is_told_only_where_the_list_can_tell_it() -> None:
    logprob = np.log([0.4, 0.3, 0.2, 0.06, 0.04])
    listed = best(logprob, 3)
    assert [rank_of(float(p), PositionLogprobs("", None, listed), 3) for p in logprob] == [0, 1, 2, UNLISTED, UNLISTED]
    with_own = (*listed, TokenLogprob("4", float(logprob[4])))  # servers list the token that stands there besides
    assert rank_of(float(logprob[4]), PositionLogprobs("", None, with_own), 3) == UNLISTED


def test_a_bias_is_undone() -> None:
    rng = np.random.default_rng(0)
    for bias in (-3.0, 0.0, 1.0, 8.0, 30.0):
        logits = rng.normal(0, 3, 50)
        raised = logits.copy()
        raised[7] += bias
        before, after = (values - np.logaddexp.reduce(values) for values in (logits, raised))
        if after[7] < -1e-9:
            assert remove_bias(float(after[7]), bias) == pytest.approx(before[7], abs=1e-6)
