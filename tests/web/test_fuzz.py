"""Generated requests, and explanations and citations with one wrong value: the status is never 500."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reagent import explain
from views.citation_samples import make_citations
from web.service import BASE_URL, PROMPT, Service, capital_model, create_service

FEW = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
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


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = create_service(tmp_path_factory.mktemp("explanations"))
    with service.client:  # one event loop for all requests
        yield service


@pytest.fixture(scope="module")
def described(fuzzed: Service) -> Any:
    """The requests of the API. They are generated when the test runs, not when tests are collected."""
    return schemathesis.openapi.from_dict(fuzzed.client.get("/openapi.json").json())


@pytest.fixture(autouse=True)
def _old_name(request: pytest.FixtureRequest) -> None:
    """schemathesis reads the id of a test under the name that it had before pytest 9.2."""
    request.node._nodeid = request.node.nodeid


@schemathesis.pytest.from_fixture("described").parametrize()
@FEW
def test_no_request_breaks_the_service(case: schemathesis.Case, fuzzed: Service) -> None:
    sent = case.as_transport_kwargs(base_url=BASE_URL)
    response = fuzzed.client.request(**{key: value for key, value in sent.items() if value is not None})
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.json()) == {"error"}


@cache
def explanation() -> dict[str, Any]:
    return explain(capital_model(), PROMPT, max_new_tokens=2, what_if=True).to_dict()


@cache
def citations() -> dict[str, Any]:
    return make_citations().to_dict()


def list_paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys that lead to each value inside."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(inner for key, value in items for inner in list_paths(value, (*path, key)))]


def check_one_wrong_value(service: Service, data: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    wrong = copy.deepcopy(data)
    inner: Any = wrong
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    response = service.client.post(
        "/api/view", content=json.dumps(wrong).encode(), headers={"Content-Type": "application/json"}
    )
    assert response.status_code in (200, 422), response.text


@given(path=st.deferred(lambda: st.sampled_from(list_paths(explanation())[1:])), value=st.sampled_from(ODD_VALUES))
@settings(FEW, max_examples=300)
def test_an_explanation_with_one_wrong_value_is_shown_or_rejected(
    fuzzed: Service, path: tuple[Any, ...], value: Any
) -> None:
    check_one_wrong_value(fuzzed, explanation(), path, value)


@given(path=st.deferred(lambda: st.sampled_from(list_paths(citations())[1:])), value=st.sampled_from(ODD_VALUES))
@settings(FEW, max_examples=300)
def test_citations_with_one_wrong_value_are_shown_or_rejected(
    fuzzed: Service, path: tuple[Any, ...], value: Any
) -> None:
    check_one_wrong_value(fuzzed, citations(), path, value)
