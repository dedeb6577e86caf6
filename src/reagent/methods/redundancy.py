"""Groups of units that act together: hypotheses, and joint removals that test them.

Two facts that say the same are redundant: the removal of either alone costs almost nothing, the removal of both costs
the answer. Hypotheses come from two sources:

- repetition: all occurrences of one word, or of words of one stem (Italy, Italian),
- the surrogate: units with a large Shapley value and a small effect of their own, such as a fact and its paraphrase.

A hypothesis is tested by removing all its units from the otherwise unchanged text. It is redundant if this costs much,
and if it costs clearly less as soon as any one of the units stays. Units without which the others cost as much do not
belong to the group and are left out one after another.
"""

from collections.abc import Generator, Iterable
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.methods.probe_set import ProbeSet

Requests = Generator[list[Mask], None, None]  # sets of units that a search wants to have measured

MAX_REPETITIONS = 4  # repeated words that are tested for one target
STEM, STEM_SHARE = 4, 0.55  # letters that words of one stem share, and their share of the shorter word
MAX_SUSPECTS = 5  # units in the hypothesis of the surrogate
MAX_MEMBERS = 12
SIGNIFICANT = 1.5  # standard errors of a Shapley value, from which on a unit is a suspect
CLEAR = 0.15  # share of the largest Shapley value, from which on a unit is a suspect
HIDDEN = 0.25  # share of its Shapley value that the single effect of a suspect does not show
SMALLEST_EFFECT = 2.0  # nats: a joint effect that is reported
SMALLEST_SHARE = 0.2  # of the largest effect: a joint effect that is reported
ENOUGH = 0.6  # redundant: if any one unit stays, at most this share of the joint effect is lost
REDUNDANT = 0.35  # … and the single effects are together at most this share
MAX_ALONE, MAX_PARTNERS = 2, 4  # suspects without a group, and the units that each is tested with
OVERLAP = 1.1  # complementary: the joint effect is at most this multiple of the largest single effect
COMPARABLE = 0.5  # complementary: each single effect is at least this share of the largest


class FoundGroup(NamedTuple):
    """A group of free units, before it becomes part of an explanation."""

    units: tuple[int, ...]
    kind: str
    effect: float
    stderr: float
    single: float

    @property
    def surplus(self) -> float:
        """What the group adds to the effects of its units."""
        return self.effect - self.single


def find_redundant(
    probes: ProbeSet,
    target: int,
    single: Floats,
    shapley: tuple[Floats, Floats],
    interactions: Floats,
    found: list[FoundGroup],
) -> Requests:
    """Test the hypotheses and append the redundant groups to `found`. `interactions` are those of the surrogate."""
    hidden = suspects(single, *shapley)
    unseen = shapley[0] - np.maximum(single, 0.0)
    hypotheses = [*repetitions(probes.case, probes.free, unseen), hidden]
    yield [probes.set_of(units) for units in hypotheses if len(units) > 1]
    for hypothesis in hypotheses:
        yield from _test_hypothesis(probes, target, single, hypothesis, found)
    left = [unit for unit in hidden if not any(unit in group.units for group in found)]
    if 1 < len(left) < len(hidden):
        yield from _test_hypothesis(probes, target, single, left, found)
    for unit in hidden[:MAX_ALONE]:
        pairs = [[unit, int(other)] for other in np.argsort(-interactions[unit])[:MAX_PARTNERS] if other != unit]
        if pairs and not any(unit in group.units for group in found):
            yield [probes.set_of(pair) for pair in pairs]
            joints = [probes.result(probes.set_of(pair), target) for pair in pairs]
            best = max(range(len(pairs)), key=lambda i: -np.inf if joints[i] is None else joints[i].drop)  # type: ignore[union-attr]
            yield from _test_hypothesis(probes, target, single, pairs[best], found)


