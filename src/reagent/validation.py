"""Checks of hyperparameters, with one clear line for each mistake."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from numbers import Integral, Real
from typing import Any, TypeVar

from reagent.errors import InputError, ReagentError, UnknownNameError
from reagent.field_types import find_type_error

T = TypeVar("T")


def with_options(base: T, options: Mapping[str, Any], owner: str) -> T:
    """A copy of the dataclass `base` with some fields changed. A name that it does not have is an InputError."""
    if not options:
        check_types(owner, base)
        return base
    allowed = [field.name for field in fields(base)] if is_dataclass(base) else []
    for name in options:
        if name not in allowed:
            has = f"It has: {', '.join(allowed)}" if allowed else "It has none"
            raise InputError(f"{owner} has no option {name!r}. {has}")
    # Numbers and arrays of numpy become Python's, which can be written as JSON.
    plain = {name: value.tolist() if type(value).__module__ == "numpy" else value for name, value in options.items()}
    try:
        made: T = replace(base, **plain)  # type: ignore[type-var]
    except ReagentError:
        raise
    except Exception as error:  # a check compares a value of a wrong type
        problem = find_type_error(type(base), plain, owner)
        if problem is None:
            raise
        raise InputError(problem) from error
    check_types(owner, made)
    return made


def check_types(owner: str, instance: Any) -> None:
    """Refuse values of other types than the fields of the dataclass declare. A default is always accepted."""
    if not is_dataclass(instance) or isinstance(instance, type):
        return
    given = {field.name: getattr(instance, field.name) for field in fields(instance)}
    changed = {field.name: given[field.name] for field in fields(instance) if given[field.name] is not field.default}
    problem = find_type_error(type(instance), changed, owner)
    if problem is not None:
        raise InputError(problem)


def check_name(kind: str, name: Any, known: Iterable[str]) -> None:
    """Refuse a name that is not known, and anything that is no name."""
    names = list(known)
    if not isinstance(name, str) or name not in names:
        raise UnknownNameError(kind, name, names)


def check_integer(owner: str, name: str, value: int, low: int, high: int = 10**6) -> None:
    """Refuse anything but an integer from `low` to `high`. Integers of numpy are accepted, bool is not."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= value <= high:
        raise InputError(f"`{name}` of {owner} must be a whole number from {low} to {high}, got {value!r}")


def check_range(owner: str, name: str, value: float, low: float, high: float = float("inf")) -> None:
    """Refuse anything but a number from `low` to `high`. Numbers of numpy are accepted, bool is not."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high or value == float("inf"):
        limits = f"at least {low:g}" if high == float("inf") else f"between {low:g} and {high:g}"
        raise InputError(f"`{name}` of {owner} must be {limits}, got {value!r}")
