"""Odd requests, made from the API's own description, and explanations with one thing wrong: never a 500."""

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reagent import explain
from web.serving import HERE, PROMPT, capitals, serving

SERVICE = serving(Path(tempfile.mkdtemp()))
FEW = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
WHY = explain(capitals(), PROMPT, max_new_tokens=2, what_if=True).to_dict()
ODD = [None, True, -1, 10**400, 1e308, float("nan"), "", "\ud800", "<b>", [], {}, [[]], [None], {"a": 1}, "x" * 1000]


@schemathesis.openapi.from_dict(SERVICE.client.get("/openapi.json").json()).parametrize()
@FEW
def test_no_request_breaks_the_service(case: schemathesis.Case) -> None:
    sent = case.as_transport_kwargs(base_url=HERE)
    answer = SERVICE.client.request(**{key: value for key, value in sent.items() if value is not None})
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert set(answer.json()) == {"error"}


def places(data: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything inside."""
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [way, *(found for key, value in inside for found in places(value, (*way, key)))]


@given(st.sampled_from(places(WHY)[1:]), st.sampled_from(ODD))
@settings(FEW, max_examples=300)
def test_an_explanation_with_one_thing_wrong_is_drawn_or_refused(way: tuple[Any, ...], odd: Any) -> None:
    wrong = copy.deepcopy(WHY)
    inner = wrong
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = odd
    answer = SERVICE.client.post(
        "/api/view", content=json.dumps(wrong).encode(), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (200, 422), answer.text
