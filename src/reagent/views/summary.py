"""What every view says about an explanation besides its tokens."""

from collections.abc import Mapping
from math import exp, floor, log10
from typing import Any

from reagent.explanation import STOPPED, Explanation, Token
from reagent.views.text import visible


def facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Where the explanation comes from, as pairs of name and value."""
    method, cost = explanation.method, explanation.cost
    pairs = [
        ("model", _joined(explanation.model, "id", "revision", "dtype")),
        ("method", _joined(method, "id", "preset")),
        ("replacer", "" if explanation.replacer is None else _joined(explanation.replacer, "id")),
        ("target", "" if explanation.target.get("kind") == "tokens" else _joined(explanation.target, "kind")),
        ("seed", str(explanation.seed)),
        ("cost", f"{cost.forward_passes:,} forward passes, {cost.seconds:.1f} s"),
    ]
    return [(name, value) for name, value in pairs if value]


def probability(token: Token) -> str:
    """The token's probability in percent, or nothing where it is not known.

    >>> probability(Token(ids=(1,), text="a", start=0, end=1, logprob=-0.6033))
    '54.7%'
    """
    if token.logprob is None:
        return ""
    percent = 100 * exp(min(0.0, token.logprob))
    return "<0.1%" if percent < 0.05 else f"{percent:.1f}%"


def warning(explanation: Explanation, target: int) -> str:
    """What a reader must know about this row, or nothing."""
    return STOPPED.get(explanation.cost.stopped[target], "")


def effect_digits(explanation: Explanation) -> int:
    """How many decimals show three figures of the largest effect."""
    largest = max((abs(value) for row in explanation.effects or () for value in row), default=0.0)
    return 2 if largest == 0 else min(6, max(0, 2 - floor(log10(largest))))


def _joined(entries: Mapping[str, Any], *keys: str) -> str:
    text = " ".join(str(entries[key]) for key in keys if entries.get(key))
    return " ".join(visible(text).split())
