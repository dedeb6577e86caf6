"""Citations in the service: bodies, responses, jobs, and one-line errors."""

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import reagent
from reagent.api.cite import CiteRequest
from reagent.case import Floats, Ids
from reagent.schemas import read_schema
from reagent.testing.scripted import ScriptedModel
from reagent.views.citations_page import to_view_data
from reagent.web.config import Limits
from reagent.web.jobs import JobQueue
from reagent.web.storage import ResultStore
from views.citation_samples import every_citation
from web.service import Gate, Service, create_service, wait_for

WORDS = ["Ann", "Bob", "left.", "slept.", "Who?", "Document", "1:", "2:", "Answer:"]
BODY: dict[str, Any] = {
    "question": "Who?",
    "documents": [{"id": "night", "text": "Bob slept."}, {"text": "Ann left."}],
    "answer": "Ann",
    "template": "{documents} {question}",
}


def reader(gate: Gate | None = None) -> ScriptedModel:
    """Answers "Ann" if the text contains "Ann left."."""

    def logits(context: Ids) -> Floats:
        if gate is not None:
            gate.wait()
        knows = ((context[:, :-1] == 0) & (context[:, 1:] == 2)).any(1)
        return np.asarray(9.0 * knows[:, None] * (np.arange(len(WORDS)) == 0))

    return ScriptedModel(WORDS, logits)


def submit(service: Service, **changes: Any) -> str:
    response = service.client.post("/api/citations", json=BODY | changes)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/api/jobs/{response.json()['id']}"
    return str(response.json()["id"])


@pytest.fixture
def citing(tmp_path: Path) -> Any:
    service = create_service(tmp_path, reader())
    yield service
    service.queue.close()


def test_the_service_returns_the_same_citations_as_python(citing: Service) -> None:
    name = submit(citing)
    job = citing.wait_for_job(name)
    assert (job["state"], job["kind"], job["answer"]) == ("done", "citations", "Ann"), job
    assert job["request"] == BODY
    documents = {"night": "Bob slept.", "2": "Ann left."}
    expected = reagent.cite(reader(), "Who?", documents, "Ann", template=BODY["template"])
    saved = citing.client.get(f"/api/citations/{name}").json()
    jsonschema.validate(saved, read_schema("citations"))
    assert saved["whole"] == expected.to_dict()["whole"]
    assert job["citations"]["rows"] == json.loads(json.dumps(to_view_data(expected)))["rows"]
    assert citing.client.post("/api/view", json=saved).json() == job["citations"]


def test_citations_are_available_in_every_format(citing: Service) -> None:
    name = submit(citing)
    citing.wait_for_job(name)
    html = citing.client.get(f"/api/citations/{name}.html")
    markdown = citing.client.get(f"/api/citations/{name}.md")
    assert "sandbox" in html.headers["content-security-policy"]
    assert html.text.startswith("<!doctype html>")
    assert markdown.text.startswith("**Who?**\n\nAnn[^1]")
    assert all("attachment" in response.headers["content-disposition"] for response in (html, markdown))
    assert citing.client.get(f"/api/explanations/{name}").status_code == 404
    (entry,) = citing.client.get("/api/history").json()
    assert (entry["id"], entry["kind"], entry["prompt"], entry["completion"], entry["method"]) == (
        name,
        "citations",
        "Who?",
        "Ann",
        "cite",
    )


def test_an_explanation_is_no_citation(service: Service) -> None:
    name = service.submit()
    service.wait_for_job(name)
    assert service.client.get(f"/api/citations/{name}").json() == {"error": f"there are no citations {name!r}"}


def test_a_link_survives_a_restart(tmp_path: Path) -> None:
    before = create_service(tmp_path, reader())
    name = submit(before)
    view = before.wait_for_job(name)["citations"]
    before.queue.close()
    after = create_service(tmp_path, reader())
    job = after.get_job(name)
    assert (job["kind"], job["citations"]) == ("citations", view)
    assert "request" not in job
    assert "event: done\n" in after.client.get(f"/api/jobs/{name}/events").text


def test_both_kinds_wait_in_one_queue(tmp_path: Path) -> None:
    gate = Gate()
    service = create_service(tmp_path, reader(gate))
    gate.shut()
    first = submit(service)
    assert gate.reached.wait(20)
    second = service.submit(prompt="Ann left. Who?")
    pending = service.client.get("/api/jobs").json()
    assert [(job["id"], job["kind"], job["state"]) for job in pending] == [
        (first, "citations", "running"),
        (second, "explanation", "queued"),
    ]
    assert service.client.delete(f"/api/jobs/{first}").json()["kind"] == "citations"
    gate.open()
    assert service.wait_for_job(first)["state"] == "cancelled"
    assert service.wait_for_job(second)["state"] == "done"
    service.queue.close()


