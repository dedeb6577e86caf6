"""Hierarchical attribution: explain a long text by large units, then by smaller units inside the important ones.

Scores add up across levels. The score of an expanded unit is distributed among its parts in proportion to their own
scores; a unit that is not expanded keeps its score. Effects are measured at the level of their own unit.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.errors import InputError
from reagent.methods.base import Attribution, Method, Progress
from reagent.methods.shortening import Shortener, ShortText
from reagent.models.base import Model
from reagent.replacers.base import Proposals, no_proposals

EXPANDED_SHARE = 0.8  # units are expanded until they cover this share of the score …
MAX_EXPANDED_TOKENS = 96  # … or this number of tokens
Groups = Sequence[int | None]  # the unit of every prompt token; None: the token is protected


@runtime_checkable
class SupportsHierarchy(Protocol):
    """A method that can divide its work between levels (needed by several levels)."""

    def for_level(self, level: int, levels: int) -> Method:
        """The same method with its share of the probes."""
        ...


class LevelResult(NamedTuple):
    """The result of one level: its units, their proposals and their attribution."""

    case: Case
    proposals: Proposals
    attribution: Attribution


# Called with the progress, and with the results so far if there is a partial result, otherwise with an empty list.
LevelProgressCallback = Callable[[Progress, list[LevelResult]], None]


def attribute_hierarchically(
    method: Method,
    model: Model,
    case: Case,
    proposals: Proposals,
    groupings: Sequence[Groups],
    rng: np.random.Generator,
    on_progress: LevelProgressCallback,
    shortener: Shortener | None = None,
) -> list[LevelResult]:
    """Explain `case`, whose units are tokens, by `groupings` from coarse to fine. The last result is the finest.

    With a `shortener`, every level is explained in a short text, by a method that replaces nothing.
    """
    results: list[LevelResult] = []
    groups = groupings[0]
    generators = [rng] if len(groupings) == 1 else rng.spawn(len(groupings))
    for level, (grouping, own_rng) in enumerate(zip(groupings, generators, strict=True)):
        expanded = _units_to_expand(results[-1]) if results else None
        if expanded is not None:
            groups = _refine(groups, grouping, results[-1].case, expanded)
        units = case.grouped(groups)
        table = proposals.grouped(units, own_rng)
        part = method.for_level(level, len(groupings)) if isinstance(method, SupportsHierarchy) else method
        fresh, visible = ~units.protected, units
        if expanded is not None:
            inside = expanded[results[-1].case.unit_of[units.unit_starts[:-1]]]
            table, fresh = table.restricted_to(inside), fresh & inside
            visible = _protect(units, ~fresh)
        if getattr(part, "replaces", True):
            fresh = table.replaceable
        if proposals.replaceable.any() and not table.replaceable[: len(units.input)].any():
            raise InputError("there is nothing to replace: the replacer has no proposal for any of the requested units")

        short = None
        if shortener is not None:
            passed_over = None if expanded is None else (~fresh & ~units.protected)[: len(units.input)]
            short = shortener.shorten(visible, passed_over)

        def result_of(
            attribution: Attribution,
            units: Case = units,
            table: Proposals = table,
            fresh: Mask = fresh,
            short: ShortText | None = short,
        ) -> LevelResult:
            attribution = attribution if short is None else short.restore(attribution)
            combined = _combine(attribution, units, results[-1], fresh) if results else attribution
            return LevelResult(units, table, combined)

        def report(progress: Progress, result_of: Callable[[Attribution], LevelResult] = result_of) -> None:
            done = results[-1].attribution.probes if results else 0
            partial = progress.partial
            shown = [*results, result_of(partial)] if isinstance(partial, Attribution) else []
            on_progress(Progress(progress.done + done, progress.total + done, progress.unit), shown)

        text, own_table = (visible, table) if short is None else (short.case, no_proposals(short.case))
        results.append(result_of(part.attribute(model, text, own_table, own_rng, report)))
    return results


def _protect(case: Case, units: Mask) -> Case:
    """The same case with more protected input units."""
    marked = (
        replace(unit, protected=unit.protected or bool(more)) for unit, more in zip(case.input, units, strict=False)
    )
    return replace(case, input=tuple(marked))


def _units_to_expand(result: LevelResult) -> Mask:
    """The prompt units with the highest scores for the answer as a whole, or on average over the output, [units]."""
    case, attribution = result.case, result.attribution
    rows = attribution.scores if attribution.answer is None else attribution.answer.scores
    score = np.mean([row[: len(case.input)] for row in rows], axis=0)
    expanded, covered, tokens = np.zeros(len(case.units), dtype=np.bool_), 0.0, 0
    for i in np.argsort(-score, kind="stable"):
        size = len(case.input[i].ids)
        if score[i] > 0 and not (expanded.any() and tokens + size > MAX_EXPANDED_TOKENS):
            expanded[i], covered, tokens = True, covered + score[i], tokens + size
        if covered >= EXPANDED_SHARE * score.sum():
            break
    return expanded


def _refine(groups: Groups, finer: Groups, coarse: Case, expanded: Mask) -> list[int | None]:
    """Groups of the next level: finer groups inside expanded units, the same groups elsewhere."""
    numbers: dict[tuple[int, ...], int] = {}
    refined: list[int | None] = []
    for group, fine, unit in zip(groups, finer, coarse.unit_of, strict=False):
        key = (int(unit), -1 if fine is None else fine) if expanded[unit] else (int(unit),)
        refined.append(None if group is None else numbers.setdefault(key, len(numbers)))
    return refined


def _combine(finer: Attribution, case: Case, coarser: LevelResult, fresh: Mask) -> Attribution:
    """The attribution of both levels together, in the units of the finer one.

    `fresh` marks the units that the finer level replaced. The score of an expanded unit is distributed among its fresh
    parts; its other parts get 0. A unit that was not expanded keeps its row entries.
    """
    parents = coarser.case.unit_of[case.unit_starts[:-1]]  # [units]
    expanded = np.bincount(parents, fresh)[parents] > 0

    def merge(new: list[Floats], old: list[Floats]) -> list[Floats]:
        return [
            np.where(expanded[: len(row)], np.where(fresh[: len(row)], row, 0.0), parent_row[parents[: len(row)]])
            for row, parent_row in zip(new, old, strict=True)
        ]

    def merge_optional(new: list[Floats] | None, old: list[Floats] | None) -> list[Floats] | None:
        return None if new is None or old is None else merge(new, old)

    before = coarser.attribution
    shares = [_shares(row, parents[: len(row)], fresh[: len(row)]) for row in finer.scores]
    parts = [share * row[parents[: len(share)]] for share, row in zip(shares, before.scores, strict=True)]
    return Attribution(
        scores=merge(parts, before.scores),
        effects=merge_optional(finer.effects, before.effects),
        stderr=merge_optional(finer.stderr, before.stderr),
        effect_unit=finer.effect_unit,
        groups=finer.groups,
        sufficiency=finer.sufficiency,
        steps=[a + b for a, b in zip(finer.steps, before.steps, strict=True)],
        stopped=[
            old if old in ("unsettled", "few") and new != "insufficient" else new
            for new, old in zip(finer.stopped, before.stopped, strict=True)
        ],
        runs=finer.runs,
        probes=finer.probes + before.probes,
        stopping_tests=finer.stopping_tests + before.stopping_tests,
        answer=finer.answer
        and before.answer
        and _combine(finer.answer, case, coarser._replace(attribution=before.answer), fresh),
    )


def _shares(row: Floats, parents: Ids, fresh: Mask) -> Floats:
    """The share of each fresh unit in the total score of its parent's fresh parts; equal shares if the total is 0."""
    own = np.where(fresh, row, 0.0)
    total, count = np.bincount(parents, own)[parents], np.bincount(parents, fresh)[parents]
    equal = fresh / np.maximum(count, 1)
    return np.asarray(np.where(total > 0, own / np.where(total > 0, total, 1), equal))
