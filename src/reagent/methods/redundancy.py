"""Groups of units that act together: hypotheses, and joint removals that test them.

Two facts that say the same are redundant: the removal of either alone costs almost nothing, the removal of both costs
the answer. Hypotheses come from two sources:

- repetition: all occurrences of one word,
- the surrogate: units with a large Shapley value and a small effect of their own, such as a fact and its paraphrase.

A hypothesis is tested by removing all its units from the otherwise unchanged text. It is redundant if this costs much
more than the single removals together. Units that are not needed for that effect are then left out one after another.
"""

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.methods.probe_set import ProbeSet

Requests = Generator[list[Mask], None, None]  # sets of units that a search wants to have measured

MAX_REPETITIONS = 3  # repeated words that are tested for one target
MAX_SUSPECTS = 4  # units in the hypothesis of the surrogate
MAX_MEMBERS = 12
SIGNIFICANT = 1.5  # standard errors of a Shapley value, from which on a unit is a suspect
CLEAR = 0.15  # share of the largest Shapley value, from which on a unit is a suspect
SMALLEST_EFFECT = 1.0  # nats: a joint effect that is reported
SMALLEST_SHARE = 0.2  # of the largest effect: a joint effect that is reported
REDUNDANT = 0.5  # redundant: the single effects are together at most this share of the joint effect
NEEDED = 0.7  # a unit is left out if the others have at least this share of the joint effect
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
    probes: ProbeSet, target: int, single: Floats, shapley: tuple[Floats, Floats], found: list[FoundGroup]
) -> Requests:
    """Test the hypotheses and append the redundant groups to `found`."""
    hypotheses = [*repetitions(probes.case, probes.free, target, shapley[0]), suspects(single, *shapley)]
    yield [probes.set_of(units) for units in hypotheses if len(units) > 1]
    taken: set[int] = set()
    for hypothesis in hypotheses:
        units = [unit for unit in hypothesis if unit not in taken]
        if len(units) < 2:
            continue
        yield [probes.set_of(units)]
        joint = probes.result(probes.set_of(units), target)
        if joint is None or not _is_redundant(joint.drop, single[units]):
            continue
        while len(units) > 2:
            fewer = [[other for other in units if other != unit] for unit in units]
            yield [probes.set_of(rest) for rest in fewer]
            drops = [probes.result(probes.set_of(rest), target) for rest in fewer]
            best = max(range(len(units)), key=lambda i: -np.inf if drops[i] is None else drops[i].drop)
            if drops[best] is None or drops[best].drop < NEEDED * joint.drop:
                break
            units, joint = fewer[best], drops[best]
        largest = max(single.max(initial=0.0), joint.drop)
        if _is_redundant(joint.drop, single[units]) and joint.drop >= SMALLEST_SHARE * largest:
            found.append(FoundGroup(tuple(units), "redundant", joint.drop, joint.stderr, float(single[units].sum())))
            taken.update(units)


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


def repetitions(case: Case, free: Ids, target: int, value: Floats) -> list[list[int]]:
    """All occurrences of each repeated word before a target, the words with the largest total value first."""
    occurrences: dict[str, list[list[int]]] = {}
    for word in _words(case, free[: len(value)]):
        text = "".join(case.units[free[i]].text for i in word).strip().casefold()
        if any(character.isalnum() for character in text):
            occurrences.setdefault(text, []).append(word)
    repeated = [[i for word in words for i in word] for words in occurrences.values() if len(words) > 1]
    repeated = [units for units in repeated if len(units) <= MAX_MEMBERS and value[units].sum() > 0]
    return sorted(repeated, key=lambda units: -value[units].sum())[:MAX_REPETITIONS]


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
    """Units whose Shapley value is much larger than their single effect: others may say the same."""
    hidden = value - np.maximum(single, 0.0)
    order = np.argsort(-hidden, kind="stable")[:MAX_SUSPECTS]
    clear = (hidden > 0) & (value > SIGNIFICANT * stderr) & (value > CLEAR * value.max(initial=0.0))
    return sorted(int(i) for i in order if clear[i])


def _is_redundant(joint: float, single: Floats) -> bool:
    return joint >= SMALLEST_EFFECT and float(np.maximum(single, 0.0).sum()) <= REDUNDANT * joint