def _test_hypothesis(
    probes: ProbeSet, target: int, single: Floats, hypothesis: list[int], found: list[FoundGroup]
) -> Requests:
    """Remove the units jointly, leave out those that do not belong together, and append what is redundant."""
    units = [unit for unit in hypothesis if not any(unit in group.units for group in found)]
    while len(units) > 1:
        fewer = [[other for other in units if other != unit] for unit in units]
        yield [probes.set_of(units)]
        joint = probes.result(probes.set_of(units), target)
        if joint is None or joint.drop < SMALLEST_EFFECT:
            return
        yield [probes.set_of(rest) for rest in fewer]
        drops = [probes.result(probes.set_of(rest), target) for rest in fewer]
        rests = np.array([np.inf if drop is None else drop.drop for drop in drops])
        if rests.max() <= ENOUGH * joint.drop:
            units = sorted(units)
            total = float(single[units].sum())
            if total <= REDUNDANT * joint.drop and joint.drop >= SMALLEST_SHARE * single.max(initial=0.0):
                found.append(FoundGroup(tuple(units), "redundant", joint.drop, joint.stderr, total))
            return
        units = fewer[int(np.argmax(rests))]


def inherit_groups(probes: ProbeSet, target: int, single: Floats, groups: Iterable[FoundGroup]) -> list[FoundGroup]:
    """The groups of the whole answer that also act together on one of its tokens, without further probes."""
    inherited = []
    for group in groups:
        joint, total = probes.result(probes.set_of(group.units), target), float(single[list(group.units)].sum())
        if joint is None or joint.drop < SMALLEST_EFFECT:
            continue
        if group.kind == "complementary" or total <= REDUNDANT * joint.drop:
            inherited.append(FoundGroup(group.units, group.kind, joint.drop, joint.stderr, total))
    return inherited


def find_complementary(probes: ProbeSet, target: int, single: Floats, found: list[FoundGroup]) -> Requests:
    """Test whether the units with the largest effects are needed together; append the group to `found`."""
    largest = single.max(initial=0.0)
    units = [int(i) for i in np.flatnonzero(single >= COMPARABLE * largest)]
    if largest < SMALLEST_EFFECT or not 2 <= len(units) <= MAX_SUSPECTS:
        return
    yield [probes.set_of(units)]
    joint = probes.result(probes.set_of(units), target)
    if joint is not None and joint.drop <= OVERLAP * largest:
        found.append(FoundGroup(tuple(units), "complementary", joint.drop, joint.stderr, float(single[units].sum())))


def repetitions(case: Case, free: Ids, value: Floats) -> list[list[int]]:
    """All occurrences of each repeated word or stem, those with the largest total `value` [units] first."""
    occurrences: dict[str, list[list[int]]] = {}
    for word in _words(case, free[: len(value)]):
        text = "".join(case.units[free[i]].text for i in word).strip().casefold()
        if any(character.isalnum() for character in text):
            stem = next((other for other in occurrences if _same_stem(text, other)), text)
            occurrences.setdefault(stem, []).append(word)
    repeated = [[i for word in words for i in word] for words in occurrences.values() if len(words) > 1]
    repeated = [units for units in repeated if len(units) <= MAX_MEMBERS]
    return sorted(repeated, key=lambda units: -value[units].sum())[:MAX_REPETITIONS]


def _same_stem(word: str, other: str) -> bool:
    """Whether two words begin with the same letters, and most of the shorter one is the same.

    >>> [_same_stem(*pair) for pair in (("italy", "italian"), ("greece", "greek"), ("garage", "garden"), ("in", "in"))]
    [True, True, False, True]
    """
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))))
    return word == other or (same >= STEM and same >= STEM_SHARE * min(len(word), len(other)))


def _words(case: Case, free: Ids) -> list[list[int]]:
    """The free units, joined where a word has several tokens."""
    words: list[list[int]] = []
    for i, unit in enumerate(free):
        text = case.units[unit].text
        inside = text[:1].isalnum() and words and free[words[-1][-1]] == unit - 1
        if inside and case.units[unit - 1].text[-1:].isalnum():
            words[-1].append(i)
        else:
            words.append([i])
    return words


def suspects(single: Floats, value: Floats, stderr: Floats) -> list[int]:
    """Units with a Shapley value much larger than their single effect: others may say the same; best first."""
    hidden = value - np.maximum(single, 0.0)
    clear = (hidden > HIDDEN * value) & (value > SIGNIFICANT * stderr) & (value > CLEAR * value.max(initial=0.0))
    return [int(i) for i in np.argsort(-hidden, kind="stable")[:MAX_SUSPECTS] if clear[i]]
