"""A target that is not among the tokens listed is not impossible: it is censored.

Of the k likeliest tokens the server gives log-probabilities. Any other token has at most that of the k-th, and at
most what those k leave of 1. The smaller of the two bounds stands in for the value, so that

- the drop that a probe caused is taken as what it was at least: effects and scores are, if anything, too small;
- the rank is taken as beyond every top: a stopping test that cannot be seen to hold does not hold;
- where the target is censored in the text as it stands, its drops may err either way: that is told apart.

Every answer that was bounded instead of known is counted (`Meter.censored`) and shown with the explanation.

Where a server takes `logit_bias`, the value itself can be recovered. A bias b on the target's logit makes of its
probability p

    p' = p e^b / (1 − p + p e^b),   so that   logit p = logit p' − b

which is read off as soon as b lifts the target into the list. Some servers (llama.cpp, vLLM by default) choose by
the biased distribution and report the unbiased one: there a large bias makes the target the chosen token, whose
own log-probability is always reported.
"""

import math
from collections.abc import Sequence

from reagent.models.http.responses import Listed, Place

UNLISTED = 2**30  # the rank of a token that is not listed
LARGEST_BIAS = 100.0  # what OpenAI allows
_ROUNDING = 1e-6  # of a sum of probabilities: what is left below it is not told apart from nothing


def bound(top: Sequence[Listed], k: int) -> float:
    """The log-probability that a token which is not among the `k` likeliest has at most.

    >>> even = [Listed(text, math.log(0.25)) for text in "abc"]
    >>> round(math.exp(bound(even, 3)), 3), round(math.exp(bound([Listed("a", math.log(0.9))], 1)), 3)
    (0.25, 0.1)
    """
    best = top[:k]
    left = 1 - sum(math.exp(entry.logprob) for entry in best)
    return min(best[-1].logprob if best else 0.0, math.log(max(left, _ROUNDING)))


def rank_of(logprob: float, place: Place, k: int) -> int:
    """How many tokens were likelier, as far as the `k` likeliest tell.

    A server may list the token that stands there besides the k likeliest, so being listed is not enough.
    """
    better = sum(entry.logprob > logprob for entry in place.top)
    return better if better < k else UNLISTED


def without_bias(logprob: float, bias: float) -> float:
    """The log-probability of a token before its logit was raised by `bias`, from the one after.

    >>> p, b = 1e-7, 12.0
    >>> raised = p * math.exp(b) / (1 - p + p * math.exp(b))
    >>> round(without_bias(math.log(raised), b) - math.log(p), 9)
    0.0
    """
    # logit p' = log p' − log(1 − p'); then log p = −log(1 + e^−logit).
    odds = logprob - math.log(-math.expm1(min(logprob, -1e-12))) - bias
    return -math.log1p(math.exp(-odds)) if odds > -700 else odds
