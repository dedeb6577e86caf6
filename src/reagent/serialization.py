"""Results as JSON documents.

A result is a frozen dataclass that declares each of its fields once: name, type, limits and description.
Writing, reading and the JSON Schema all follow from that declaration. pydantic does the reading and the schema.
It is imported only then, so that `import reagent` does not load it.

A class of results has three class variables:

    SCHEMA         "reagent.<kind>/<version>", the first entry of each document
    OLDER_SCHEMAS  earlier versions that are still read, and the fields that their documents lack
    ADDED_LATER    fields ("unit", "cost.runs") that documents of any version may lack, because earlier releases did
                   not write them
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, get_type_hints

from annotated_types import Ge

from reagent._version import __version__
from reagent.atomic_io import atomic_write, read_json
from reagent.errors import FileError, InputError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

Steps = tuple[int | str, ...]  # keys and indices that lead to a value inside a document
_SCALARS = frozenset({str, int, float, bool, type(None)})
KINDS = {
    "explanation": "an explanation",
    "evaluation": "an evaluation",
    "citations": "a file of citations",
    "study": "a study",
    "summary": "a summary",
    "record": "a record",
}
_BUILDING = RLock()  # pydantic parses source code for descriptions, which two threads of a service cannot do at once
# How pydantic reads a class of results; dataclasses inside it inherit these settings.
STRICT = {
    "extra": "forbid",
    "allow_inf_nan": False,
    "use_attribute_docstrings": True,
    "json_schema_serialization_defaults_required": True,
}


class JsonDocument:
    """A dataclass that is written as one JSON document."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    SCHEMA: ClassVar[str]
    OLDER_SCHEMAS: ClassVar[dict[str, frozenset[str]]]
    ADDED_LATER: ClassVar[frozenset[str]]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as plain lists and dictionaries."""
        return {"schema": self.SCHEMA, **_plain(self)}

    def to_json(self, indent: int | None = None) -> str:
        """The JSON form as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)

    def save(self, path: str | Path) -> Path:
        """Write the JSON form to a file. The file is written completely or not at all."""
        return atomic_write(path, self.to_json() + "\n")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`. Anything but a complete document of this kind is a FileError."""
        return _read(cls, data)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a document from a JSON file."""
        return _load(cls, path)


D = TypeVar("D", bound=JsonDocument)


class JsonSchema:
    """Annotation of a field: keywords that its JSON Schema has in addition. They are not checked on reading."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core_schema), **self.keywords}


class Without:
    """Annotation of a tuple of dataclasses: one of their fields is never written there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        schema = handler(core_schema)
        item = handler.resolve_ref_schema(schema["items"])
        properties = {name: part for name, part in item["properties"].items() if name != self.name}
        return {**schema, "items": {**item, "properties": properties, "required": list(properties)}}


Count = Annotated[int, Ge(0)]


# --- writing ---


def _plain(value: Any, without: str | None = None) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, list | tuple):
        return [item if type(item) in _SCALARS else _plain(item, without) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if is_dataclass(value):
        inside = _written(value.__class__)
        return {name: _plain(getattr(value, name), inside[name]) for name in inside if name != without}
    return value.item() if hasattr(value, "item") else value  # numbers of numpy have an item


@cache
def _written(kind: type) -> dict[str, str | None]:
    """Each field of a dataclass, and the field that is left out of the items of its value."""
    hints = get_type_hints(kind, include_extras=True)
    notes = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in fields(kind)}
    return {name: next((n.name for n in some if isinstance(n, Without)), None) for name, some in notes.items()}


# --- reading ---


def _read(kind: type[D], data: Any) -> D:
    """The reverse of `to_dict`. Anything but a complete document of this kind is a FileError."""
    _check_schema(kind, data)
    noun = KINDS[_noun(kind.SCHEMA)].partition(" ")[2]
    body = {name: value for name, value in data.items() if name != "schema"}
    from pydantic import ValidationError
    from pydantic_core import to_json as dump_json

    try:  # in JSON, strict reading accepts lists for tuples, but no text for numbers
        document: D = _adapter(kind).validate_json(dump_json(body, inf_nan_mode="constants"), strict=True)
    except ValidationError as error:
        raise FileError(f"not a complete {noun}: {_first_problem(error)}") from error
    except ValueError as error:  # the data have no JSON form
        raise FileError(f"not a complete {noun}: {error}") from error
    optional = kind.ADDED_LATER | kind.OLDER_SCHEMAS.get(data["schema"], frozenset())
    written = _plain(document)
    _check_numbers(noun, written)
    for path in _find_missing(written, body):
        if ".".join(step for step in path if isinstance(step, str)) not in optional:
            raise FileError(f"not a complete {noun}: {_path(path)!r} is missing")
    return document


def _check_numbers(noun: str, written: Any) -> None:
    """Refuse NaN and infinity also where any value is allowed: what cannot be saved is not loaded."""
    try:
        json.dumps(written, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise FileError(f"not a complete {noun}: {error}") from error


def _find_missing(written: Any, given: Any, path: Steps = ()) -> Iterator[Steps]:
    """Where the given data lack a key that is written. A default is for Python, not for files."""
    if isinstance(written, dict):
        yield from ((*path, name) for name in written if name not in given)
        inside: Sequence[int | str] = [
            name for name, value in written.items() if type(value) not in _SCALARS and name in given
        ]
    else:
        inside = range(len(written)) if written and isinstance(written[0], dict) else []
    for step in inside:
        yield from _find_missing(written[step], given[step], (*path, step))


def _load(kind: type[D], path: str | Path) -> D:
    """Read a document from a JSON file."""
    if not isinstance(path, str | PathLike):
        raise InputError(f"give the path of a file, got a {type(path).__name__}")
    data = read_json(path, f"a file written by {_noun(kind.SCHEMA).capitalize()}.save")
    try:
        return kind.from_dict(data)
    except FileError as error:
        raise FileError(f"{str(path)!r}: {error}") from error


def _check_schema(kind: type[JsonDocument], data: Any) -> None:
    noun = KINDS[_noun(kind.SCHEMA)]
    if isinstance(data, list) and data and isinstance(data[0], Mapping) and "schema" in data[0]:
        raise FileError(f"this is a comparison, not {noun}: read it with Comparison.load")
    if not isinstance(data, Mapping) or "schema" not in data:
        raise FileError(f"not {noun}: it has no 'schema' entry (expected {kind.SCHEMA!r})")
    given = data["schema"]
    if isinstance(given, str) and given in (kind.SCHEMA, *kind.OLDER_SCHEMAS):
        return
    other = _noun(str(given))
    if other != _noun(kind.SCHEMA) and other in KINDS:
        raise FileError(f"this is {KINDS[other]} ({given!r}), not {noun}: read it with {other.capitalize()}.load")
    raise FileError(
        f"schema {given!r} is not known to reagent {__version__}, which reads "
        f"{' and '.join(map(repr, (*kind.OLDER_SCHEMAS, kind.SCHEMA)))}; "
        "a newer version of reagent may read it"
    )


def _noun(schema: str) -> str:
    """
    >>> _noun("reagent.explanation/1")
    'explanation'
    """
    return schema.removeprefix("reagent.").partition("/")[0]


def _first_problem(error: "ValidationError") -> str:
    """The first problem in one line."""
    problem = error.errors(include_url=False)[0]
    where, kind = _path(problem["loc"]), problem["type"]
    if kind == "value_error":  # raised by a check of ours, which names the place
        return str(problem["ctx"]["error"])
    if kind == "missing":
        return f"{where!r} is missing"
    if kind == "unexpected_keyword_argument":
        return f"{where!r} is not a known field"
    message = problem["msg"].replace("Input should be", "must be")
    if kind == "json_invalid":
        return message
    given = repr(problem["input"])
    return f"{where!r} {message}, got {given if len(given) <= 40 else given[:40] + '…'}"


def _path(steps: Steps) -> str:
    """
    >>> _path(("input", 0, "text"))
    'input[0].text'
    """
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _adapter(kind: Any) -> "TypeAdapter[Any]":
    with _BUILDING:
        return _build_adapter(kind)


@cache
def _build_adapter(kind: type) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


# --- the schema ---


def json_schema(kind: type[JsonDocument]) -> dict[str, Any]:
    """The JSON Schema of the documents that this version writes."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        """Without titles and defaults, which would only repeat the names and the version of reagent."""

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
            return False

        def default_schema(self, schema: Any) -> dict[str, Any]:
            return self.generate_inner(schema["schema"])

    schema = _adapter(kind).json_schema(mode="serialization", schema_generator=Generator)
    properties = {"schema": {"const": kind.SCHEMA}, **schema.pop("properties")}
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": kind.SCHEMA,
        "title": kind.__name__,
        "description": schema.pop("description"),
        "type": schema.pop("type"),
        "required": [name for name in properties if name not in kind.ADDED_LATER],
        "additionalProperties": schema.pop("additionalProperties"),
        "properties": properties,
        "$defs": schema.pop("$defs"),
    }
