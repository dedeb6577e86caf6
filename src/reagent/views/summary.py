"""Texts about an explanation that every view shows: provenance, questions, warnings, ranks and notes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import exp, floor, log10
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from reagent.citations import CitationCost
from reagent.explanation import (
    STOP_REASONS,
    Z_95,
    Contribution,
    Cost,
    Explanation,
    Token,
    TokenExplanation,
    WhatIf,
    model_warnings,
)
from reagent.views.text import all_labels, mark_whitespace, sanitize, shorten

TOP_COUNT = 10  # the number of most important units that a view lists
MAX_RANKED = 100  # the number of units whose ranks are compared with those of all others
TOP_PER_LEVEL = 3  # the same for each coarser level
NAME_LENGTH = 48  # the maximum length of a unit's text in tables and sentences

OPEN_SIGN = "≈"  # does not depend on colour
OPEN_NOTE = "rank not settled: the effect does not differ significantly from another (95 %)"
OPEN_RANKS_NOTE = "a–b: rank not settled; the standard errors allow ranks a to b (95 %)"

UNIT_NOUNS = ("token", "word", "sentence", "paragraph", "message", "span")


class CaptionPart(NamedTuple):
    """A part of a caption; quoted parts come from the prompt or from a model, and views emphasise them."""

    text: str
    quoted: bool = False


Caption = list[CaptionPart]

# The texts of STOP_REASONS for several output tokens at once.
PLURAL_STOP_REASONS = {
    "insufficient": "the important units alone do not lead to them, so something that matters was not found; "
    "give more probes",
    "unsettled": "ranking still open; more probes may settle it",
    "few": "fewer than three replacements of each token, so the standard errors are unreliable; give more probes",
    "flat": "no part of the context raises their probability, so their scores mean nothing",
    "incomplete": "the effects do not add up, because the steps ran out close to zero embeddings",
    "partial": "only part of the model's attention; some layers have none, or a sink that is no token takes some",
    "relaxed": "not the model's prediction even with the whole context; their rationales only preserve their rank",
    "empty": "keep their rank with everything replaced, so their scores mean nothing",
    "start": "still among the most likely tokens with only a random part of the context kept, so at least one run "
    "stopped before its first step and has random scores; make the condition stricter (`keep`, `top_k`), switch it off "
    "(`stop`), or use another preset",
    "maximum": "the stopping condition was not met",
    "unasked": "not explained, so their scores are uniform and mean nothing",
}


def facts(explanation: Explanation) -> list[tuple[str, str]]:
    """List the provenance of the explanation as pairs of name and value."""
    method, target, cost = explanation.method, explanation.target, explanation.cost
    pairs = [
        ("model", join_values(explanation.model, "id", "revision", "dtype")),
        ("tokens", join_values(explanation.model, "tokens")),
        ("control tokens", _shorten_name(" ".join(explanation.control_tokens))),
        ("method", join_values(method, "id", "preset")),
        ("removal", join_values(method, "removal")),
        ("replacer", "" if explanation.replacer is None else join_values(explanation.replacer, "id", "model")),
        ("target", "" if target.get("kind") == "tokens" else _shorten_name(join_values(target, "kind", "text"))),
        ("unit", "" if explanation.unit == "token" else unit_noun(explanation.unit)),
        ("noise of the server", f"± {explanation.noise:.2g} nats" if explanation.noise else ""),
        ("answers", _describe_answers(explanation.model)),
        ("proxy", _describe_proxy(explanation.model)),
        ("screening", describe_screening(explanation)),
        ("seed", str(explanation.seed)),
        ("cost", describe_cost(cost)),
    ]
    return [(name, value) for name, value in pairs if value]


def describe_screening(explanation: Explanation) -> str:
    """Describe what was set aside, and what it costs to leave it out; empty if nothing was."""
    screening = explanation.screening
    if screening is None:
        return ""
    share = f"{len(screening.discarded):,} of {screening.units:,} units set aside"
    unit = " ".join(sanitize(explanation.effect_unit or "nats").split())
    what = "log-probability of the output" if unit == "nats" else "response"
    return f"{share}, which changes the {what} by {-screening.effect:+.2g} {unit}"


def _describe_answers(model: Mapping[str, Any]) -> str:
    """How the answers of a text-only model were compared."""
    score, answers = join_values(model, "score"), join_values(model, "answers")
    return f"compared by {score}" + (f", {answers} for each probe" if answers else "") if score else ""


def _describe_proxy(model: Mapping[str, Any]) -> str:
    """The model that stood for this one, and how well it agreed."""
    proxy = model.get("proxy")
    if not isinstance(proxy, Mapping):
        return ""
    name, agreement, checks = (join_values(proxy, key) for key in ("id", "agreement", "checks"))
    return f"{name}, agreement {agreement} on {checks} texts"


def describe_cost(cost: Cost | CitationCost) -> str:
    """Describe the computation and its duration."""
    passes = "1 forward pass" if cost.forward_passes == 1 else f"{cost.forward_passes:,} forward passes"
    requests = f", {cost.requests:,} {'request' if cost.requests == 1 else 'requests'}" if cost.requests else ""
    censored = f", {cost.censored:,} answers censored" if isinstance(cost, Cost) and cost.censored else ""
    return f"{passes}{requests}{censored}, {cost.seconds:.{1 if cost.seconds >= 1 else 2}f} s"


def unit_noun(unit: str) -> str:
    """Name a unit; an explanation from a file may have an unknown one."""
    return unit if unit in UNIT_NOUNS else "unit"


def context_noun(explanation: Explanation) -> str:
    """Name the units of the prompt in one word."""
    return "part" if explanation.levels else unit_noun(explanation.unit)


def percent(share: float) -> str:
    """Format a probability in percent.

    >>> percent(0.547)
    '54.7%'
    """
    return "<0.1%" if share < 0.0005 else f"{100 * min(1.0, share):.1f}%"


def probability(token: Token) -> str:
    """Format the token's probability in percent; empty where it is unknown."""
    return "" if token.logprob is None else percent(exp(min(0.0, token.logprob)))


