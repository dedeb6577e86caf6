"""What every view says about an explanation besides its tokens."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import exp, floor, log10
from statistics import median
from typing import Any

import numpy as np

from reagent.explanation import STOP_REASONS, Z_95, Contribution, Cost, Explanation, Token, censoring_warnings
from reagent.views.text import label, labels, quoted, shortened, visible

LISTED = 10  # how many of the most important tokens a view lists,
OUTLINED = 3  # and of a coarser level
NAME_LENGTH = 48  # of a unit, where its text is only named

OPEN = "≈"  # a sign that needs no colour
NOT_SETTLED = "place not settled: overlaps another within its error (95 %)"
PLACES = "a–b: place not settled; the errors allow places a to b (95 %)"

NOUNS = ("token", "word", "sentence", "paragraph", "span")

Line = list[tuple[str, bool]]  # the parts of a line, and whether they are quoted: what people or models wrote

# STOP_REASONS again, for several output tokens at once.
IN_BRIEF = {
    "unsettled": "ranking still open; more probes may settle it",
    "few": "each token was replaced fewer than three times, so the errors are guesses; give more probes",
    "flat": "made likelier by no part of the context, so their scores say nothing",
    "incomplete": "their effects do not add up, since steps ran out close to zero embeddings",
    "relaxed": "not what the model predicts even with the whole context; their rationales only keep their rank",
    "empty": "keep their place with everything replaced, so their scores say nothing",
    "start": "in some run nothing was learned before it stopped",
    "maximum": "the stopping condition was not met",
    "unasked": "not asked about, so their scores are uniform and say nothing",
}


def facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Where the explanation comes from, as pairs of name and value."""
    method, target, cost = explanation.method, explanation.target, explanation.cost
    pairs = [
        ("model", words(explanation.model, "id", "revision", "dtype")),
        ("tokens", words(explanation.model, "tokens")),
        ("method", words(method, "id", "preset")),
        ("replacer", "" if explanation.replacer is None else words(explanation.replacer, "id", "model")),
        ("target", "" if target.get("kind") == "tokens" else _name(words(target, "kind", "text"))),
        ("unit", "" if explanation.unit == "token" else noun(explanation.unit)),
        ("seed", str(explanation.seed)),
        ("cost", in_words(cost)),
    ]
    return [(name, value) for name, value in pairs if value]


def in_words(cost: Cost) -> str:
    """What was computed and how long it took."""
    passes = "1 forward pass" if cost.forward_passes == 1 else f"{cost.forward_passes:,} forward passes"
    requests = f", {cost.requests:,} {'request' if cost.requests == 1 else 'requests'}" if cost.requests else ""
    censored = f", {cost.censored:,} answers censored" if cost.censored else ""
    return f"{passes}{requests}{censored}, {cost.seconds:.{1 if cost.seconds >= 1 else 2}f} s"


def noun(unit: str) -> str:
    """What to call a unit; a file may name one that is not known here."""
    return unit if unit in NOUNS else "unit"


def context_noun(explanation: Explanation) -> str:
    """What the prompt was cut into, in one word."""
    return "part" if explanation.levels else noun(explanation.unit)


def percent(share: float) -> str:
    """A probability as people read it.

    >>> percent(0.547)
    '54.7%'
    """
    return "<0.1%" if share < 0.0005 else f"{100 * min(1.0, share):.1f}%"


def probability(token: Token) -> str:
    """The token's probability in percent, or nothing where it is not known."""
    return "" if token.logprob is None else percent(exp(min(0.0, token.logprob)))


# --- the question ---


def asked(explanation: Explanation) -> int | None:
    """The row that was asked about, if one was: a phrase, or a token in contrast to another."""
    return explanation.focus if "index" in explanation.target else None


def shown_row(explanation: Explanation, target: int | None) -> int | None:
    """The row to show: `target`, or the one that was asked about, or the only one; None means all of several."""
    target = asked(explanation) if target is None else target
    if target is None and len(explanation.output) != 1:
        return None
    return len(explanation.context(target or 0)) - len(explanation.input)  # refuses a target that is not there


def mean_scores(explanation: Explanation) -> list[float]:
    """The prompt's scores, averaged over the output tokens."""
    rows = explanation.scores
    return [sum(row[i] for row in rows) / len(rows) for i in range(len(explanation.input))]


def contrast(explanation: Explanation, target: int) -> str:
    """What the row says was not said instead, if it does."""
    here = explanation.target.get("kind") == "contrast" and target == explanation.focus
    return _name(quoted(str(explanation.target.get("text", "")))) if here else ""


def question(explanation: Explanation, target: int) -> Line:
    """What the row answers."""
    other = contrast(explanation, target)
    against: Line = [(" and not ", False), (other, True)] if other else []
    return [("Why ", False), (_said(explanation, target), True), *against, ("?", False)]


def chances(explanation: Explanation, target: int) -> str:
    """How likely the answer was, and what it is contrasted with; nothing where it is not known."""
    value = probability(explanation.output[target])
    logprob = explanation.target.get("logprob")
    if not value:
        return ""
    if not contrast(explanation, target) or logprob is None:
        return f"probability {value}"
    return f"probability {value} against {percent(exp(min(0.0, logprob)))}"


