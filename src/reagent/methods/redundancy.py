"""Groups of units that act together: hypotheses, and joint removals that test them.

Two facts that say the same are redundant: the removal of either alone costs almost nothing, the removal of both costs
the answer. Hypotheses come from three sources:

- repetition: all occurrences of one word, or of words of one stem (Italy, Italian),
- the surrogate: units with a large Shapley value and a small effect of their own,
- substitutes: units that matter in the probes that lack an important word, such as a paraphrase of it.

A hypothesis is tested by removing all its words, each with all its units, from the otherwise unchanged text. It is
redundant if this costs much, and if it costs clearly less as soon as any one of the words stays. Words without which
the others cost as much do not belong to the group and are left out one after another.
"""

from collections.abc import Generator, Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.methods.probe_set import ProbeSet
from reagent.methods.surrogate import Surrogate

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
REDUNDANT = 0.5  # … and the effects of the single words are together at most this share
MAX_ALONE, MAX_PARTNERS = 3, 3  # important words without a group, and the words that each is tested with
LARGE = 0.25  # share of the largest value that makes a word important
FEWEST_PROBES = 12  # that lack a word, to look for its substitutes
LEAST_SURPLUS = 1.0  # nats beyond the single effects, from which on a word and its substitutes are tested further
PAIR_SHARE = 0.7  # of the joint effect of a word and all these words: a pair with a smaller share is not enough
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
    surrogate: Surrogate,
    near: Ids,
    found: list[FoundGroup],
) -> Requests:
    """Test the hypotheses and append the redundant groups to `found`.

    The units `near` the output shape the question, and no substitutes of them are looked for.
    """
    words = find_words(probes.case, probes.free[: len(single)])
    word_of = {unit: word for word in words for unit in word}
    hidden = suspects(single, *shapley)
    unseen = shapley[0] - np.maximum(single, 0.0)
    hypotheses = [*repetitions(probes.case, words, probes.free, unseen), _join(hidden, word_of)]
    yield [probes.set_of(_units(some)) for some in hypotheses if len(some) > 1]
    for hypothesis in hypotheses:
        yield from _test_hypothesis(probes, target, single, hypothesis, found)
    left = [unit for unit in hidden if not _is_in(unit, found)]
    if 1 < len(left) < len(hidden):
        yield from _test_hypothesis(probes, target, single, _join(left, word_of), found)
    value = np.maximum(shapley[0], single)
    large = value >= LARGE * value.max(initial=0.0)
    large[near] = False
    order = [int(unit) for unit in np.argsort(-value, kind="stable") if large[unit]]
    for word in _join(order, word_of)[:MAX_ALONE]:
        if not any(_is_in(unit, found) for unit in word):
            yield from _test_substitutes(probes, target, single, surrogate, near, word_of, word, found)


def _test_substitutes(
    probes: ProbeSet,
    target: int,
    single: Floats,
    surrogate: Surrogate,
    near: Ids,
    word_of: dict[int, list[int]],
    word: list[int],
    found: list[FoundGroup],
) -> Requests:
    """Remove a word together with each of the words that matter where it is missing, and with all of them."""
    candidates = [i for i in substitutes(probes, target, single, surrogate, word) if i not in near]
    others = [other for other in _join(candidates, word_of) if other != word]
    others = [other for other in others if not any(_is_in(i, found) for i in other)][:MAX_PARTNERS]
    sets = [[word, other] for other in others] + [[word, *others]] * (len(others) > 1)
    if not sets:
        return
    yield [probes.set_of(_units(some)) for some in sets]
    joints = [probes.result(probes.set_of(_units(some)), target) for some in sets]
    drops = [-np.inf if joint is None else joint.drop for joint in joints]
    best = int(np.argmax(drops[: len(others)]))
    if drops[best] < PAIR_SHARE * drops[-1]:  # no pair, but perhaps three or more
        best = len(sets) - 1
    if drops[best] - single[_units(sets[best])].sum() < LEAST_SURPLUS:
        return
    yield from _test_hypothesis(probes, target, single, sets[best], found)