# --- the question ---


def requested_row(explanation: Explanation) -> int | None:
    """Return the row that was requested: a phrase, or a token in contrast to another; None for all rows."""
    return explanation.focus if "index" in explanation.target else None


def contrast_label(explanation: Explanation, target: int) -> str:
    """Name the text that the row is contrasted with; empty without a contrast."""
    is_contrast = explanation.target.get("kind") == "contrast" and target == explanation.focus
    return _shorten_name(mark_whitespace(str(explanation.target.get("text", "")))) if is_contrast else ""


def question_caption(explanation: Explanation, target: int) -> Caption:
    """Write the question that the row answers."""
    text = _target_name(explanation, target)
    name = _quote(f"“{text}”" if len(text.split()) > 1 else text)  # a sentence has its own marks
    other = contrast_label(explanation, target)
    against = [CaptionPart(" and not "), _quote(other)] if other else []
    return [CaptionPart("Why "), name, *against, CaptionPart("?")]


def describe_probability(explanation: Explanation, target: int) -> str:
    """Describe the probability of the target and of its contrast; empty where it is unknown."""
    value = probability(explanation.output[target])
    logprob = explanation.target.get("logprob")
    if not value:
        return ""
    if not contrast_label(explanation, target) or logprob is None:
        return f"probability {value}" if len(explanation.output) > 1 else _probability_of_answer(explanation.output[0])
    return f"probability {value} against {percent(exp(min(0.0, logprob)))}"


def _probability_of_answer(answer: Token) -> str:
    """The probability; of several tokens, whose product is always small, their geometric mean."""
    assert answer.logprob is not None
    count = max(1, len(answer.ids))  # a result without its texts has no ids
    return f"probability {percent(exp(min(0.0, answer.logprob / count)))}" + (" per token" if count > 1 else "")


def what_if_captions(explanation: Explanation, target: int) -> Iterator[tuple[int, Caption]]:
    """Describe, for each position with a counterfactual, the model's output under the strongest replacement."""
    for counterfactual in explanation.what_if:
        if counterfactual.target == target:
            yield counterfactual.position, _what_if_caption(explanation, counterfactual)


def answer_what_if_captions(explanation: Explanation) -> Iterator[tuple[int, Caption]]:
    """Describe the counterfactuals of all output units, each after the name of its unit."""
    for target in range(len(explanation.output)):
        name = _quote(_target_name(explanation, target))
        for position, caption in what_if_captions(explanation, target):
            yield position, [name, CaptionPart("  "), *caption]


