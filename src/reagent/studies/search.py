"""Which idle parts can go together, and which say the same.

Two parts that say the same are both idle, because either is enough. So all idle parts are removed together. If the
answer loses something then, they are removed one after the other, the weakest first, and a part stays if the answer
would lose something without it. The parts that make it redundant are those that cannot be put back one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from reagent.prompt_study import MeanEffect, PartGroup
from reagent.studies.effects import can_go, mean_effect
from reagent.studies.measuring import Parts

EffectOf = Callable[[Parts], MeanEffect]
EffectsOf = Callable[[Parts], Sequence[float | None]]


def find_removable(
    singles: Mapping[int, MeanEffect], effect_of: EffectOf, threshold: float
) -> tuple[list[int], list[PartGroup]]:
    """The idle parts that can go together, in order, and the groups that say the same; `singles` are the idle parts."""
    if len(singles) < 2 or can_go(effect_of(frozenset(singles)), threshold):
        return sorted(singles), []
    removed: list[int] = []
    groups: list[PartGroup] = []
    for part in sorted(singles, key=lambda i: abs(singles[i].mean or 0.0)):
        if can_go(effect_of(frozenset([*removed, part])), threshold):
            removed.append(part)
        elif group := _find_group(part, removed, singles, effect_of, threshold):
            groups.append(group)
    return sorted(removed), groups


def find_pairs(effects: Sequence[Sequence[float | None]], effects_of: EffectsOf, threshold: float) -> list[PartGroup]:
    """The pairs that lose clearly more together than one by one; `effects` are those of single parts on each input."""
    groups = []
    for pair in combinations(range(len(effects)), 2):
        joint = effects_of(frozenset(pair))
        rows = list(zip(joint, *(effects[i] for i in pair), strict=True))
        surplus = mean_effect([None if None in row else row[0] - row[1] - row[2] for row in rows])
        if surplus.low is not None and surplus.low > threshold:
            single = sum(mean_effect(effects[i]).mean or 0.0 for i in pair)
            groups.append(PartGroup(pair, mean_effect(joint), single))
    return groups


def _find_group(
    part: int, removed: Sequence[int], singles: Mapping[int, MeanEffect], effect_of: EffectOf, threshold: float
) -> PartGroup | None:
    """The smallest set of parts that makes `part` redundant: together they lose more than one by one."""
    members = frozenset([part, *removed])

    def surplus(parts: Parts) -> float:
        return (effect_of(parts).mean or 0.0) - sum(singles[i].mean or 0.0 for i in parts)

    enough = max(threshold, surplus(members) / 2)
    if surplus(members) <= threshold:  # single effects that add up
        return None
    for other in removed:
        smaller = members - {other}
        if len(smaller) > 1 and surplus(smaller) > enough:
            members = smaller
    return PartGroup(tuple(sorted(members)), effect_of(members), sum(singles[i].mean or 0.0 for i in members))
