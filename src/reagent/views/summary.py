"""What every view says about an explanation besides its tokens."""

from collections import Counter
from collections.abc import Mapping
from math import exp, floor, log10
from statistics import median
from typing import Any

from reagent.explanation import STOPPED, Explanation, Token
from reagent.views.text import visible

LISTED = 10  # how many of the most important tokens a view lists

OPEN = "≈"  # a sign that needs no colour
NOT_SETTLED = "place not settled: overlaps a neighbour within its error (95 %)"

# What a number means, for units that not every reader knows.
UNITS = {"nats": "nats: without the token, the answer is e^effect times less likely (0.7: half)"}

# STOPPED again, for several output tokens at once.
IN_BRIEF = {
    "unsettled": "ranking still open; more probes may settle it",
    "flat": "made likelier by no token, so their scores say nothing",
    "start": "in some run nothing was learned before it stopped",
    "maximum": "the stopping condition was not met",
}


def facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Where the explanation comes from, as pairs of name and value."""
    method, cost = explanation.method, explanation.cost
    pairs = [
        ("model", _joined(explanation.model, "id", "revision", "dtype")),
        ("method", _joined(method, "id", "preset")),
        ("replacer", "" if explanation.replacer is None else _joined(explanation.replacer, "id", "model")),
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


def warnings_in_brief(explanation: Explanation) -> list[str]:
    """The explanation's warnings, those with the same reason in one line."""
    stopped, count = explanation.cost.stopped, len(explanation.output)
    reasons = Counter(reason for reason in stopped if STOPPED.get(reason))
    return [
        f"{explanation.output[stopped.index(reason)].text!r} {STOPPED[reason]}"
        if affected == 1
        else f"{affected} of {count} output tokens: {IN_BRIEF[reason]}"
        for reason, affected in reasons.items()
    ]


def has_open_ranking(explanation: Explanation, target: int) -> bool:
    """Whether the row's only flaw is that its ranking was still open: common, and milder than the others."""
    return explanation.cost.stopped[target] == "unsettled"


def unsettled(explanation: Explanation, target: int) -> tuple[bool, ...]:
    """For each context token, whether its place among the scores is not significant; empty without errors."""
    settled = explanation.settled(target)
    if settled is None:
        return ()
    scores = explanation.scores[target]
    ties = Counter(scores)  # a row of equal scores has an order on the screen, but no ranking
    return tuple(not sure or ties[score] > 1 for sure, score in zip(settled, scores, strict=True))


def unit_note(explanation: Explanation) -> str:
    """What the numbers of the effects mean, or nothing."""
    return UNITS.get(explanation.effect_unit or "", "") if explanation.effects else ""


def effect_digits(explanation: Explanation) -> int:
    """How many decimals show three figures of the largest effect and one of the usual error."""
    largest = max((abs(value) for row in explanation.effects or () for value in row), default=0.0)
    errors = [value for row in explanation.stderr or () for value in row if value > 0]
    wanted = [2 - floor(log10(largest))] if largest else [2]
    wanted += [-floor(log10(median(errors)))] if errors else []
    return min(6, max(0, *wanted))


def _joined(entries: Mapping[str, Any], *keys: str) -> str:
    text = " ".join(str(entries[key]) for key in keys if entries.get(key))
    return " ".join(visible(text).split())
