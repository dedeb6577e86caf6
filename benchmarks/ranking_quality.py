"""Quality of an order of tokens: what the target loses when the first ones are deleted, replaced, or kept alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from reagent.case import Case, Floats, Ids, Mask
from reagent.explanation import Group
from reagent.models.base import Model
from reagent.removal import Delete, Remover, Replace
from reagent.replacers import make_replacer
from reagent.replacers.base import Proposals
from reagent.segmentation import Span

REMOVED = (1, 2, 3, 5)
KEPT = (3, 5, 8)
DRAWS = 4
TOP = 5


def order_units(scores: Floats, effects: Floats | None, free: Ids) -> Ids:
    """Positions in `free`, the most important first; equal scores are ordered by effect, then by position."""
    ties = np.zeros(len(free)) if effects is None else np.asarray(effects)[free]
    return np.lexsort((np.arange(len(free)), -ties, -np.asarray(scores)[free]))


def measure_removal(model: Model, case: Case, proposals: Proposals, order: Ids) -> dict[str, float]:
    """`del`, `keep` and `rep`: mean drops in nats; more is better for `del` and `rep`, less for `keep`."""
    delete, replace = Delete(model, case), Replace(model, case, proposals)
    n = len(order)
    first = np.array([_set_of(order[:k], n) for k in REMOVED])
    others = np.array([_set_of(order[k:], n) for k in KEPT])
    uniform = np.repeat(np.random.default_rng(0).random((DRAWS, n)), len(REMOVED), axis=0)
    return {
        "del": _mean_drop(delete, case, first),
        "keep": _mean_drop(delete, case, others),
        "rep": _mean_drop(replace, case, np.tile(first, (DRAWS, 1)), uniform),
    }


def own_proposals(model: Model, case: Case) -> Proposals:
    """Proposals of the replacer `self`."""
    return make_replacer("self").propose(model, case, np.random.default_rng(0))


def _set_of(positions: Ids, n: int) -> Mask:
    marked = np.zeros(n, dtype=np.bool_)
    marked[positions] = True
    return marked


def _mean_drop(remover: Remover, case: Case, removed: Mask, uniform: Floats | None = None) -> float:
    return float((case.values - remover.score(removed, uniform).value)[:, 0].mean())


def measure_mentions(case: Case, free: Ids, order: Ids, mentions: Sequence[Span]) -> dict[str, Any]:
    """Where the mentions of the fact are in the order."""
    ranks = [
        min((r for r, i in enumerate(order, 1) if _overlaps(case, int(free[i]), m)), default=None) for m in mentions
    ]
    known = [rank for rank in ranks if rank is not None]
    return {
        "mention_ranks": ranks,
        "best_mention": min(known, default=None),
        "all_in_top": len(known) == len(ranks) and max(known) <= TOP,
    }


def measure_groups(case: Case, groups: Sequence[Group], mentions: Sequence[Span]) -> dict[str, Any]:
    """Whether one redundant group covers all mentions, and the number of redundant groups that are wrong."""
    redundant = [group for group in groups if group.kind == "redundant"]
    covered = [[any(_overlaps(case, unit, m) for unit in group.units) for m in mentions] for group in redundant]
    several = len(mentions) > 1
    return {
        "group_of_all": any(all(one) for one in covered) if several else None,
        "false_groups": sum(not any(one) for one in covered) if several else len(redundant),
        "redundant_groups": [[case.units[unit].text for unit in group.units] for group in redundant],
    }


def _overlaps(case: Case, unit: int, span: Span) -> bool:
    return case.units[unit].start < span[1] and case.units[unit].end > span[0]
