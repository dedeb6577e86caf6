"""Hyperparameters: from the words that a person gave to a frozen dataclass."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from reagent.errors import InputError

T = TypeVar("T")


def with_options(base: T, given: Mapping[str, Any], owner: str) -> T:
    """`base` with the given options; one that it does not have is an error, never ignored."""
    allowed = [field.name for field in fields(base)]  # type: ignore[arg-type]
    for name in given:
        if name not in allowed:
            has = f"It has: {', '.join(allowed)}" if allowed else "It has none"
            raise InputError(f"{owner} has no option {name!r}. {has}")
    return replace(base, **given)  # type: ignore[type-var]


def check_integer(owner: str, name: str, value: int, low: int, high: int = 10**6) -> None:
    """One clear line for what is not a whole number in its range."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{name} of {owner} must be a whole number from {low} to {high}, got {value!r}")


def check_range(owner: str, name: str, value: float, low: float, high: float = float("inf")) -> None:
    """One clear line for a number outside its range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        limits = f"at least {low:g}" if high == float("inf") else f"between {low:g} and {high:g}"
        raise InputError(f"{name} of {owner} must be {limits}, got {value!r}")