def _what_if_caption(explanation: Explanation, counterfactual: WhatIf) -> Caption:
    target = counterfactual.target
    replacement = _shorten_name(mark_whitespace(counterfactual.replacement))
    caption = [CaptionPart("without ")]
    if replacement:
        caption = [CaptionPart("with "), _quote(replacement), CaptionPart(" instead of ")]
    caption += [_quote(_shorten_name(all_labels(explanation)[counterfactual.position])), CaptionPart(": ")]
    for answer in counterfactual.answers:
        caption += [
            _quote(_shorten_name(mark_whitespace(answer.text))),
            CaptionPart(f" {percent(answer.probability)}, "),
        ]
    caption.append(CaptionPart("…"))
    output = explanation.output[target]  # the probability is that of its first token
    if len(output.ids) == 1 and output.text not in [answer.text for answer in counterfactual.answers]:
        name = _quote(_target_name(explanation, target))
        caption += [CaptionPart(" ("), name, CaptionPart(f" {percent(counterfactual.probability)})")]
    return caption


def plain_text(caption: Caption) -> str:
    return "".join(part.text for part in caption)


def top_units_by_level(explanation: Explanation, target: int) -> Iterator[tuple[str, list[Contribution]]]:
    """Return, for each coarser level, the name of its units and the most important of them."""
    output = explanation.context(target)[len(explanation.input) :]
    for level in explanation.levels:
        row = TokenExplanation(
            index=target,
            token=explanation.output[target],
            context=level.units + output,
            scores=level.scores[target],
            effects=None if level.effects is None else level.effects[target],
            stderr=None if level.stderr is None else level.stderr[target],
        )
        rows = [row for row in row.top(TOP_PER_LEVEL) if row.score > 0]
        if rows:
            yield unit_noun(level.unit), rows


# --- warnings, ranks and notes ---


def is_insufficient(explanation: Explanation, target: int) -> bool:
    """Whether the row failed its sufficiency test, which views say before everything else."""
    test = None if explanation.sufficiency is None else explanation.sufficiency[target]
    return test is not None and not test.passed


def _stop_reason(explanation: Explanation, target: int) -> str:
    """Return why the search ended; empty if the sentence about the failed test says it."""
    reason = explanation.cost.stopped[target]
    return "" if reason == "insufficient" and is_insufficient(explanation, target) else reason


def row_warning(explanation: Explanation, target: int) -> str:
    """Return the warning about this row, or an empty text; without that of a failed sufficiency test."""
    return STOP_REASONS.get(_stop_reason(explanation, target), "")


def group_warnings(explanation: Explanation) -> list[str]:
    """List the warnings about output units, with one line for each reason."""
    count = len(explanation.output)
    noun = "output tokens" if all(len(unit.ids) == 1 for unit in explanation.output) else "parts of the answer"
    stopped = [_stop_reason(explanation, t) for t in range(count)]
    reasons = Counter(reason for reason in stopped if STOP_REASONS.get(reason))
    return [
        f"{explanation.output[stopped.index(reason)].text!r} {STOP_REASONS[reason]}"
        if affected == 1
        else f"{affected} of {count} {noun}: {PLURAL_STOP_REASONS[reason]}"
        for reason, affected in reasons.items()
    ]


def answer_warnings(explanation: Explanation) -> list[str]:
    """List the warnings about the answer as a whole: its own, or those of its parts if it was not measured."""
    if explanation.answer is None:
        return group_warnings(explanation)
    reason = row_warning(explanation.whole(), 0)
    return [f"the answer as a whole {reason}"] if reason else []


def collect_warnings(explanation: Explanation, target: int | None) -> list[str]:
    """List the warnings about one row, or about the answer as a whole and its parts where `target` is None."""
    if target is None:
        rows = list(dict.fromkeys(answer_warnings(explanation) + group_warnings(explanation)))
    else:
        reason = row_warning(explanation, target)
        rows = [f"{explanation.output[target].text!r} {reason}"] if reason else []
    return rows + [sanitize(line) for line in model_warnings(explanation)]


def has_open_ranking(explanation: Explanation, target: int) -> bool:
    """Whether the row's ranking is still open, which is common and milder than the other warnings."""
    return explanation.cost.stopped[target] == "unsettled"