def substitutes(probes: ProbeSet, target: int, single: Floats, surrogate: Surrogate, word: Sequence[int]) -> list[int]:
    """Units that matter where a word is missing, more than they do alone; best first.

    The probes that lack the word are a game of their own, in which what it says rests on its substitutes.
    """
    removed, drops = probes.known(target)
    missing = removed[:, list(word)].all(1)
    if missing.sum() < FEWEST_PROBES:
        return []
    value = Surrogate.fit(removed[missing], drops[missing], surrogate.priors).shapley_values()[0]
    gain = value - np.maximum(single, 0.0)
    gain[list(word)] = -np.inf
    return [int(i) for i in np.argsort(-gain, kind="stable")[: 2 * MAX_PARTNERS] if gain[i] > 0]


def _join(units: Iterable[int], word_of: dict[int, list[int]]) -> list[list[int]]:
    """The different words of these units, in order."""
    return list({word_of[unit][0]: word_of[unit] for unit in units}.values())


def _units(words: Iterable[Sequence[int]]) -> list[int]:
    return [unit for word in words for unit in word]


def _is_in(unit: int, groups: Iterable[FoundGroup]) -> bool:
    return any(unit in group.units for group in groups)


def _test_hypothesis(
    probes: ProbeSet, target: int, single: Floats, hypothesis: list[list[int]], found: list[FoundGroup]
) -> Requests:
    """Remove the words jointly, leave out those that do not belong together, and append what is redundant."""
    words = [word for word in hypothesis if not any(_is_in(unit, found) for unit in word)]
    while len(words) > 1 and not _is_phrase(probes, words):
        fewer = [[other for other in words if other is not word] for word in words]
        units = sorted(_units(words))
        yield [probes.set_of(units)]
        joint = probes.result(probes.set_of(units), target)
        if joint is None or joint.drop < SMALLEST_EFFECT:
            return
        yield [probes.set_of(_units(rest)) for rest in fewer]
        drops = [probes.result(probes.set_of(_units(rest)), target) for rest in fewer]
        rests = np.array([np.inf if drop is None else drop.drop for drop in drops])
        if rests.max() <= ENOUGH * joint.drop:
            alone = sum(_word_effect(probes, target, single, word) for word in words)
            if alone <= REDUNDANT * joint.drop and joint.drop >= SMALLEST_SHARE * single.max(initial=0.0):
                total = float(single[units].sum())
                found.append(FoundGroup(tuple(units), "redundant", joint.drop, joint.stderr, total))
            return
        words = fewer[int(np.argmax(rests))]


def _word_effect(probes: ProbeSet, target: int, single: Floats, word: Sequence[int]) -> float:
    """The effect of a word: measured, or the sum of its units."""
    result = probes.result(probes.set_of(word), target)
    return float(single[list(word)].sum()) if result is None else result.drop


def _is_phrase(probes: ProbeSet, words: list[list[int]]) -> bool:
    """Whether the words follow one another within a sentence: they say one thing, and not the same thing twice."""
    units = probes.free[sorted(_units(words))]
    texts = [probes.case.units[unit].text for unit in units[:-1]]
    return bool((np.diff(units) == 1).all()) and all(text[-1:].isalnum() for text in texts)


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


def repetitions(case: Case, words: list[list[int]], free: Ids, value: Floats) -> list[list[list[int]]]:
    """All occurrences of each repeated word or stem, those with the largest total `value` [units] first."""
    occurrences: dict[str, list[list[int]]] = {}
    for word in words:
        text = "".join(case.units[free[i]].text for i in word).strip().casefold()
        if any(character.isalnum() for character in text):
            stem = next((other for other in occurrences if _same_stem(text, other)), text)
            occurrences.setdefault(stem, []).append(word)
    repeated = [some for some in occurrences.values() if len(some) > 1 and len(_units(some)) <= MAX_MEMBERS]
    return sorted(repeated, key=lambda some: -value[_units(some)].sum())[:MAX_REPETITIONS]


def _same_stem(word: str, other: str) -> bool:
    """Whether two words begin with the same letters, and most of the shorter one is the same.

    >>> [_same_stem(*pair) for pair in (("italy", "italian"), ("greece", "greek"), ("garage", "garden"), ("in", "in"))]
    [True, True, False, True]
    """
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))))
    return word == other or (same >= STEM and same >= STEM_SHARE * min(len(word), len(other)))


def find_words(case: Case, free: Ids) -> list[list[int]]:
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
