"""Results have the types that they declare: they are checked where a result is built, so that it can be written.

Numbers of numpy become Python's, and lone surrogates U+FFFD. Anything else of another type is an error, except in a
mapping of provenance, where it becomes its text: a result that took hours must not be lost because of an unusual option
of a method.
"""

import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from reagent.errors import InputError

Check = Callable[[Any, str], Any]  # from a value and its place to the value as a plain type
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")  # no file can hold them
_LEAVES = frozenset({str, int, float, bool, type(None)})


def check_fields(document: Any) -> None:
    """Give each field of a frozen dataclass its declared type, or raise an error."""
    for name, value in _changed_fields(document, "").items():
        object.__setattr__(document, name, value)


def find_type_error(kind: type, values: Mapping[str, Any], owner: str) -> str | None:
    """What is wrong with the type of the first wrong one of some fields of a dataclass, in one line."""
    try:
        checks = dict(_field_checks(kind))
    except (NameError, TypeError):  # of another package, with types that cannot be looked up
        return None
    for name, value in values.items():
        try:
            checks[name](value, f"`{name}` of {owner}")
        except InputError as error:
            return str(error)
    return None


def _changed_fields(document: Any, place: str) -> dict[str, Any]:
    changed = {}
    for name, check in _field_checks(type(document)):  # type: ignore[arg-type]
        value = getattr(document, name)
        plain = check(value, f"{place}{name}")
        if plain is not value:
            changed[name] = plain
    return changed


@cache
def _field_checks(kind: Any) -> tuple[tuple[str, Check], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, _make_check(hints[field.name])) for field in fields(kind))


def _make_check(hint: Any) -> Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _CHECKS:
        return _CHECKS[hint]
    if origin is Literal:
        return _one_of(arguments)
    if origin in (Union, types.UnionType):
        return _any_of([_make_check(argument) for argument in arguments])
    if origin is tuple and arguments[-1:] == (...,):
        return _tuple_of(_make_check(arguments[0]), arguments[0])
    if origin is Sequence:
        return _tuple_of(_make_check(arguments[0]), arguments[0])
    if origin is Mapping:
        return _mapping
    if isinstance(hint, type) and is_dataclass(hint):
        return _part(hint)
    if isinstance(hint, type) and issubclass(hint, PurePath):
        return _path
    return _anything


def _refuse(place: str, expected: str, value: Any) -> NoReturn:
    given = repr(value)
    raise InputError(f"{place} must be {expected}, got {given if len(given) <= 40 else given[:39] + '…'}")


def _integer(value: Any, place: str) -> int:
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, Integral):
        _refuse(place, "a whole number", value)
    return int(value)


def _number(value: Any, place: str) -> float:
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        _refuse(place, "a number", value)
    return float(value)


def _flag(value: Any, place: str) -> bool:
    if type(value) is bool:
        return value
    if type(value).__name__ not in ("bool", "bool_"):  # of numpy
        _refuse(place, "True or False", value)
    return bool(value)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        _refuse(place, "text", value)
    text = value if value.isascii() else _LONE_SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value)
    return value if text == value and type(value) is str else str(text)


def _nothing(value: Any, place: str) -> None:
    if value is not None:
        _refuse(place, "null", value)


def _one_of(allowed: tuple[Any, ...]) -> Check:
    def check(value: Any, place: str) -> Any:
        if value not in allowed:
            _refuse(place, f"one of {', '.join(map(str, allowed))}", value)
        return value

    return check


def _any_of(checks: list[Check]) -> Check:
    def check(value: Any, place: str) -> Any:
        if value is None and _nothing in checks:
            return None
        for one in others:
            with suppress(InputError):
                return one(value, place)
        return others[0](value, place)  # raises

    others = [one for one in checks if one is not _nothing]
    return check


def _path(value: Any, place: str) -> PurePath:
    if not isinstance(value, PurePath):
        _refuse(place, "a path", value)
    return value


def _anything(value: Any, _place: str) -> Any:
    return value


def _tuple_of(check: Check, hint: Any) -> Check:
    def check_all(value: Any, place: str) -> Any:
        if not isinstance(value, tuple | list):
            _refuse(place, "a sequence", value)
        if hint in (int, float) and all(type(item) is hint for item in value):  # most of the numbers of a result
            return value
        plain = [check(item, place) for item in value]
        return value if all(map(lambda one, two: one is two, plain, value)) else tuple(plain)

    return check_all


def _part(kind: Any) -> Check:
    def check(value: Any, place: str) -> Any:
        if not isinstance(value, kind):
            _refuse(place, f"a {kind.__name__}", value)
        changed = _changed_fields(value, f"{place}.")
        return replace(value, **changed) if changed else value

    return check


def _mapping(value: Any, place: str) -> Any:
    if not isinstance(value, Mapping):
        _refuse(place, "a mapping of names to values", value)
    return _provenance(value, place)


def _provenance(value: Any, place: str) -> Any:
    """A value of any type as one that JSON has."""
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if type(value) in _LEAVES or is_dataclass(value):
        return value
    if isinstance(value, Mapping):
        items = {name: _provenance(item, place) for name, item in value.items()}
        same = all(isinstance(name, str) and items[name] is item for name, item in value.items())
        return value if same else {str(name): item for name, item in items.items()}
    if isinstance(value, tuple | list):
        plain = [_provenance(item, place) for item in value]
        return value if all(map(lambda one, two: one is two, plain, value)) else plain
    if hasattr(value, "tolist"):  # a number or an array of numpy
        return _provenance(value.tolist(), place)
    return str(value)


_CHECKS: dict[Any, Check] = {int: _integer, float: _number, bool: _flag, str: _text, type(None): _nothing}
