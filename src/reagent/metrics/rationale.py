"""Ante and No.D: does the rationale contain the antecedent, and does it avoid the distractor?

These metrics need texts in which people marked the antecedent, on which the answer depends, and a distractor, which is
irrelevant to it. A rationale is the `size` best units of a row whose scores are positive. A prompt may mention the
antecedent several times. Ante has two measures:

    found: a unit of the rationale overlaps a mention
    all:   every mention is overlapped by a unit of the rationale

No.D has the measure `found`: no unit of the rationale overlaps the distractor. The value of random attributions is
exact: the probability for a random choice of as many units. Groups of an explanation do not extend the rationale: a
member of a group counts only if it is itself among the `size` best units.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from reagent.case import Mask
from reagent.errors import InputError
from reagent.evaluation import Result, TargetResult
from reagent.explanation import Explanation, Token
from reagent.metrics.context import EvaluationContext
from reagent.models.base import Model
from reagent.segmentation import Span

if TYPE_CHECKING:  # the config imports the metrics
    from reagent.metrics.config import EvaluationConfig

SIZE = 5  # the paper uses 5 to 8
FOUND, ALL = "found", "all"
Units = frozenset[int]


@dataclass(frozen=True)
class Annotation:
    """Characters of the prompt on which the answer depends, and characters that are irrelevant to it."""

    antecedent: tuple[Span, ...] = ()
    distractor: tuple[Span, ...] = ()

    @classmethod
    def of_texts(cls, prompt: str, antecedent: str | None = None, distractor: str | None = None) -> "Annotation":
        """From parts of the prompt, each of which must occur in it exactly once.

        >>> Annotation.of_texts("She moved to Japan. (It rains.)", "Japan", "(It rains.)")
        Annotation(antecedent=((13, 18),), distractor=((20, 31),))
        """
        return cls(*(() if text is None else (_find_unique(prompt, text),) for text in (antecedent, distractor)))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that it is sufficient for."""
        return tuple(name for name, metric in RATIONALE_METRICS.items() if metric.spans(self))


@dataclass(frozen=True)
class RationaleMetric:
    """Whether the rationale overlaps marked characters (ante), or does not (no_d)."""

    id: str
    summary: str
    mark: str  # the field of Annotation
    wants_overlap: bool
    measures: tuple[str, ...] = (FOUND,)
    higher_is_better: bool = True
    needs: str = "annotations"
    blind_to: str = "people may find other parts important than the model used"

    def spans(self, annotation: Annotation) -> tuple[Span, ...]:
        return annotation.antecedent if self.mark == "antecedent" else annotation.distractor

    def check(self, model: Model, config: "EvaluationConfig") -> None:
        del model
        if config.annotation is None or not self.spans(config.annotation):
            raise InputError(
                f"metric {self.id!r} needs an annotation: which characters of the prompt are the {self.mark}"
            )

    def measure(self, context: EvaluationContext) -> list[list[Result]]:
        """Makes no forward pass."""
        assert context.config.annotation is not None  # `check` ran before
        spans = self.spans(context.config.annotation)
        mentions = find_mentions(context.case.input, spans)
        if not any(mentions):
            raise InputError(f"{self.id}: no unit of the prompt that may be scored overlaps {list(spans)}")
        return [
            [self._result(context, explanation, mentions, measure) for measure in self.measures]
            for explanation in context.explanations
        ]

    def measure_target(
        self,
        explanation: Explanation,
        t: int,
        mentions: Sequence[Units],
        size: int | None = None,
        measure: str = FOUND,
    ) -> TargetResult:
        """The value at output token `t`; `mentions` are units of the prompt, `size` is as in `rationale_size`."""
        size = rationale_size(explanation, t) if size is None else size
        rationale = {unit.position for unit in explanation.top(size, t) if unit.score > 0}
        free = sum(not unit.protected for unit in explanation.context(t))
        wanted = list(mentions) if measure == ALL else [Units().union(*mentions)]
        overlaps = all(units & rationale for units in wanted)
        random = share_with_overlap(wanted, free, len(rationale))
        return TargetResult(
            t, float(overlaps == self.wants_overlap), 0.0, random if self.wants_overlap else 1 - random, 0.0
        )

    def _result(
        self, context: EvaluationContext, explanation: Explanation, mentions: Sequence[Units], measure: str
    ) -> Result:
        size = context.config.rationale
        targets = tuple(self.measure_target(explanation, t, mentions, size, measure) for t in context.targets)
        value, random = (float(np.mean([getattr(target, name) for target in targets])) for name in ("value", "random"))
        return Result(self.id, measure, True, value, 0.0, random, 0.0, draws=0, random_draws=0, targets=targets)


RATIONALE_METRICS = {
    metric.id: metric
    for metric in (
        RationaleMetric(
            "ante",
            "whether the rationale contains the antecedent, and all its mentions",
            "antecedent",
            wants_overlap=True,
            measures=(FOUND, ALL),
        ),
        RationaleMetric("no_d", "whether the rationale avoids the distractor", "distractor", wants_overlap=False),
    )
}


def units_in_spans(units: Sequence[Token], spans: Sequence[Span]) -> Mask:
    """Which units overlap one of the spans; white space around a unit does not count."""

    def overlaps(unit: Token) -> bool:
        if unit.end <= unit.start:  # a special token, whose text is its name
            return False
        start = unit.end - len(unit.text.lstrip()) if unit.text.strip() else unit.start
        end = unit.start + len(unit.text.rstrip()) if unit.text.strip() else unit.end
        return any(start < stop and end > begin for begin, stop in spans)

    return np.array([overlaps(unit) for unit in units])


def find_mentions(units: Sequence[Token], spans: Sequence[Span]) -> list[Units]:
    """The units of each span that are not protected; a span without any is left out."""
    free = [not unit.protected for unit in units]
    mentions = (Units(np.flatnonzero(units_in_spans(units, [span]) & free).tolist()) for span in spans)
    return [mention for mention in mentions if mention]


def share_with_overlap(mentions: Sequence[Units], units: int, size: int) -> float:
    """The share of all choices of `size` out of `units` that contain a unit of every mention.

    By inclusion and exclusion. Unions of mentions count only by their size and by the units that later mentions share
    with them, so that many mentions take no longer than their overlaps require.

    >>> share_with_overlap([Units({0})], 4, 1), share_with_overlap([Units({0}), Units({3})], 4, 2)
    (0.25, 0.16666666666666666)
    """
    terms = Counter({(0, Units()): 1})  # (size of the union, its units in later mentions) → signed number of unions
    for i, mention in enumerate(mentions):
        later = Units().union(*mentions[i + 1 :])
        extended: Counter[tuple[int, Units]] = Counter()
        for (count, shared), sign in terms.items():
            extended[count, shared & later] += sign
            extended[count + len(mention - shared), (shared | mention) & later] -= sign
        terms = extended
    return sum(sign * comb(units - count, size) for (count, _), sign in terms.items()) / comb(units, size)


def rationale_size(explanation: Explanation, t: int) -> int:
    """The length of a greedy search's result, and SIZE for all other methods."""
    return explanation.cost.steps[t] if explanation.method.get("id") == "greedy" else SIZE


def _find_unique(prompt: str, text: str) -> Span:
    if not text.strip() or prompt.count(text) != 1:
        problem = "is empty" if not text.strip() else f"occurs in the prompt {prompt.count(text)} times"
        raise InputError(f"{text!r} {problem}: give a part of the prompt that occurs exactly once")
    start = prompt.index(text)
    return start, start + len(text)
