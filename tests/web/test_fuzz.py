"""Generated requests, and explanations and citations with one wrong value: the status is never 500."""

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from reagent import explain
from views.citation_samples import make_citations
from web.service import BASE_URL, PROMPT, Service, capital_model, create_service

CONFORMANCE = [status_code_conformance, content_type_conformance, response_schema_conformance]
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
    if "/events" not in case.path:  # a stream has no schema
        case.validate_response(response, checks=CONFORMANCE)
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


def test_real_answers_have_the_described_form(fuzzed: Service) -> None:
    """Of jobs in several states, of their results, and of the files that are made of them."""
    schema = schemathesis.openapi.from_dict(fuzzed.client.get("/openapi.json").json())
    done = fuzzed.submit(what_if=True)
    failed = fuzzed.submit(prompt="unknown words")
    asked = fuzzed.client.post(
        "/api/citations", json={"question": "capital", "documents": [{"text": "aunt lives in Japan"}]}
    ).json()["id"]
    for name in (done, failed, asked):
        fuzzed.wait_for_job(name)
    paths = ["/api/health", "/api/options", "/api/jobs", "/api/history", "/openapi.json"]
    paths += [f"/api/jobs/{name}" for name in (done, failed, asked, "0" * 16)]
    paths += [f"/api/explanations/{done}{suffix}" for suffix in ("", ".html", ".png")]
    paths += [f"/api/citations/{asked}{suffix}" for suffix in ("", ".html", ".md")]
    described = {route.ok().path: route.ok() for route in schema.get_all_operations() if route.ok().method == "get"}
    assert len(described) > 8
    for path in paths:
        response = fuzzed.client.get(path)
        names = [name for name in described if re.fullmatch(name.replace("{name}", r"[^/.]+"), path)]
        for name in names:
            described[name].validate_response(response)
    assert fuzzed.get_job(asked)["kind"] == "citations"
