"""Groups of units that act together: hypotheses, and joint removals that test them.

Two facts that say the same are redundant: the removal of either alone costs almost nothing, the removal of both costs
the answer. Hypotheses come from three sources:

- repetition: all occurrences of one word, of words of one stem (Italy, Italian), or of a name (Los Angeles),
- the surrogate: units with a large Shapley value and a small effect of their own,
- substitutes: units that matter in the probes that lack an important word, such as a paraphrase of it.

A hypothesis is tested by removing all its words, each with all its units, from the otherwise unchanged text. It is
redundant if this costs much, and if it costs clearly less as soon as any one of the words stays. Words without which
the others cost as much do not belong to the group and are left out one after another.

Words that follow one another are no group. The sentence that leads to the output belongs to a group only by
repetition: without some of its words the text asks for something else, which is a large joint effect of words that do
not say the same.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.methods.probe_set import ProbeSet
from reagent.methods.surrogate import Priors, Surrogate
from reagent.segmentation import split_sentences

Requests = Generator[list[Mask], None, None]  # sets of units that a search wants to have measured

MAX_REPETITIONS = 4  # repeated words that are tested for one target
STEM, STEM_SHARE = 4, 0.55  # letters that words of one stem share, and their share of the shorter word
MAX_SUSPECTS = 5  # units in the hypothesis of the surrogate
MAX_MEMBERS = 12
SIGNIFICANT = 1.5  # standard errors of a Shapley value, from which on a unit is a suspect
CLEAR = 0.15  # share of the largest Shapley value, from which on a unit is a suspect
HIDDEN = 0.25  # share of its Shapley value that the single effect of a suspect does not show
SMALLEST_EFFECT = 2.0  # nats: a joint effect that is reported
SMALLEST_SHARE = 0.2  # of the largest effect, not directly before the output: a joint effect that is reported
ENOUGH = 0.6  # redundant: if any one unit stays, at most this share of the joint effect is lost
REDUNDANT = 0.5  # … and the effects of the single words are together at most this share …
REPEATED = 0.7  # … or this one, if it is one word, stem or name, not only in the sentence that leads to the output
MAX_ALONE, MAX_PARTNERS = 3, 3  # important words without a group, and the words that each is tested with
LARGE = 0.25  # share of the largest value that makes a word important
PROBES_FOR_WORD = 16  # of the allowance, for each important word
FEWEST_PROBES = 12  # that lack a word, to look for its substitutes
LEAST_SURPLUS = 1.0  # nats beyond the single effects, from which on a word and its substitutes are tested further
PAIR_SHARE = 0.7  # of the joint effect of a word and all these words: a pair with a smaller share is not enough
COMPLETE = (".", "!", "。", "！", "।", "۔")  # ends of sentences that lead to no particular continuation …
CLOSING = "\"'”’»)]}」』）"  # … also before these
OVERLAP = 1.1  # complementary: the joint effect is at most this multiple of the largest single effect
COMPARABLE = 0.5  # complementary: each single effect is at least this share of the largest


class FoundGroup(NamedTuple):
    """A group of free units, before it becomes part of an explanation."""

    units: tuple[int, ...]
    kind: str
    effect: float
    stderr: float
    single: float
    share: float = REDUNDANT  # of the effect that the single effects may have

    @property
    def surplus(self) -> float:
        """What the group adds to the effects of its units."""
        return self.effect - self.single


@dataclass(frozen=True)
class RedundancySearch:
    """The search for the redundant groups of one target. Words are lists of units."""

    probes: ProbeSet
    target: int
    single: Floats  # effect of each unit alone, [units]
    shapley: tuple[Floats, Floats]  # and standard error
    near: Ids  # units directly before the output: they shape the question, and have no substitutes
    question: Ids  # units of the sentence that leads to the output: only repetition looks at them
    priors: Priors

    def run(self, found: list[FoundGroup], allowance: int) -> Requests:
        """Test the hypotheses and append the redundant groups to `found`; `allowance` is a number of probes."""
        hidden = [unit for unit in suspects(self.single, *self.shapley) if unit not in self.question]
        unseen = self.shapley[0] - np.maximum(self.single, 0.0)
        words = list(self._join(range(len(self.single))))
        hypotheses = [*repetitions(self.probes.case, words, self.probes.free, unseen), self._join(hidden)]
        yield [self._set_of(some) for some in hypotheses if len(some) > 1]
        for hypothesis in hypotheses:
            yield from self._test(hypothesis, found)
        left = [unit for unit in hidden if not _overlaps([unit], found)]
        if 1 < len(left) < len(hidden):
            yield from self._test(self._join(left), found)
        for word in self._important_words()[: allowance // (PROBES_FOR_WORD * self.probes.draws)]:
            if not _overlaps(word, found):
                yield from self._test_substitutes(word, found)

    @cached_property
    def _word_of(self) -> dict[int, list[int]]:
        """The word of each unit."""
        words = find_words(self.probes.case, self.probes.free[: len(self.single)])
        return {unit: word for word in words for unit in word}

    def _join(self, units: Iterable[int]) -> list[list[int]]:
        """The different words of these units, in order."""
        return list({self._word_of[unit][0]: self._word_of[unit] for unit in units}.values())

    def _set_of(self, words: Iterable[Sequence[int]]) -> Mask:
        return self.probes.set_of(_units(words))

    def _drops(self, sets: Iterable[Iterable[Sequence[int]]], missing: float) -> Floats:
        """What was measured for sets of words, and `missing` for those that were not."""
        results = [self.probes.result(self._set_of(words), self.target) for words in sets]
        return np.array([missing if result is None else result.drop for result in results])

    def _important_words(self) -> list[list[int]]:
        value = np.maximum(self.shapley[0], self.single)
        large = value >= LARGE * value.max(initial=0.0)
        large[[*self.near, *self.question]] = False
        return self._join(int(unit) for unit in np.argsort(-value, kind="stable") if large[unit])[:MAX_ALONE]

    def _test_substitutes(self, word: list[int], found: list[FoundGroup]) -> Requests:
        """Remove a word together with each of the words that matter where it is missing, and with all of them."""
        asking = {*self.near, *self.question}
        others = self._join(unit for unit in self.substitutes(word) if unit not in asking)
        others = [other for other in others if other != word and not _overlaps(other, found)][:MAX_PARTNERS]
        sets = [[word, other] for other in others] + [[word, *others]] * (len(others) > 1)
        if not sets:
            return
        yield [self._set_of(some) for some in sets]
        drops = self._drops(sets, -np.inf)
        best = int(np.argmax(drops[: len(others)]))
        if drops[best] < PAIR_SHARE * drops[-1]:  # no pair, but perhaps three or more
            best = len(sets) - 1
        if drops[best] - self.single[_units(sets[best])].sum() >= LEAST_SURPLUS * self.probes.nat:
            yield from self._test(sets[best], found)

    def substitutes(self, word: Sequence[int]) -> list[int]:
        """Units that matter where a word is missing, more than they do alone; best first.

        The probes that lack the word are a game of their own, in which what it says rests on its substitutes.
        """
        removed, drops = self.probes.known(self.target)
        missing = removed[:, list(word)].all(1)
        if missing.sum() < FEWEST_PROBES:
            return []
        value = Surrogate.fit(removed[missing], drops[missing], self.priors).shapley_values()[0]
        gain = value - np.maximum(self.single, 0.0)
        gain[list(word)] = -np.inf
        return [int(i) for i in np.argsort(-gain, kind="stable")[: 2 * MAX_PARTNERS] if gain[i] > 0]

    def _test(self, hypothesis: list[list[int]], found: list[FoundGroup]) -> Requests:
        """Remove the words jointly, leave out those that do not belong together, and append what is redundant."""
        words = [word for word in hypothesis if not _overlaps(word, found)]
        while len(words) > 1 and not self._is_phrase(words):
            yield [self._set_of(words)]
            joint = self.probes.result(self._set_of(words), self.target)
            if joint is None or joint.drop < SMALLEST_EFFECT * self.probes.nat:
                return
            fewer = [[other for other in words if other is not word] for word in words]
            yield [self._set_of(rest) for rest in fewer]
            drops = self._drops(fewer, np.inf)
            if drops.max() > ENOUGH * joint.drop:
                words = fewer[int(np.argmax(drops))]
                continue
            is_repeated = repetitions(self.probes.case, words, self.probes.free, self.single) == [words]
            asks = np.isin(_units(words), self.question).all()  # as the articles of a question
            share = REPEATED if is_repeated and not asks else REDUNDANT
            if self._is_redundant(words, joint.drop, share):
                units = tuple(sorted(_units(words)))
                total = float(self.single[list(units)].sum())
                found.append(FoundGroup(units, "redundant", joint.drop, joint.stderr, total, share))
            return

    def _is_redundant(self, words: list[list[int]], joint: float, share: float) -> bool:
        """Whether a joint effect is large, and well above the effects of the single words."""
        measured = self._drops([[word] for word in words], np.nan)
        sums = np.array([self.single[word].sum() for word in words])
        alone = np.where(np.isnan(measured), sums, measured).sum()
        largest = np.delete(self.single, self.near).max(initial=0.0)
        return bool(alone <= share * joint and joint >= SMALLEST_SHARE * largest)

    def _is_phrase(self, words: list[list[int]]) -> bool:
        """Whether the words follow one another within a sentence: they say one thing, and not the same thing twice."""
        units = self.probes.free[sorted(_units(words))]
        texts = [self.probes.case.units[unit].text for unit in units[:-1]]
        return bool((np.diff(units) == 1).all()) and all(text[-1:].isalnum() for text in texts)


def _text(case: Case, units: Ids) -> str:
    """A word without the space before it, in lower case."""
    return "".join(case.units[unit].text for unit in units).strip().casefold()


def _units(words: Iterable[Sequence[int]]) -> list[int]:
    return [unit for word in words for unit in word]


def _overlaps(word: Sequence[int], groups: Iterable[FoundGroup]) -> bool:
    return any(unit in group.units for group in groups for unit in word)


def find_question(case: Case, free: Ids) -> Ids:
    """The units of the sentence that leads to the output, [some of the positions in `free`].

    It is the last sentence of the prompt, or of the last message of a chat, if it is a question or is not complete.
    There is none if it is the whole prompt, or if the output is a text of its own.
    """
    end = case.messages[-1].end if case.messages else len(case.prompt)
    sentences = split_sentences(case.prompt[:end])
    last = case.prompt[slice(*sentences[-1])].rstrip().rstrip(CLOSING) if sentences else ""
    if case.separate or not last or last.endswith(COMPLETE):
        return np.empty(0, dtype=np.intp)
    inputs = free[free < len(case.input)]
    starts = np.array([case.units[unit].start for unit in inputs], dtype=np.intp)
    asks = (starts >= sentences[-1][0]) & (starts < end)
    return np.flatnonzero(asks) if 1 < asks.sum() < len(inputs) else np.empty(0, dtype=np.intp)


def inherit_groups(probes: ProbeSet, target: int, single: Floats, groups: Iterable[FoundGroup]) -> list[FoundGroup]:
    """The groups of the whole answer that also act together on one of its tokens, without further probes."""
    inherited = []
    for group in groups:
        joint, total = probes.result(probes.set_of(group.units), target), float(single[list(group.units)].sum())
        if joint is None or joint.drop < SMALLEST_EFFECT * probes.nat:
            continue
        if group.kind == "complementary" or total <= group.share * joint.drop:
            inherited.append(group._replace(effect=joint.drop, stderr=joint.stderr, single=total))
    return inherited


def find_complementary(probes: ProbeSet, target: int, single: Floats, found: list[FoundGroup]) -> Requests:
    """Test whether the units with the largest effects are needed together; append the group to `found`."""
    largest = single.max(initial=0.0)
    units = [int(i) for i in np.flatnonzero(single >= COMPARABLE * largest)]
    if largest < SMALLEST_EFFECT * probes.nat or not 2 <= len(units) <= MAX_SUSPECTS:
        return
    yield [probes.set_of(units)]
    joint = probes.result(probes.set_of(units), target)
    if joint is not None and joint.drop <= OVERLAP * largest:
        found.append(FoundGroup(tuple(units), "complementary", joint.drop, joint.stderr, float(single[units].sum())))


def repetitions(case: Case, words: list[list[int]], free: Ids, value: Floats) -> list[list[list[int]]]:
    """All occurrences of each repeated word, stem or name, those with the largest total `value` [units] first."""
    occurrences: dict[str, list[list[int]]] = {}
    for word in words:
        text = _text(case, free[word])
        if any(character.isalnum() for character in text):
            stem = next((other for other in occurrences if _same_stem(text, other)), text)
            occurrences.setdefault(stem, []).append(word)
    repeated: list[list[list[int]]] = []
    for some in occurrences.values():
        fits = repeated and len(_units(repeated[-1])) + len(_units(some)) <= MAX_MEMBERS
        if fits and _are_names(case, free, repeated[-1], some):
            repeated[-1] = [first + second for first, second in zip(repeated[-1], some, strict=True)]
        else:
            repeated.append(some)
    repeated = [some for some in repeated if len(some) > 1 and len(_units(some)) <= MAX_MEMBERS]
    return sorted(repeated, key=lambda some: -value[_units(some)].sum())[:MAX_REPETITIONS]


def _are_names(case: Case, free: Ids, first: list[list[int]], second: list[list[int]]) -> bool:
    """Whether each second word follows a first one, all with a capital letter: names of several words."""
    words = [*first, *second]
    is_capital = all(case.units[free[word[0]]].text.strip()[:1].isupper() for word in words)
    follows = [free[a[-1]] + 1 == free[b[0]] for a, b in zip(first, second, strict=False)]
    return is_capital and len(first) == len(second) and all(follows)


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
