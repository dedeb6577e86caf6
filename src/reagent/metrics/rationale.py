"""Ante and No.D: does the rationale contain the antecedent, and does it keep clear of the distractor?

For texts in which people have marked what the answer rests on and what has nothing to do with it. A rationale is
the `size` best units of a row that score above zero. It contains the antecedent if any of its units touches it,
and avoids the distractor if none does. Random's value is what a random choice of as many units gets, exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from reagent.case import Mask
from reagent.errors import InputError
from reagent.evaluation import Result, TargetResult
from reagent.explanation import Explanation, Token
from reagent.metrics.context import EvaluationContext
from reagent.segmentation import Span

RATIONALE = ("ante", "no_d")
SIZE = 5  # the paper's are 5 to 8


@dataclass(frozen=True)
class Annotation:
    """Characters of the prompt that the answer rests on, and characters that distract from it."""

    antecedent: tuple[Span, ...] = ()
    distractor: tuple[Span, ...] = ()

    @classmethod
    def of_texts(cls, prompt: str, antecedent: str | None = None, distractor: str | None = None) -> "Annotation":
        """By what stands there, which must stand there once.

        >>> Annotation.of_texts("She moved to Japan. (It rains.)", "Japan", "(It rains.)")
        Annotation(antecedent=((13, 18),), distractor=((20, 31),))
        """
        found = [() if text is None else (_once(prompt, text),) for text in (antecedent, distractor)]
        return cls(*found)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Which metrics it allows."""
        given = (self.antecedent, self.distractor)
        return tuple(name for name, spans in zip(RATIONALE, given, strict=True) if spans)


def rationale(
    subject: EvaluationContext, names: Sequence[str], annotation: Annotation, size: int | None
) -> list[list[Result]]:
    """The metrics `names` of RATIONALE of every explanation; the model is asked nothing.

    Without a `size`, a greedy search has the length that it found, and all others have SIZE.
    """
    spans = dict(zip(RATIONALE, (annotation.antecedent, annotation.distractor), strict=True))
    marked = {name: touching(subject.case.input, spans[name]) for name in names}
    for name, mask in marked.items():
        if not mask[~subject.case.protected[: len(mask)]].any():
            raise InputError(f"{name}: no unit of the prompt that may be scored touches {list(spans[name])}")
    return [[_result(name, subject, e, marked[name], size) for name in names] for e in range(len(subject.explanations))]


def touching(units: Sequence[Token], spans: Sequence[Span]) -> Mask:
    """Which units have a character, other than white space around them, inside one of the spans."""

    def inside(unit: Token) -> bool:
        if unit.end <= unit.start:  # a special token, whose text is its name
            return False
        start = unit.end - len(unit.text.lstrip()) if unit.text.strip() else unit.start
        end = unit.start + len(unit.text.rstrip()) if unit.text.strip() else unit.end
        return any(start < stop and end > begin for begin, stop in spans)

    return np.array([inside(unit) for unit in units])


def _result(name: str, subject: EvaluationContext, e: int, marked: Mask, size: int | None) -> Result:
    explanation = subject.explanations[e]
    targets = tuple(at_target(name, explanation, t, marked, size) for t in subject.targets)
    value, random = (float(np.mean([getattr(target, which) for target in targets])) for which in ("value", "random"))
    return Result(name, "found", True, value, 0.0, random, 0.0, draws=0, random_draws=0, targets=targets)


def at_target(name: str, explanation: Explanation, t: int, marked: Mask, size: int | None) -> TargetResult:
    """Whether the rationale of output token `t` does what metric `name` asks; `marked` are units of the prompt."""
    n = length(explanation, t) if size is None else size
    chosen = [one.position for one in explanation.top(n, t) if one.score > 0]
    hit = any(i < len(marked) and marked[i] for i in chosen)
    free = [i for i, unit in enumerate(explanation.context(t)) if not unit.protected]
    touched = sum(bool(marked[i]) for i in free if i < len(marked))
    missed = comb(len(free) - touched, len(chosen)) / comb(len(free), len(chosen))
    value, random = (hit, 1 - missed) if name == "ante" else (not hit, missed)
    return TargetResult(t, float(value), 0.0, random, 0.0)


def length(explanation: Explanation, t: int) -> int:
    """How long the rationale is: what a greedy search found, else SIZE."""
    return explanation.cost.steps[t] if explanation.method.get("id") == "greedy" else SIZE


def _once(prompt: str, text: str) -> Span:
    if not text.strip() or prompt.count(text) != 1:
        times = "is empty" if not text.strip() else f"stands in the prompt {prompt.count(text)} times"
        raise InputError(f"{text!r} {times}: give the part of the prompt that is meant, so that it stands there once")
    start = prompt.index(text)
    return start, start + len(text)
