"""Sentences and marks about groups of units and about the sufficiency test, which every view shows.

A change in a sentence is that of the answer: −7.9 nats after the removal of a group whose joint effect is 7.9. The
number after ± is a standard error, as beside the single effects; an exact number has none.
"""

from collections.abc import Sequence
from math import floor, log10
from typing import NamedTuple

from reagent.explanation import Explanation, Group, Sufficiency
from reagent.views.summary import (
    NAME_LENGTH,
    Caption,
    CaptionPart,
    context_noun,
    contrast_label,
    format_error,
    is_insufficient,
)
from reagent.views.text import all_labels, sanitize, shorten

UNKNOWN_RANK = 2**30  # ranks from here on are not known: the target is not among those that a server lists

MAX_MEMBERS = 5  # named in a sentence
MAX_GROUPS = 10  # listed in an overview of several output tokens
SMALL_SHARE = 0.8  # below it, a failed test says "only"
MISSED = "something that matters was not found."

LETTERS = "abcdefghijklmnoprstuvwxyz"  # Unicode has no superscript q
_SUPERSCRIPTS = str.maketrans(LETTERS + "0123456789", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ⁰¹²³⁴⁵⁶⁷⁸⁹")


class GroupText(NamedTuple):
    """A group in words; its letter marks the members in the running text."""

    letter: str
    units: tuple[int, ...]
    caption: Caption


class SufficiencyText(NamedTuple):
    """The result of the sufficiency test in one sentence."""

    passed: bool
    caption: Caption


def superscript(letters: str) -> str:
    """
    >>> superscript("ab")
    'ᵃᵇ'
    """
    return letters.translate(_SUPERSCRIPTS)


# --- groups ---


def describe_groups(explanation: Explanation, target: int) -> list[GroupText]:
    """Describe each group of one output token."""
    names = all_labels(explanation)
    return [
        GroupText(_letter(number), group.units, _group_caption(explanation, target, group, names))
        for number, group in enumerate(explanation[target].groups)
    ]


def group_letters(explanation: Explanation, target: int | None) -> dict[int, str]:
    """The letters of the groups of each member; empty for an overview, because groups belong to one output token."""
    letters: dict[int, list[str]] = {}
    for number, group in enumerate(() if target is None else explanation[target].groups):
        for position in group.units:
            letters.setdefault(position, []).append(_letter(number))
    return {position: "".join(own) for position, own in letters.items()}


def group_marks(explanation: Explanation, target: int | None) -> dict[int, str]:
    """The same letters as superscripts."""
    return {position: superscript(letters) for position, letters in group_letters(explanation, target).items()}


def group_captions(explanation: Explanation, target: int | None) -> list[Caption]:
    """One line for each group: after its mark, or with its output tokens in an overview of all."""
    if target is not None:
        return [
            [CaptionPart(f"{superscript(group.letter)} "), *group.caption]
            for group in describe_groups(explanation, target)
        ]
    names, targets = all_labels(explanation), list(_targets_of_groups(explanation).items())
    captions = [
        [
            *_members(units, names),
            CaptionPart(f": {_meaning(kind, units)} ("),
            *_outputs(explanation, rows, names),
            CaptionPart(")"),
        ]
        for (units, kind), rows in targets[:MAX_GROUPS]
    ]
    others = len(targets) - len(captions)
    if others:
        captions.append([CaptionPart(f"and {others} more {'group' if others == 1 else 'groups'}")])
    return captions


def _targets_of_groups(explanation: Explanation) -> dict[tuple[tuple[int, ...], str], list[int]]:
    """The output tokens that share a group with these units and of this kind."""
    targets: dict[tuple[tuple[int, ...], str], list[int]] = {}
    for t, groups in enumerate(explanation.groups):
        for group in groups:
            targets.setdefault((group.units, group.kind), []).append(t)
    return targets


def _meaning(kind: str, units: Sequence[int]) -> str:
    redundant = "either is enough" if len(units) == 2 else "any one is enough"
    return redundant if kind == "redundant" else "each is needed"


def _group_caption(explanation: Explanation, target: int, group: Group, names: Sequence[str]) -> Caption:
    together = "both" if len(group.units) == 2 else "all of them"
    decimals = _decimals(group.effect, group.stderr)
    unit = _unit(explanation, target, explanation.effect_unit)
    joint = f"without {together} {_change(group.effect, decimals, group.stderr)}{unit}"
    single = f"(one by one {_change(group.single, decimals)})"
    meaning = _meaning(group.kind, group.units)
    return [*_members(group.units, names), CaptionPart(f": {meaning}; {joint} {single}")]


def _members(units: Sequence[int], names: Sequence[str]) -> Caption:
    """Name the units with their positions, the first of them if there are many."""
    shown = units if len(units) <= MAX_MEMBERS else units[: MAX_MEMBERS - 1]
    members = [[_name(names, position), CaptionPart(f" ({position})")] for position in shown]
    if len(shown) < len(units):
        members.append([CaptionPart(f"{len(units) - len(shown)} more")])
    caption: Caption = []
    for number, member in enumerate(members):
        between = "" if number == 0 else " and " if number == len(members) - 1 else ", "
        caption += [CaptionPart(between), *member] if between else member
    return caption


# --- sufficiency ---


def describe_sufficiency(explanation: Explanation, target: int | None) -> SufficiencyText | None:
    """Say whether the important units alone lead to one output token, or to all; None without a test."""
    if target is None:
        return _overview_of_tests(explanation)
    test = explanation[target].sufficiency
    if test is None:
        return None
    verdict = CaptionPart("Sufficient: " if test.passed else "Not sufficient: ")
    body = _test_caption(explanation, target, test) if test.units else _empty_caption(explanation, target, test)
    return SufficiencyText(test.passed, [verdict, *body, CaptionPart("." if test.passed else f"; {MISSED}")])


def _test_caption(explanation: Explanation, target: int, test: Sufficiency) -> Caption:
    noun, whole = context_noun(explanation), "log-odds" if contrast_label(explanation, target) else "answer"
    count, decimals = len(test.units), _decimals(test.total, test.stderr)
    subject = [CaptionPart(f"the {count} most important {noun}s" if count > 1 else f"the most important {noun}")]
    if set(test.units) != {row.position for row in explanation.top(count, target)}:
        subject = _members(test.units, all_labels(explanation))
    loss, total = _change(test.effect, decimals, test.stderr), _change(test.total, decimals)
    plural, unit = "" if count > 1 else "s", f" {sanitize(explanation.effect_unit or 'nats')}"
    if test.share is None:
        return [
            *subject,
            CaptionPart(f" alone change{plural} the {whole} by {loss}{unit} (without all {noun}s {total})"),
        ]
    only = "only " if not test.passed and test.share < SMALL_SHARE else ""
    kept = f" alone keep{plural} {only}{100 * test.share:.0f} % of the {whole} ({loss} of {total}{unit})"
    fall = (
        ""
        if test.passed or not test.rank or test.rank >= UNKNOWN_RANK
        else f", and the answer falls to rank {test.rank + 1:,}"
    )
    return [*subject, CaptionPart(kept + fall)]


def _empty_caption(explanation: Explanation, target: int, test: Sufficiency) -> Caption:
    """A test without units."""
    unit = _unit(explanation, target, explanation.effect_unit or "nats")
    loss = f"{_change(test.total, _decimals(test.total, test.stderr))}{unit}"
    noun = context_noun(explanation)
    important = f"no {noun} is needed" if test.passed else f"no important {noun} was found"
    return [CaptionPart(f"{important} (without all of them {loss})")]


def _overview_of_tests(explanation: Explanation) -> SufficiencyText | None:
    count = sum(test is not None for test in explanation.sufficiency or ())
    if not count:
        return None
    failed = [t for t in range(len(explanation.output)) if is_insufficient(explanation, t)]
    subject = f"the most important {context_noun(explanation)}s alone"
    if not failed:
        tested = "" if count == len(explanation.output) else "tested "
        return SufficiencyText(
            True, [CaptionPart(f"Sufficient: {subject} lead to each of the {count} {tested}parts of the answer.")]
        )
    start = CaptionPart(f"Not sufficient for {len(failed)} of {count} parts of the answer (")
    them = "it" if len(failed) == 1 else "them"
    end = CaptionPart(f"): {subject} do not lead to {them}; {MISSED}")
    return SufficiencyText(False, [start, *_outputs(explanation, failed, all_labels(explanation)), end])


# --- names and numbers ---


def _letter(number: int) -> str:
    """
    >>> _letter(0), _letter(24), _letter(25)
    ('a', 'z', '26')
    """
    return LETTERS[number] if number < len(LETTERS) else str(number + 1)


def _name(names: Sequence[str], position: int) -> CaptionPart:
    """Name a unit; punctuation has quotation marks, because it would be read as that of the caption."""
    name = shorten(names[position], NAME_LENGTH)
    return CaptionPart(name if any(map(str.isalnum, name)) else f"“{name}”", quoted=True)


def _outputs(explanation: Explanation, targets: Sequence[int], names: Sequence[str]) -> Caption:
    """Name output tokens, the first of them if there are many."""
    shown = [_name(names, len(explanation.input) + t) for t in targets[:MAX_MEMBERS]]
    caption = [part for name in shown for part in (CaptionPart(", "), name)][1:]
    return caption if len(targets) <= MAX_MEMBERS else [*caption, CaptionPart(", …")]


def _unit(explanation: Explanation, target: int, unit: str | None) -> str:
    odds = " in log-odds" if contrast_label(explanation, target) else ""
    return f" {' '.join(sanitize(unit).split())}{odds}" if unit else odds


def _decimals(value: float, stderr: float | None) -> int:
    """Count the decimals that show two figures of the value and one of its error.

    >>> _decimals(7.9, 0.4), _decimals(7.9, 0.04), _decimals(120.0, None), _decimals(0.012, None)
    (1, 2, 1, 3)
    """
    needed = [1 - floor(log10(abs(value)))] if value else []
    needed += [-floor(log10(stderr))] if stderr else []
    return min(6, max(1, *needed)) if needed else 1


def _change(effect: float, decimals: int, stderr: float | None = None) -> str:
    """Format the change of the answer, which is the opposite of the effect.

    >>> _change(7.91, 1, 0.42), _change(7.91, 1, 0.0), _change(-0.5, 1), _change(0.01, 1)
    ('−7.9 ± 0.4', '−7.9', '+0.5', '0.0')
    """
    text = f"{-effect:+.{decimals}f}".replace("-", "−")
    text = text if text.strip("+−0.") else text[1:]
    return text + format_error(stderr, decimals)
