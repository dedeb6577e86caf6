"""Generated requests, and explanations and citations with one wrong value: the status is never 500."""

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reagent import explain
from views.citation_samples import make_citations
from web.service import BASE_URL, PROMPT, capital_model, create_service

SERVICE = create_service(Path(tempfile.mkdtemp()))
FEW = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
WHY = explain(capital_model(), PROMPT, max_new_tokens=2, what_if=True).to_dict()
CITATIONS = make_citations().to_dict()
ODD_VALUES = [
    None,
    True,
    -1,
    10**400,
    1e308,
    float("nan"),
    "",
    "\ud800",
    "<b>",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    "x" * 1000,
]


@schemathesis.openapi.from_dict(SERVICE.client.get("/openapi.json").json()).parametrize()
@FEW
def test_no_request_breaks_the_service(case: schemathesis.Case) -> None:
    sent = case.as_transport_kwargs(base_url=BASE_URL)
    response = SERVICE.client.request(**{key: value for key, value in sent.items() if value is not None})
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.json()) == {"error"}


def list_paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys that lead to each value inside."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(inner for key, value in items for inner in list_paths(value, (*path, key)))]


def check_one_wrong_value(data: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    wrong = copy.deepcopy(data)
    inner: Any = wrong
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    response = SERVICE.client.post(
        "/api/view", content=json.dumps(wrong).encode(), headers={"Content-Type": "application/json"}
    )
    assert response.status_code in (200, 422), response.text


@given(st.sampled_from(list_paths(WHY)[1:]), st.sampled_from(ODD_VALUES))
@settings(FEW, max_examples=300)
def test_an_explanation_with_one_wrong_value_is_shown_or_rejected(path: tuple[Any, ...], value: Any) -> None:
    check_one_wrong_value(WHY, path, value)


@given(st.sampled_from(list_paths(CITATIONS)[1:]), st.sampled_from(ODD_VALUES))
@settings(FEW, max_examples=300)
def test_citations_with_one_wrong_value_are_shown_or_rejected(path: tuple[Any, ...], value: Any) -> None:
    check_one_wrong_value(CITATIONS, path, value)
