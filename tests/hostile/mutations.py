"""Random changes of documents and of bytes."""

import copy
import json
from typing import Any

import numpy as np

from reagent.errors import ReagentError

Random = np.random.Generator

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**64, 10**400, 1e308, float("nan"), float("inf"), "", "a", "\ud800", "\x00",
    "\x1b[31m", "\u202e", "x" * 5000, [], [[]], [None], [0], {}, {"a": 1}, {"": {}}, [[[[[[0]]]]]],
)  # fmt: skip


def choose(rng: Random, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def mutate_document(data: Any, rng: Random) -> Any:
    """The document with one to three changes: a value replaced, removed, doubled, or exchanged with another."""
    changed = copy.deepcopy(data)
    for _ in range(int(rng.integers(1, 4))):
        places = [(holder, key) for holder in _holders(changed) for key in _keys(holder)]
        if not places:
            return changed
        holder, key = choose(rng, places)
        other, other_key = choose(rng, places)
        match int(rng.integers(6)):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 2:
                holder[key] = copy.deepcopy(other[other_key])
            case 3 if isinstance(holder[key], int | float):
                holder[key] = _near(holder[key], rng)
            case _:
                holder[key] = copy.deepcopy(choose(rng, ODD_VALUES))
    return changed


def mutate_bytes(data: bytes, rng: Random) -> bytes:
    """The bytes with a few of them changed, removed, inserted or repeated."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(changed) + 1))
        length = int(rng.integers(1, 65))
        match int(rng.integers(7)):
            case 0:
                del changed[at:]
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = rng.bytes(length)
            case 3:
                changed[at:at] = changed[at : at + length]
            case 4:
                changed[at : at + 8] = choose(rng, (b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f", b"\0" * 7 + b"\x01"))
            case _ if at < len(changed):
                changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def to_json(data: Any) -> bytes:
    """JSON, with NaN and lone surrogates as other programs write them."""
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def assert_one_line(error: ReagentError) -> None:
    message = str(error)
    assert message.strip(), "an empty error"
    assert len(message.splitlines()) == 1, f"an error of several lines: {message!r}"
    assert len(message) < 20_000, f"an error of {len(message)} characters"


def _near(value: float, rng: Random) -> float:
    return choose(rng, (value + 1, value - 1, -value, value * 1000, value // 3))


def _holders(data: Any) -> list[Any]:
    inside = list(data.values()) if isinstance(data, dict) else data if isinstance(data, list) else []
    own = [data] if isinstance(data, dict | list) else []
    return own + [holder for value in inside for holder in _holders(value)]


def _keys(holder: Any) -> list[Any]:
    return list(holder) if isinstance(holder, dict) else list(range(len(holder)))
