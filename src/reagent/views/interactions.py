"""An explanation of one output token as `InteractionValues` of the package shapiq, for its plots and its indices.

The players are the units of the context. Three kinds of values can be exported:

effects  In nats. For methods that remove one unit at a time, the value of a unit is the loss when it alone is removed,
         and the value of a pair is the loss of the single units minus the loss of both together: negative if either
         is enough, positive if both are needed. These are the co-Möbius coefficients of shapiq.
scores   Shares of 1.
shapley_values
         Signed Shapley values, if the method has them (`shapley`, `exact`, and `fast` with at most twelve units).

Scores, and the effects of other methods, are exported under shapiq's index `SV` too: one value for each unit.
"""

from typing import TYPE_CHECKING, Any

from reagent.errors import InputError, UnknownNameError
from reagent.explanation import Explanation

if TYPE_CHECKING:
    from shapiq import InteractionValues

VALUES = ("effects", "scores", "shapley_values")
SINGLE_EFFECTS = ("reagent", "occlusion", "exact")  # methods whose effects are those of removing one unit


def to_shapiq(explanation: Explanation, target: int = 0, values: str | None = None) -> "InteractionValues":
    """The units of one target and the pairs that were measured; `values` is by default effects, if these are nats."""
    has_effects = explanation.effects is not None and explanation.effect_unit == "nats"
    values = values or ("effects" if has_effects else "scores")
    if values not in VALUES:
        raise UnknownNameError("kind of values", values, VALUES)
    if values == "effects" and not has_effects:
        raise InputError(f"method {explanation.method.get('id')!r} has no effects in nats: give values='scores'")
    units = len(explanation.context(target))  # raises for a target that does not exist
    if getattr(explanation, values) is None:
        raise InputError(
            f"method {explanation.method.get('id')!r} has no Shapley values of this text: give other values"
        )
    row = getattr(explanation, values)[target]
    is_single = values == "effects" and explanation.method.get("id") in SINGLE_EFFECTS
    pairs = _pairs(explanation, target) if is_single else {}
    singles: dict[tuple[int, ...], float] = {(i,): float(value) for i, value in enumerate(row)}
    exported: InteractionValues = _shapiq().InteractionValues(
        singles | pairs,
        index="Co-Moebius" if is_single else "SV",
        n_players=units,
        min_order=1,
        max_order=2 if pairs else 1,
        estimated=explanation.method.get("id") != "exact",
        estimation_budget=explanation.cost.forward_passes,
    )
    return exported


def _pairs(explanation: Explanation, target: int) -> dict[tuple[int, ...], float]:
    """The interaction of each pair of units whose joint effect was measured."""
    groups = explanation[target].groups
    return {group.units: float(group.single - group.effect) for group in groups if len(group.units) == 2}


def _shapiq() -> Any:
    try:
        import shapiq
    except ImportError as error:
        raise InputError(
            "interaction values need shapiq, which is not installed; run: pip install 'reagent-lm[shapiq]'"
        ) from error
    return shapiq