def rank_intervals(explanation: Explanation, target: int) -> list[tuple[int, int] | None]:
    """Return the first and the last rank that the error of each context token allows (95 %).

    The list is empty without errors, and if the ranking does not follow the effects. Tokens with significantly larger
    effects rank before the first, those with smaller ones after the last. Equal scores have an order on the screen,
    but not in the ranking. Protected tokens have no rank, and only the MAX_RANKED highest scores are compared: the time
    stays linear in the length of the prompt, and nobody reads the ranks after them.
    """
    if explanation.effects is None or explanation.stderr is None or not explanation[target].is_ranked_by_effect:
        return []
    context = explanation.context(target)
    ranked = [i for i, token in enumerate(context) if not token.protected]
    score, effect, error = (
        np.array(rows[target])[ranked] for rows in (explanation.scores, explanation.effects, explanation.stderr)
    )
    with np.errstate(over="ignore"):  # errors of a file can be as large as a float
        margin = Z_95 * error
    intervals: list[tuple[int, int] | None] = [None] * len(context)
    for k in np.argsort(-score, kind="stable")[:MAX_RANKED]:
        i, s, e, m = ranked[k], score[k], effect[k], margin[k]
        apart = abs(effect - e) > np.hypot(margin, m)
        above, below = apart & (effect > e) & (score > s), apart & (effect < e) & (score < s)
        intervals[i] = (1 + int(above.sum()), len(ranked) - int(below.sum()))
    return intervals


def open_ranks(explanation: Explanation, target: int) -> list[str]:
    """Format the ranks that the error of each context token allows; empty where there is only one."""
    intervals = rank_intervals(explanation, target) or [None] * len(explanation.scores[target])
    return ["" if ranks is None or ranks[0] == ranks[1] else f"{ranks[0]}–{ranks[1]}" for ranks in intervals]


def effect_note(explanation: Explanation, target: int) -> Caption:
    """Explain the unit of the row's effects; empty where there is nothing to explain."""
    if not explanation.effects or explanation.effect_unit != "nats":
        return _response_note(explanation)
    row, noun = explanation[target], context_noun(explanation)
    alone = " alone" if row.sufficiency else ""  # the scores of such a method also rest on joint removals
    start = CaptionPart(f"nats: removing the {noun}{alone} makes the ")
    end = "; scores also count joint removals" if alone else ""
    if explanation.display_unit == explanation.unit and any(len(unit.ids) > 1 for unit in explanation.input):
        end += f"; the effects of the tokens of a {noun} are added"
    other = contrast_label(explanation, target)
    if not other:
        return [start, CaptionPart(f"answer e^effect times less likely (0.7: half){end}")]
    odds = [_quote(_target_name(explanation, target)), CaptionPart(" over "), _quote(other)]
    return [start, CaptionPart("odds of "), *odds, CaptionPart(f" e^effect times lower (0.7: half){end}")]


def _response_note(explanation: Explanation) -> Caption:
    """Explain effects on the answers of a text-only model; empty for other effects."""
    unit, score = join_values({"unit": explanation.effect_unit}, "unit"), join_values(explanation.model, "score")
    if not explanation.effects or not score:
        return []
    lost = "the log-likelihood of the original answer under the proxy falls"
    if not score.startswith("proxy:"):
        lost = "new answers fall from the original one, from 0 to 1"
    return [CaptionPart(f"{unit}: how far {lost} when the {context_noun(explanation)} is removed")]


def effect_heading(explanation: Explanation, errors: Iterable[float | None], space: str = " ") -> str:
    """Name the column of the effects with these errors; `space` is between the name and the unit."""
    unit = f"{space}({' '.join(sanitize(explanation.effect_unit).split())})" if explanation.effect_unit else ""
    return ("effect ± stderr" if any(errors) else "effect") + unit


def format_error(stderr: float | None, digits: int) -> str:
    """Format a standard error behind its number; an exact number has none.

    >>> format_error(0.25, 2), format_error(0.0, 2), format_error(None, 2)
    (' ± 0.25', '', '')
    """
    return f" ± {stderr:.{digits}f}" if stderr else ""


def effect_digits(explanation: Explanation) -> int:
    """Count the decimals that show three figures of the largest effect and one of the median error."""
    largest = max((abs(value) for row in explanation.effects or () for value in row), default=0.0)
    errors = [value for row in explanation.stderr or () for value in row if value > 0]
    decimals = [2 - floor(log10(largest))] if largest else [2]
    decimals += [-floor(log10(median(errors)))] if errors else []
    return min(6, max(0, *decimals))


def join_values(entries: Mapping[str, Any], *keys: str) -> str:
    """Join the values of these keys in one line; missing keys and empty values are skipped."""
    text = " ".join(str(entries[key]) for key in keys if entries.get(key))
    return " ".join(sanitize(text).split())


def _target_name(explanation: Explanation, target: int) -> str:
    return _shorten_name(all_labels(explanation)[len(explanation.input) + target])


def _quote(text: str) -> CaptionPart:
    return CaptionPart(text, quoted=True)


def _shorten_name(text: str) -> str:
    return shorten(text, NAME_LENGTH)
