"""Coarse to fine: a long text is explained by large units first, then by small ones inside those that matter.

The scores add up across levels: what a sentence scored is shared out among its words by what they score
inside it, and a sentence that is not opened keeps its score. Effects are each measured at their own level.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.errors import InputError
from reagent.methods.base import Attribution, Method, Progress
from reagent.models.base import Model
from reagent.replacers.base import Proposals

COVERED = 0.8  # units are opened until they hold this share of the score …
MOST_TOKENS = 96  # … or so many tokens
Groups = Sequence[int | None]  # for every token of the prompt its unit; None: never touched


@runtime_checkable
class Divisible(Protocol):
    """Can go from coarse to fine (needed by several levels)."""

    def part(self, level: int, levels: int) -> Method:
        """The method with its share of the probes."""
        ...


class Stage(NamedTuple):
    """One level: how the case was cut, what could stand in for its units, and what was found."""

    case: Case
    proposals: Proposals
    found: Attribution


Look = Callable[[Progress, list[Stage]], None]  # progress, and the stages so far where there is a picture to show


def attribute(
    method: Method,
    model: Model,
    case: Case,
    proposals: Proposals,
    cuts: Sequence[Groups],
    rng: np.random.Generator,
    look: Look,
) -> list[Stage]:
    """Explain `case`, which is cut into tokens, by `cuts` from coarse to fine; the last stage is the answer."""
    stages: list[Stage] = []
    groups = cuts[0]
    for level, (cut, own) in enumerate(zip(cuts, [rng] if len(cuts) == 1 else rng.spawn(len(cuts)), strict=True)):
        opened = _most_important(stages[-1]) if stages else None
        if opened is not None:
            groups = _refined(groups, cut, stages[-1].case, opened)
        now = case.grouped(groups)
        table = proposals.grouped(now, own)
        if opened is not None:
            table = table.restricted_to(opened[stages[-1].case.unit_of[now.unit_starts[:-1]]])
        if proposals.replaceable.any() and not table.replaceable[: len(now.input)].any():
            raise InputError(
                "there is nothing to replace: the replacer has no proposal for any part that was asked about"
            )

        def report(told: Progress, now: Case = now, table: Proposals = table) -> None:
            done = stages[-1].found.probes if stages else 0
            found = told.partial
            seen = [*stages, _stage(now, table, found, stages)] if isinstance(found, Attribution) else []
            look(Progress(told.done + done, told.total + done, told.unit), seen)

        part = method.part(level, len(cuts)) if isinstance(method, Divisible) else method
        stages.append(_stage(now, table, part.attribute(model, now, table, own, report), stages))
    return stages


def _stage(case: Case, proposals: Proposals, found: Attribution, before: list[Stage]) -> Stage:
    return Stage(case, proposals, _shared_out(found, case, before[-1], proposals.replaceable) if before else found)


def _most_important(stage: Stage) -> Mask:
    """Which units to open: those of the prompt that score most, on average over the output; [units]."""
    case, found = stage.case, stage.found
    score = np.mean([row[: len(case.input)] for row in found.scores], axis=0)
    opened, held, tokens = np.zeros(len(case.units), dtype=np.bool_), 0.0, 0
    for i in np.argsort(-score, kind="stable"):
        size = len(case.input[i].ids)
        if score[i] > 0 and not (opened.any() and tokens + size > MOST_TOKENS):
            opened[i], held, tokens = True, held + score[i], tokens + size
        if held >= COVERED * score.sum():
            break
    return opened


def _refined(groups: Groups, finer: Groups, coarse: Case, opened: Mask) -> list[int | None]:
    """Tokens of opened units in their finer groups, the others as they were."""
    numbers: dict[tuple[int, ...], int] = {}
    refined: list[int | None] = []
    for group, fine, unit in zip(groups, finer, coarse.unit_of, strict=False):
        key = (int(unit), -1 if fine is None else fine) if opened[unit] else (int(unit),)
        refined.append(None if group is None else numbers.setdefault(key, len(numbers)))
    return refined


def _shared_out(found: Attribution, case: Case, before: Stage, fresh: Mask) -> Attribution:
    """The finer answer: what a unit scored before is shared out among its parts; what was not opened stays.

    A part of an opened unit that cannot be replaced has no share.
    """
    parents = before.case.unit_of[case.unit_starts[:-1]]  # [units]
    opened = np.bincount(parents, fresh)[parents] > 0

    def mixed(new: list[Floats], old: list[Floats]) -> list[Floats]:
        return [
            np.where(opened[: len(row)], np.where(fresh[: len(row)], row, 0.0), above[parents[: len(row)]])
            for row, above in zip(new, old, strict=True)
        ]

    def kept(new: list[Floats] | None, old: list[Floats] | None) -> list[Floats] | None:
        return None if new is None or old is None else mixed(new, old)

    shares = [_shares(row, parents[: len(row)], fresh[: len(row)]) for row in found.scores]
    parts = [share * above[parents[: len(share)]] for share, above in zip(shares, before.found.scores, strict=True)]
    return Attribution(
        scores=mixed(parts, before.found.scores),
        effects=kept(found.effects, before.found.effects),
        stderr=kept(found.stderr, before.found.stderr),
        effect_unit=found.effect_unit,
        steps=[a + b for a, b in zip(found.steps, before.found.steps, strict=True)],
        stopped=[
            old if old in ("unsettled", "few") else new
            for new, old in zip(found.stopped, before.found.stopped, strict=True)
        ],
        runs=found.runs,
        probes=found.probes + before.found.probes,
        stopping_tests=found.stopping_tests + before.found.stopping_tests,
    )


def _shares(row: Floats, parents: Ids, fresh: Mask) -> Floats:
    """Each unit's share of what its parent's opened parts score together; equal shares where they score nothing."""
    own = np.where(fresh, row, 0.0)
    total, count = np.bincount(parents, own)[parents], np.bincount(parents, fresh)[parents]
    equal = fresh / np.maximum(count, 1)
    return np.asarray(np.where(total > 0, own / np.where(total > 0, total, 1), equal))