def what_if(explanation: Explanation, target: int) -> Iterator[tuple[int, Line]]:
    """What the model would have said instead: a position, and what its strongest replacement would have done."""
    context = explanation.context(target)
    for one in explanation.what_if:
        if one.target != target:
            continue
        given = _name(quoted(one.replacement))
        line: Line = [("with ", False), (given, True), (" instead of ", False)] if given else [("without ", False)]
        line += [(_name(label(context[one.position])), True), (": ", False)]
        for answer in one.answers:
            line += [(_name(quoted(answer.text)), True), (f" {percent(answer.probability)}, ", False)]
        line.append(("…", False))
        if explanation.output[target].text not in [answer.text for answer in one.answers]:
            line += [(" (", False), (_said(explanation, target), True), (f" {percent(one.probability)})", False)]
        yield one.position, line


def outline(explanation: Explanation, target: int) -> Iterator[tuple[str, list[Contribution]]]:
    """For each coarser level, what to call its units and the most important of them."""
    for level in explanation.levels:
        whole = replace(
            explanation,
            input=level.units,
            scores=level.scores,
            effects=level.effects,
            stderr=level.stderr,
            levels=(),
            what_if=(),
        )
        rows = [row for row in whole.top(OUTLINED, target) if row.score > 0]
        if rows:
            yield noun(level.unit), rows


# --- what to know about the answer ---


def warning(explanation: Explanation, target: int) -> str:
    """What a reader must know about this row, or nothing."""
    return STOP_REASONS.get(explanation.cost.stopped[target], "")


def warnings_in_brief(explanation: Explanation) -> list[str]:
    """The explanation's warnings, those with the same reason in one line."""
    stopped, count = explanation.cost.stopped, len(explanation.output)
    reasons = Counter(reason for reason in stopped if STOP_REASONS.get(reason))
    return [
        f"{explanation.output[stopped.index(reason)].text!r} {STOP_REASONS[reason]}"
        if affected == 1
        else f"{affected} of {count} output tokens: {IN_BRIEF[reason]}"
        for reason, affected in reasons.items()
    ] + censoring_warnings(explanation.cost.censored, explanation.cost.unlisted)


def warning_lines(explanation: Explanation, target: int | None) -> list[str]:
    """The same for what is shown: one row, or all of them."""
    if target is None:
        return warnings_in_brief(explanation)
    reason = warning(explanation, target)
    row = [f"{explanation.output[target].text!r} {reason}"] if reason else []
    return row + censoring_warnings(explanation.cost.censored, explanation.cost.unlisted)


def has_open_ranking(explanation: Explanation, target: int) -> bool:
    """Whether the row's only flaw is that its ranking was still open: common, and milder than the others."""
    return explanation.cost.stopped[target] == "unsettled"


def places(explanation: Explanation, target: int) -> list[tuple[int, int] | None]:
    """For each context token, the first and the last place that its error allows (95 %); empty without errors.

    Before the first place are those that are significantly above it, after the last those below. Equal
    scores have an order on the screen, but none in the ranking. Protected tokens have no place.
    """
    if explanation.effects is None or explanation.stderr is None:
        return []
    context = explanation.context(target)
    ranked = [i for i, token in enumerate(context) if not token.protected]
    score, effect, error = (
        np.array(rows[target])[ranked] for rows in (explanation.scores, explanation.effects, explanation.stderr)
    )
    margin = Z_95 * error
    found: list[tuple[int, int] | None] = [None] * len(context)
    for i, s, e, m in zip(ranked, score, effect, margin, strict=True):
        apart = abs(effect - e) > np.hypot(margin, m)
        above, below = apart & (effect > e) & (score > s), apart & (effect < e) & (score < s)
        found[i] = (1 + int(above.sum()), len(ranked) - int(below.sum()))
    return found


def open_places(explanation: Explanation, target: int) -> list[str]:
    """For each context token, the places that its error allows, if there are several."""
    found = places(explanation, target) or [None] * len(explanation.scores[target])
    return ["" if place is None or place[0] == place[1] else f"{place[0]}–{place[1]}" for place in found]


def unit_note(explanation: Explanation, target: int) -> Line:
    """What the numbers of the row's effects mean, or nothing."""
    if not explanation.effects or explanation.effect_unit != "nats":
        return []
    without = f"nats: without the {context_noun(explanation)}, the "
    other = contrast(explanation, target)
    if not other:
        return [(without + "answer is e^effect times less likely (0.7: half)", False)]
    odds: Line = [(_said(explanation, target), True), (" over ", False), (other, True)]
    return [(without + "odds of ", False), *odds, (" fall e^effect times (0.7: by half)", False)]


def effect_digits(explanation: Explanation) -> int:
    """How many decimals show three figures of the largest effect and one of the usual error."""
    largest = max((abs(value) for row in explanation.effects or () for value in row), default=0.0)
    errors = [value for row in explanation.stderr or () for value in row if value > 0]
    wanted = [2 - floor(log10(largest))] if largest else [2]
    wanted += [-floor(log10(median(errors)))] if errors else []
    return min(6, max(0, *wanted))


def words(entries: Mapping[str, Any], *keys: str) -> str:
    """The values of these keys in one line, as far as there are any."""
    text = " ".join(str(entries[key]) for key in keys if entries.get(key))
    return " ".join(visible(text).split())


def _said(explanation: Explanation, target: int) -> str:
    return _name(labels(explanation.output)[target])


def _name(text: str) -> str:
    return shortened(text, NAME_LENGTH)