def test_the_answer_and_the_progress_are_events(citing: Service) -> None:
    name = submit(citing)
    citing.wait_for_job(name)
    text = citing.client.get(f"/api/jobs/{name}/events").text
    events = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    assert events == ["token", "progress", "done"]


def test_a_request_that_takes_too_long_says_so(tmp_path: Path) -> None:
    gate = Gate()
    queue = JobQueue(reader(gate), ResultStore(tmp_path), Limits(seconds=1))
    gate.shut()
    job = queue.submit(CiteRequest.build("Who?", ["Ann left."], answer="Ann", template="{documents} {question}"))
    assert gate.reached.wait(20)
    time.sleep(1.1)
    gate.open()
    wait_for(lambda: job.state.status.ended)
    assert "the citations took more than 1 s" in str(job.state.error)
    queue.close()


def test_a_model_that_runs_here_needs_no_requests(citing: Service) -> None:
    response = citing.client.post("/api/citations/estimate", json=BODY)
    assert response.json() == {"requests": 0, "tokens": 0}
    assert citing.client.get("/api/options").json()["server"] is False
    assert citing.client.get("/api/options").json()["cite"] == {"removals": ["delete", "replace"]}


def test_the_requests_to_a_server_are_counted(tmp_path: Path) -> None:
    class Far(ScriptedModel):
        info = reader().info | {"backend": "http completions: next token"}

    service = create_service(tmp_path, Far(WORDS, reader().logits))
    body = {key: value for key, value in BODY.items() if key != "answer"}
    estimate = service.client.post("/api/citations/estimate", json=BODY).json()
    assert estimate["requests"] > 4
    assert estimate["tokens"] > estimate["requests"]
    longer = service.client.post("/api/citations/estimate", json=body | {"max_new_tokens": 2}).json()
    assert longer["requests"] > 0
    assert service.client.get("/api/options").json()["server"] is True
    assert service.client.get("/api/jobs").json() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question": " "}, "`question` is empty"),
        ({"documents": []}, "`documents` is empty"),
        ({"documents": ["Ann left."]}, "documents.0"),
        ({"documents": [{"text": " "}]}, "document 1 is empty"),
        ({"documents": [{"text": "a", "url": "b"}]}, "Extra inputs are not permitted"),
        ({"answer": " "}, "`answer` is empty"),
        ({"template": "{question}"}, "`template` must contain {documents} exactly once"),
        ({"removal": "mask"}, "removal 'mask'"),
        ({"removal": "burn"}, "unknown removal 'burn'"),
        ({"replacer": "roberto"}, "roberto"),
        ({"removal": "delete", "replacer": "random"}, "replaces nothing"),
        ({"max_new_tokens": 0}, "`max_new_tokens` must be at least 1"),
        ({"max_new_tokens": 101}, "at most 100 at this service"),
        ({"probes": 5000}, "at most 4096 at this service"),
        ({"seed": -1}, "`seed`"),
    ],
)
def test_bad_input_is_one_clear_error(citing: Service, changes: dict[str, Any], message: str) -> None:
    for path in ("/api/citations", "/api/citations/estimate"):
        response = citing.client.post(path, json=BODY | changes)
        assert response.status_code == 422, response.text
        assert message in response.json()["error"]
        assert "\n" not in response.json()["error"]
    assert citing.client.get("/api/jobs").json() == []


def test_documents_that_are_too_long_are_rejected(tmp_path: Path) -> None:
    service = create_service(tmp_path, reader(), Limits(prompt=50))
    response = service.client.post("/api/citations", json=BODY)
    assert response.status_code == 413
    assert response.json()["error"].startswith("the documents have 53 characters; this service accepts at most 50")


@pytest.mark.parametrize("name", sorted(set(every_citation()) - {"hostile"}))  # a lone surrogate is not valid JSON
def test_every_file_of_citations_can_be_opened(service: Service, name: str) -> None:
    saved = every_citation()[name].to_dict()
    response = service.client.post("/api/view", content=json.dumps(saved), headers={"Content-Type": "application/json"})
    assert response.status_code == 200, response.text
    assert response.json()["kind"] == "citations"


def test_the_routes_are_described(service: Service) -> None:
    paths = service.client.get("/openapi.json").json()["paths"]
    assert {"/api/citations", "/api/citations/estimate", "/api/citations/{name}", "/api/history"} <= set(paths)
    assert "POST /api/citations/estimate" in service.client.get("/docs").text
