"""A few attacks by files of each kind; `make soak` tries thousands."""

import json
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile.file_attacks import ATTACKS, explanation_json
from hostile.mutations import assert_one_line
from reagent import Explanation, serialization
from reagent.errors import FileError, ReagentError
from reagent.schemas import read_schema
from views.samples import make

FEW = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("kind", ATTACKS)
def test_a_damaged_file_is_read_rightly_or_refused_in_one_line(kind: str) -> None:
    for number in range(6):
        ATTACKS[kind](np.random.default_rng([0, zlib.crc32(kind.encode()), number]))


def strategy(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of the types that a JSON schema declares, with limits in half of the cases."""
    if "$ref" in schema:
        return strategy(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return st.one_of([strategy(part, definitions) for part in schema[key]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" in schema:
            parts = {name: strategy(part, definitions) for name, part in schema["properties"].items()}
            return st.fixed_dictionaries(parts)
        case "array":
            return st.lists(strategy(schema.get("items", {}), definitions), max_size=3)
        case "integer":
            return st.integers(schema.get("minimum", -5), 5)
        case "number":
            return st.floats(0, 1) | st.floats()
        case "string":
            return st.text(max_size=5)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return st.none() | st.integers() | st.text(max_size=3)


def documents() -> st.SearchStrategy[Any]:
    """A valid explanation, in which some fields are drawn from the schema."""
    schema = read_schema("explanation")
    fields = {name: strategy(part, schema["$defs"]) for name, part in schema["properties"].items()}
    drawn = {name: st.one_of(st.just(explanation_json()[name]), part) for name, part in fields.items()}
    return st.fixed_dictionaries(drawn)


@given(data=st.deferred(documents))
@FEW
def test_what_the_schema_allows_is_shown_or_refused(data: Any) -> None:
    try:
        why = Explanation.from_dict(data)
    except ReagentError as error:
        assert_one_line(error)
        return
    assert Explanation.from_dict(json.loads(why.to_json())) == why
    why.to_html()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("method", "note"), "\ud800", "surrogates"),
        (("input", 1, "end"), 10**6, "within the"),
        (("output", 1, "end"), 10**6, "within the"),
        (("input", 1, "start"), 0, "out of order"),
        (("messages",), [{"role": "user", "start": 5, "end": 2, "name": None}], "within the"),
        (("screening",), {"units": 1, "discarded": [99], "effect": 1.0, "finest_effect": 1.0}, "screening.discarded"),
        (("target", "kind"), "other", "target.kind"),
    ],
)
def test_loading_refuses_what_saving_refuses(path: tuple[Any, ...], value: Any, message: str) -> None:
    data = json.loads(json.dumps(explanation_json()))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    if path == ("input", 1, "start"):
        data["input"][0]["start"] = data["input"][0]["end"]
    with pytest.raises(FileError, match=message):
        Explanation.from_dict(data)


def test_an_answer_without_ids_is_shown() -> None:
    """Results that are passed on without their texts have none."""
    data = json.loads(make("It is in", " Japan").to_json())
    data |= {name: [unit | {"ids": []} for unit in data[name]] for name in ("input", "output")}
    assert len(data["output"]) == 1
    assert "probability" in Explanation.from_dict(data).to_html()


def test_nan_in_a_file_is_refused_where_it_is_read(tmp_path: Path) -> None:
    data = explanation_json() | {"seed": float("nan")}
    (tmp_path / "a.json").write_text(json.dumps(data))
    with pytest.raises(FileError, match="NaN is not a number of JSON"):
        Explanation.load(tmp_path / "a.json")


def test_threads_that_read_at_once_build_the_reader_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """pydantic parses source code while it builds one, and CPython fails if two threads do so at once."""
    built = []

    class Slow:
        def __init__(self, kind: type) -> None:
            built.append(kind)
            time.sleep(0.05)

    monkeypatch.setattr("pydantic.TypeAdapter", Slow)
    serialization._build_adapter.cache_clear()
    threads = [threading.Thread(target=serialization._adapter, args=(Explanation,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    serialization._build_adapter.cache_clear()
    assert built == [Explanation]
