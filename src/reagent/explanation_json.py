"""The JSON form of an Explanation, as explanation.schema.json describes it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reagent._version import __version__
from reagent.atomic_io import read_json
from reagent.errors import FileError, InputError
from reagent.explanation import Cost, Explanation, Level, Message, Rows, Token, WhatIf

SCHEMA = "reagent.explanation/1"


def to_dict(why: Explanation) -> dict[str, Any]:
    """Plain lists and dictionaries."""
    return {
        "schema": SCHEMA,
        "version": why.version,
        "created": why.created,
        "prompt": why.prompt,
        "completion": why.completion,
        "model": dict(why.model),
        "method": dict(why.method),
        "replacer": None if why.replacer is None else dict(why.replacer),
        "seed": why.seed,
        "target": dict(why.target),
        "unit": why.unit,
        "effect_unit": why.effect_unit,
        "input": [_token_dict(token, "protected") for token in why.input],
        "output": [_token_dict(token, "logprob") for token in why.output],
        **_rows_dict(why),
        "levels": [_level_dict(level) for level in why.levels],
        "messages": [message._asdict() for message in why.messages],
        "what_if": [_what_if_dict(one) for one in why.what_if],
        "cost": _cost_dict(why.cost),
    }


def to_json(why: Explanation, indent: int | None = None) -> str:
    return json.dumps(to_dict(why), ensure_ascii=False, allow_nan=False, indent=indent)


def from_dict(data: Mapping[str, Any]) -> Explanation:
    """The reverse; refuses anything that is not a whole explanation of this schema."""
    _check_schema(data)
    try:
        return Explanation(
            prompt=str(data["prompt"]),
            completion=str(data["completion"]),
            input=tuple(_token(entry) for entry in data["input"]),
            output=tuple(_token(entry) for entry in data["output"]),
            **_all_rows(data),
            effect_unit=None if data["effect_unit"] is None else str(data["effect_unit"]),
            model=dict(data["model"]),
            method=dict(data["method"]),
            replacer=None if data["replacer"] is None else dict(data["replacer"]),
            seed=int(data["seed"]),
            target=dict(data["target"]),
            unit=str(data.get("unit", "token")),
            levels=tuple(_level(entry) for entry in data.get("levels", ())),
            messages=tuple(_message(entry) for entry in data.get("messages", ())),
            what_if=tuple(_what_if(entry) for entry in data.get("what_if", ())),
            cost=_cost(data["cost"]),
            version=str(data["version"]),
            created=str(data["created"]),
        )
    except KeyError as error:
        raise FileError(f"not a whole explanation: {error.args[0]!r} is missing") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError, InputError) as error:
        raise FileError(f"not a whole explanation: {error}") from error


def load(path: str | Path) -> Explanation:
    """Read an explanation that was saved as JSON."""
    data = read_json(path, "a file written by --json")
    try:
        return from_dict(data)
    except FileError as error:
        raise FileError(f"{str(path)!r}: {error}") from error


def _check_schema(data: Any) -> None:
    if not isinstance(data, Mapping) or "schema" not in data:
        raise FileError(f"not an explanation: it has no 'schema' entry (expected {SCHEMA!r})")
    if data["schema"] != SCHEMA:
        raise FileError(
            f"schema {data['schema']!r} is not known to reagent {__version__}, which reads {SCHEMA!r}; "
            "a newer reagent may read it"
        )


def _rows_dict(of: Explanation | Level) -> dict[str, Any]:
    return {
        "scores": _lists(of.scores),
        "effects": None if of.effects is None else _lists(of.effects),
        "stderr": None if of.stderr is None else _lists(of.stderr),
    }


def _all_rows(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "scores": _rows(data["scores"]),
        "effects": None if data["effects"] is None else _rows(data["effects"]),
        "stderr": None if data["stderr"] is None else _rows(data["stderr"]),
    }


def _level_dict(level: Level) -> dict[str, Any]:
    units = [_token_dict(token, "protected") for token in level.units]
    return {"unit": level.unit, "units": units, **_rows_dict(level)}


def _level(entry: Mapping[str, Any]) -> Level:
    return Level(str(entry["unit"]), tuple(_token(unit) for unit in entry["units"]), **_all_rows(entry))


def _message(entry: Mapping[str, Any]) -> Message:
    return Message(str(entry["role"]), int(entry["start"]), int(entry["end"]))


def _what_if_dict(one: WhatIf) -> dict[str, Any]:
    answers = [{"text": text, "probability": probability} for text, probability in one.answers]
    return one._asdict() | {"answers": answers}


def _what_if(entry: Mapping[str, Any]) -> WhatIf:
    return WhatIf(
        target=int(entry["target"]),
        position=int(entry["position"]),
        replacement=str(entry["replacement"]),
        probability=float(entry["probability"]),
        answers=tuple((str(answer["text"]), float(answer["probability"])) for answer in entry["answers"]),
    )


def _token_dict(token: Token, last: str) -> dict[str, Any]:
    keys = ("text", "start", "end", last)
    return {"ids": list(token.ids)} | {key: getattr(token, key) for key in keys}


def _token(entry: Mapping[str, Any]) -> Token:
    logprob = entry.get("logprob")
    return Token(
        ids=tuple(int(i) for i in entry["ids"]),
        text=str(entry["text"]),
        start=int(entry["start"]),
        end=int(entry["end"]),
        protected=bool(entry.get("protected", False)),
        logprob=None if logprob is None else float(logprob),
    )


def _cost_dict(cost: Cost) -> dict[str, Any]:
    lists = {"steps": list(cost.steps), "stopped": list(cost.stopped), "runs": [list(steps) for steps in cost.runs]}
    return asdict(cost) | lists


def _cost(entry: Mapping[str, Any]) -> Cost:
    return Cost(
        **{name: int(entry[name]) for name in ("forward_passes", "tokens", "probes", "stopping_tests", "proposals")},
        seconds=float(entry["seconds"]),
        steps=tuple(int(n) for n in entry["steps"]),
        stopped=tuple(str(reason) for reason in entry["stopped"]),
        runs=tuple(tuple(int(n) for n in steps) for steps in entry.get("runs", ())),
        **{name: int(entry.get(name, 0)) for name in ("requests", "censored", "unlisted")},
    )


def _rows(rows: Sequence[Sequence[float]]) -> Rows:
    return tuple(tuple(float(value) for value in row) for row in rows)


def _lists(rows: Rows) -> list[list[float]]:
    return [list(row) for row in rows]
