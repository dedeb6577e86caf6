"""Checks of hyperparameters, with one clear line for each mistake."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from numbers import Integral, Real
from typing import Any, TypeVar

from reagent.errors import InputError

T = TypeVar("T")


def with_options(base: T, options: Mapping[str, Any], owner: str) -> T:
    """A copy of the dataclass `base` with some fields changed. A name that it does not have is an InputError."""
    if not options:
        return base
    allowed = [field.name for field in fields(base)] if is_dataclass(base) else []
    for name in options:
        if name not in allowed:
            has = f"It has: {', '.join(allowed)}" if allowed else "It has none"
            raise InputError(f"{owner} has no option {name!r}. {has}")
    # Numbers of numpy become Python's, which can be written as JSON.
    plain = {name: value.item() if type(value).__module__ == "numpy" else value for name, value in options.items()}
    return replace(base, **plain)  # type: ignore[type-var]


def check_integer(owner: str, name: str, value: int, low: int, high: int = 10**6) -> None:
    """Refuse anything but an integer from `low` to `high`. Integers of numpy are accepted, bool is not."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= value <= high:
        raise InputError(f"`{name}` of {owner} must be a whole number from {low} to {high}, got {value!r}")


def check_range(owner: str, name: str, value: float, low: float, high: float = float("inf")) -> None:
    """Refuse anything but a number from `low` to `high`. Numbers of numpy are accepted, bool is not."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:
        limits = f"at least {low:g}" if high == float("inf") else f"between {low:g} and {high:g}"
        raise InputError(f"`{name}` of {owner} must be {limits}, got {value!r}")
