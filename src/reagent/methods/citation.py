"""The sources of an answer, measured from both ends: each source removed alone, and each source kept alone.

A unit is a sentence of a document. A source is a unit or a whole document. A part is a sentence of the answer, or the
answer as a whole. The drop of a part is what it loses of its log-probability when some units are removed.

1. All units are removed. The drop `total` is what the documents are worth.
2. Each source is kept alone. This finds every source that is sufficient, also if others say the same, and the texts are
   short.
3. Each source is removed alone. This finds every source that is needed, also if it needs others beside it.
4. Sources that carry much alone are removed together, and all but one of them: they are redundant if each of them makes
   up for the others, and the others make up for it.
5. The smallest context that keeps the answer: the most important units, without those that can go.

The Shapley value of a unit is a weighted mean over all sets of other units. Steps 2 and 3 are the two sets with the
largest weights, and their mean is the importance. Compared with random sets (Cohen-Wang et al., 2024) it needs no
regression, and each of its numbers answers a question of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reagent.case import Floats, Mask
from reagent.citations import Mark, Redundancy, Source, by_importance
from reagent.methods.probe_set import Measurement, ProbeSet

FROM_DOCUMENTS = 2.0  # nats that the documents must be worth, …
FROM_DOCUMENTS_SHARE = 0.3  # … and their share of the log-probability without documents
NEEDED = 0.25  # share of `total` that is lost without a needed source
SUFFICIENT = 0.6  # share of `total` that a sufficient source gains alone
REDUNDANT = 0.33  # … and each of several redundant ones
MADE_UP = 0.25  # of `total`, that a redundant source carries without the others, and the others without it
PRUNED_SHARE, PRUNED_NATS = 0.1, 0.5  # of `total`, or nats: what a pruned context may lose
PREFIXES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48)  # numbers of units that are tried as a context


@dataclass(frozen=True)
class PartSources:
    """What was measured for one part of the answer. Indices of sentences are those of free units."""

    total: Measurement
    from_documents: bool
    documents: tuple[Source, ...]
    sentences: tuple[Source, ...]
    redundancies: tuple[Redundancy, ...]


class SourceSearch:
    """Measures the sources of all parts with the same probes.

    `documents` has the free units of each document.
    """

    def __init__(self, probes: ProbeSet, documents: Sequence[Sequence[int]]) -> None:
        self.probes, self.documents = probes, [list(units) for units in documents]
        self.units = len(probes.free)
        outputs = len(probes.case.output)
        self.whole = outputs if probes.whole is not None else 0
        self.parts = range(outputs)

    def run(self) -> None:
        """Measure everything that the budget allows, the most telling first."""
        every = np.ones((1, self.units), dtype=np.bool_)
        alone = ~np.eye(self.units, dtype=np.bool_)
        self._measure(np.concatenate([every, alone]))
        ranked = np.argsort(-self._gains_alone(), kind="stable")
        self._measure([self.probes.set_of([i]) for i in ranked])
        groups = [units for t in self.parts if len(units := self._sufficient(t)) > 1]
        self._measure([self.probes.set_of(units) for units in groups])
        self._measure([self._others(units, i) for units in groups for i in units])
        self._measure([self.probes.set_of(members) for t in self.parts if (members := self._redundant(t))])
        worth = [units for units in self.documents if len(units) > 1]
        self._measure([self.probes.all_but(units, self.whole) for units in worth])
        self._measure([self.probes.set_of(units) for units in worth])

    @property
    def _targets(self) -> list[int]:
        return sorted({*self.parts, self.whole})

    def _measure(self, sets: Mask | list[Mask]) -> None:
        if len(sets):
            self.probes.measure(np.array(sets), self.probes.draws)

    # --- what was measured ---

    def total(self, target: int) -> Measurement:
        """What a part loses without all documents."""
        result = self._drop(np.ones(self.units, dtype=np.bool_), target)
        assert result is not None, "the first probe removes everything"
        return result

    def _shared(self, target: int) -> float:
        """What the shares of the sources refer to: `total`, or what makes a part come from the documents if it is more.

        Without a lower limit, noise would be a large share of almost nothing.
        """
        return max(self.total(target).drop, FROM_DOCUMENTS)

    def _drop(self, removed: Mask, target: int) -> Measurement | None:
        """As `ProbeSet.result`, without results whose error is not known."""
        result = self.probes.result(removed, target)
        return result if result is not None and np.isfinite(result.stderr) else None

    def _gains_alone(self) -> Floats:
        """The largest share of its part that each unit carries alone, [units]."""
        gains = np.zeros(self.units)
        for t in self._targets:
            worth = self._shared(t)
            results = [self._drop(self.probes.all_but([i], t), t) for i in range(self.units)]
            shares = [0.0 if result is None else (self.total(t).drop - result.drop) / worth for result in results]
            gains = np.maximum(gains, shares)
        return gains

    def _sufficient(self, target: int) -> list[int]:
        """Units that carry much of a part alone."""
        total, least = self.total(target).drop, REDUNDANT * self._shared(target)
        results = [self._drop(self.probes.all_but([i], target), target) for i in range(self.units)]
        return [i for i, r in enumerate(results) if r is not None and total - r.drop >= least]

    def is_from_documents(self, target: int, logprob: float) -> bool:
        """Whether the documents make a part clearly more likely."""
        total = self._worth(target, logprob)
        return total >= max(FROM_DOCUMENTS, FROM_DOCUMENTS_SHARE * (total - logprob))

    def _worth(self, target: int, logprob: float) -> float:
        """What a part with this log-probability loses without all documents.

        `total` is what it loses of its log-probability with the units that were not set aside before.
        """
        values = self.probes.case.values
        value = values.sum() if target == self.whole else values[target]
        return float(logprob - value + self.total(target).drop)

    # --- the result ---

    def part(self, target: int, logprob: float) -> PartSources:
        """The sources of one part, which has this log-probability with all documents."""
        redundancies = self._redundancies(target)
        partners = {
            i: {j for r in redundancies if i in r.sentences for j in r.sentences} - {i} for i in range(self.units)
        }
        sentences = [self._source(i, [i], target, partners[i]) for i in range(self.units)]
        document_of = {i: number for number, units in enumerate(self.documents) for i in units}
        documents = []
        for number, units in enumerate(self.documents):
            others = {document_of[i] for unit in units for i in partners[unit]} - {number}
            documents.append(self._source(number, units, target, others))
        return PartSources(
            total=self.total(target)._replace(drop=self._worth(target, logprob)),
            from_documents=self.is_from_documents(target, logprob),
            documents=by_importance(documents),
            sentences=by_importance(sentences),
            redundancies=tuple(redundancies),
        )

    def _redundancies(self, target: int) -> list[Redundancy]:
        """Units that make up for each other; for the whole answer, those that do so for one of its sentences.

        Two units that carry one sentence each also keep much of the whole answer alone, but do not say the same.
        """
        worth = [t for t in self.parts if self.total(t).drop >= FROM_DOCUMENTS]
        targets = [target] if target in self.parts else worth
        groups = dict.fromkeys(members for t in targets if (members := self._redundant(t)))
        joint = {members: self._drop(self.probes.set_of(members), target) for members in groups}
        return [Redundancy(members, drop.drop, drop.stderr) for members, drop in joint.items() if drop is not None]

    def _redundant(self, target: int) -> tuple[int, ...]:
        """Units that carry much of a part alone and make up for each other."""
        units, total = self._sufficient(target), self.total(target).drop
        joint = self._drop(self.probes.set_of(units), target) if len(units) > 1 else None
        if joint is None:
            return ()
        most = joint.drop - MADE_UP * total  # that may be lost without one of them, or without all but one
        without = {i: (self.probes.set_of([i]), self._others(units, i)) for i in units}
        drops = {i: [self._drop(row, target) for row in rows] for i, rows in without.items()}
        members = tuple(i for i in units if all(drop is None or drop.drop <= most for drop in drops[i]))
        return members if len(members) > 1 else ()

    def _others(self, units: Sequence[int], unit: int) -> Mask:
        return self.probes.set_of([i for i in units if i != unit])

    def _source(self, index: int, units: Sequence[int], target: int, partners: set[int]) -> Source:
        total = self.total(target)
        without = self._drop(self.probes.set_of(units), target) if units else None
        only = self._drop(self.probes.all_but(units, target), target) if units else None
        effect = None if without is None else without.drop
        gain = None if only is None else total.drop - only.drop
        gain_stderr = None if only is None else float(np.hypot(only.stderr, total.stderr))
        worth = self._shared(target)
        shares = [min(1.0, max(0.0, value / worth)) for value in (effect or 0.0, gain or 0.0)]
        marks: list[Mark] = []
        if partners:
            marks.append("redundant")
        elif shares[0] >= NEEDED:
            marks.append("needed")
        if shares[1] >= SUFFICIENT:
            marks.append("sufficient")
        return Source(
            index=index,
            importance=float(np.mean(shares)),
            effect=effect,
            stderr=None if without is None else without.stderr,
            alone=gain,
            alone_stderr=gain_stderr,
            marks=tuple(marks),
            redundant_with=tuple(sorted(partners)),
        )

    # --- the smallest context ---

    def prune(self, logprob: float) -> list[int]:
        """The units of the smallest context that was found to keep the answer, in the order of the text."""
        if not self.is_from_documents(self.whole, logprob):
            return []
        order = [source.index for source in self.part(self.whole, logprob).sentences]
        allowed = max(PRUNED_SHARE * self.total(self.whole).drop, PRUNED_NATS)
        kept = self._shortest_prefix(order, allowed)
        while len(kept) > 1:
            shorter = [[i for i in kept if i != unit] for unit in kept]
            drops = self._drops_kept(shorter)
            best = int(np.argmin(drops))
            if drops[best] > allowed:
                break
            kept = shorter[best]
        return sorted(kept)

    def _shortest_prefix(self, order: list[int], allowed: float) -> list[int]:
        sizes = [size for size in PREFIXES if size < len(order)]
        for some in (sizes[:5], sizes[5:]):
            drops = self._drops_kept([order[:size] for size in some])
            for size, drop in zip(some, drops, strict=True):
                if drop <= allowed:
                    return order[:size]
        return order

    def _drops_kept(self, contexts: Sequence[Sequence[int]]) -> list[float]:
        """What the answer loses when only these units are kept."""
        sets = [self.probes.all_but(units, self.whole) for units in contexts]
        self._measure(sets)
        drops = [self._drop(row, self.whole) for row in sets]
        return [float("inf") if drop is None else drop.drop for drop in drops]
