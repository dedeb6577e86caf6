"""The routes: bodies, responses and one-line errors."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import reagent
from reagent.models.huggingface import HuggingFaceModel
from reagent.replacers import REPLACERS, ReplacerInfo
from reagent.replacers.self_lm import SelfReplacer
from reagent.schemas import read_schema
from reagent.views.html import to_view_data
from reagent.web.config import Limits
from web.service import PROMPT, Service, capital_model, create_service

SCHEMA = read_schema("explanation")
INJECTIONS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE jobs; --",
    "{{7*7}} ${7*7} %s %n",
    "../../../etc/passwd",
    "a\r\nSet-Cookie: x=1\r\n\r\n",
    "event: done\ndata: {}\n\n",
    "\u202eright to left\u2066 \ufeff\x00\x07",
    "\U0001f469\u200d\U0001f680 שלום مرحبا",
]


class Impossibility:
    """A capability that no model has."""


def test_a_replacer_that_is_added_to_the_table_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Added:
        """Declares no requirements."""

        info = SelfReplacer().info
        propose = SelfReplacer().propose

    class Impossible(Added):
        requires = (Impossibility,)

    monkeypatch.setitem(REPLACERS, "added", ReplacerInfo(Added(), "the newest one"))
    monkeypatch.setitem(REPLACERS, "impossible", ReplacerInfo(Impossible(), "no model can do it"))
    service = create_service(tmp_path)
    offered = {entry["id"]: entry["summary"] for entry in service.client.get("/api/options").json()["replacers"]}
    assert offered["added"] == "the newest one"
    assert "impossible" not in offered
    assert service.wait_for_job(service.submit(replacer="added"))["state"] == "done"


def test_the_service_returns_the_same_explanation_as_python(service: Service) -> None:
    job = service.wait_for_job(service.submit())
    assert job["state"] == "done"
    assert job["answer"] == " Tokyo"
    why = reagent.explain(capital_model(), PROMPT, max_new_tokens=1)
    expected = json.loads(json.dumps(to_view_data(why)))
    assert [row["scores"] for row in job["explanation"]["rows"]] == [row["scores"] for row in expected["rows"]]
    assert job["explanation"]["tokens"] == expected["tokens"]
    assert max(range(6), key=job["explanation"]["rows"][0]["scores"].__getitem__) == 3  # "Japan"


def test_an_explanation_is_available_in_every_format(service: Service) -> None:
    name = service.submit()
    service.wait_for_job(name)
    why = service.client.get(f"/api/explanations/{name}").json()
    jsonschema.validate(why, SCHEMA)
    html = service.client.get(f"/api/explanations/{name}.html")
    png = service.client.get(f"/api/explanations/{name}.png")
    assert html.headers["content-type"].startswith("text/html")
    assert "sandbox" in html.headers["content-security-policy"]
    assert png.content.startswith(b"\x89PNG")
    assert all("attachment" in response.headers["content-disposition"] for response in (html, png))
    assert service.client.post("/api/view", json=why).json() == service.get_job(name)["explanation"]
    (entry,) = service.client.get("/api/history").json()
    assert entry == {
        "id": name,
        "kind": "explanation",
        "prompt": PROMPT,
        "completion": " Tokyo",
        "method": "reagent",
    } | {"created": why["created"]}


def test_a_link_survives_a_restart(tmp_path: Path) -> None:
    before = create_service(tmp_path)
    name = before.submit()
    view = before.wait_for_job(name)["explanation"]
    before.queue.close()
    after = create_service(tmp_path)
    requested = {"request": {"prompt": PROMPT, "max_new_tokens": 1}}  # known until the restart
    assert after.get_job(name) | requested == before.get_job(name)
    assert after.get_job(name)["explanation"] == view
    assert "event: done\n" in after.client.get(f"/api/jobs/{name}/events").text
    assert after.client.get("/api/history").json() == []  # the history starts anew


def test_the_fields_of_a_request_reach_the_method(service: Service) -> None:
    name = service.submit(method="occlusion", preset="replacement", replacer="random", seed=3, unit="word")
    facts = dict(service.wait_for_job(name)["explanation"]["facts"])
    assert "occlusion" in facts["method"]
    assert facts["seed"] == "3"
    contrasted = service.wait_for_job(service.submit(contrast=" Paris"))
    assert "Paris" in json.dumps(contrasted["explanation"]["rows"][0]["question"])
    exact = service.wait_for_job(service.submit(probes=40))
    assert exact["progress"] == {"done": 40, "total": 40}
    for removal in ("delete", "replace"):
        job = service.wait_for_job(service.submit(method="lime", removal=removal))
        assert dict(job["explanation"]["facts"])["removal"] == removal


def test_a_job_has_the_body_of_its_request(service: Service) -> None:
    body = {"method": "occlusion", "preset": "replacement", "seed": 3, "what_if": True, "target_span": " Tokyo"}
    job = service.wait_for_job(service.submit(**body))
    assert job["state"] == "done", job
    assert job["request"] == {"prompt": PROMPT, "max_new_tokens": 1, **body}


def test_an_answer_can_be_traced(service: Service) -> None:
    name = service.submit(target=" Paris Tokyo", answer_span="Tokyo")
    job = service.wait_for_job(name)
    assert job["state"] == "done", job
    assert service.client.get(f"/api/explanations/{name}").json()["trace"]["answer"]["text"].strip() == "Tokyo"


def test_a_phrase_and_counterfactual_outputs_can_be_requested(service: Service) -> None:
    name = service.submit(target_span="Tokyo", what_if=True)
    service.wait_for_job(name)
    why = service.client.get(f"/api/explanations/{name}").json()
    assert why["target"] == {"kind": "span", "index": 0, "text": "Tokyo"}
    assert why["what_if"][0]["target"] == 0
    presets = {
        method["id"]: [preset["what_if"] for preset in method["presets"]]
        for method in service.client.get("/api/options").json()["methods"]
    }
    assert all(presets["reagent"])
    assert presets["random"] == [False]
    for method, flags in presets.items():
        body = {"prompt": PROMPT, "method": method, "max_new_tokens": 1, "what_if": True}
        expected = 201 if flags[0] else 422
        assert service.client.post("/api/jobs", json=body).status_code == expected, method


def test_a_chat_is_listed_by_its_last_user_message(tiny_model: HuggingFaceModel, tmp_path: Path) -> None:
    model = copy.copy(tiny_model)
    model.tokenizer = copy.deepcopy(tiny_model.tokenizer)
    model.tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}"
    service = create_service(tmp_path, model)
    messages = [("user", "My aunt moved"), ("assistant", "to Japan"), ("user", "to teach?"), ("tool", "music")]
    body = {"messages": [{"role": role, "content": content} for role, content in messages], "method": "random"}
    response = service.client.post("/api/jobs", json={**body, "target": " Tokyo"})
    assert service.wait_for_job(response.json()["id"])["state"] == "done"
    (entry,) = service.client.get("/api/history").json()
    assert entry["prompt"] == "to teach?"
    service.queue.close()


def test_options_depend_on_the_model(service: Service, tiny_model: HuggingFaceModel, tmp_path: Path) -> None:
    scripted = service.client.get("/api/options").json()
    methods = {method["id"]: method for method in scripted["methods"]}
    assert "attention" not in methods
    assert "integrated_gradients" not in methods
    assert [preset["id"] for preset in methods["greedy"]["presets"]] == ["replacement", "deletion", "exhaustive"]
    presets = {preset["id"]: preset for preset in methods["reagent"]["presets"]}
    assert [presets[name]["probes"] for name in ("fast", "leave-one-out", "paper")] == [True, True, False]
    assert all(preset["replaces"] for preset in presets.values())  # fast too, if a replacer is named
    assert not methods["random"]["presets"][0]["replaces"]
    assert scripted["chat"] is False
    assert presets["fast"]["removals"] == ["delete", "replace"]  # a scripted model takes no attention mask
    assert presets["fast"]["removal"] == "delete"
    assert presets["paper"]["removals"] == []
    assert presets["paper"]["removal"] is None
    real = create_service(tmp_path, tiny_model).client.get("/api/options").json()
    methods = {method["id"]: method for method in real["methods"]}
    assert {"attention", "integrated_gradients"} <= set(methods)
    assert all(preset["removals"] == ["delete", "mask", "replace"] for preset in methods["occlusion"]["presets"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "give a prompt or messages"),
        ({"prompt": PROMPT, "messages": [{"role": "user", "content": "aunt"}]}, "one of the two"),
        ({"prompt": "  "}, "the prompt is empty"),
        ({"prompt": 7}, "prompt: Input should be a valid string"),
        ({"prompt": PROMPT, "methd": "lime"}, "methd: Extra inputs are not permitted"),
        ({"prompt": PROMPT, "method": "regent"}, "did you mean 'reagent'"),
        ({"prompt": PROMPT, "preset": "papr"}, "Known: fast"),
        ({"prompt": PROMPT, "method": "attention"}, "does not"),
        ({"prompt": PROMPT, "method": "random", "replacer": "self"}, "replaces nothing"),
        ({"prompt": PROMPT, "method": "lime", "probes": 5}, "has no option 'probes'"),
        ({"prompt": PROMPT, "removal": "masks"}, "unknown removal 'masks', did you mean 'mask'? Known"),
        ({"prompt": PROMPT, "removal": True}, "removal: Input should be a valid string"),
        ({"prompt": PROMPT, "removal": "mask"}, "removal 'mask'"),
        ({"prompt": PROMPT, "method": "lime", "removal": "mask"}, "method 'lime' with removal 'mask'"),
        ({"prompt": PROMPT, "preset": "paper", "removal": "delete"}, "has no option 'removal'"),
        ({"prompt": PROMPT, "removal": "delete", "replacer": "random"}, "replaces nothing: leave out the replacer"),
        ({"prompt": PROMPT, "unit": "letter"}, "unknown unit"),
        ({"prompt": PROMPT, "target": ""}, "`target` is empty"),
        ({"prompt": PROMPT, "target_span": ""}, "`target_span` is empty"),
        ({"prompt": PROMPT, "target_span": " a", "contrast": " b"}, "give `target_span` or `contrast`, not both"),
        ({"prompt": PROMPT, "what_if": "yes"}, "what_if: Input should be a valid boolean"),
        ({"prompt": PROMPT, "method": "random", "what_if": True}, "replaces nothing"),
        ({"prompt": PROMPT, "max_new_tokens": 0}, "`max_new_tokens` must be at least 1"),
        ({"prompt": PROMPT, "max_new_tokens": 101}, "at most 100"),
        ({"prompt": PROMPT, "probes": 0}, "must be a whole number from 1"),
        ({"prompt": PROMPT, "probes": 10**6}, "at most 4096"),
        ({"prompt": PROMPT, "seed": -1}, "`seed` must be between 0 and"),
        ({"messages": [{"role": "user", "content": "aunt"}]}, "no chat template"),
        ({"messages": []}, "at least one"),
    ],
)
def test_a_wrong_body_is_rejected_with_one_line(service: Service, body: dict[str, Any], message: str) -> None:
    response = service.client.post("/api/jobs", json=body)
    assert response.status_code == 422
    assert list(response.json()) == ["error"]
    assert message in response.json()["error"]
    assert "\n" not in response.json()["error"]


def test_an_error_of_the_model_fails_the_job(service: Service) -> None:
    job = service.wait_for_job(service.submit(prompt="aunt lives in Atlantis"))
    assert (job["state"], job["error"]) == ("failed", "the scripted model does not know the word 'Atlantis'")


def test_a_prompt_that_is_too_long_is_413(tmp_path: Path) -> None:
    service = create_service(tmp_path, limits=Limits(prompt=50))
    for body in (
        {"prompt": "aunt " * 20},
        {"target": " aunt" * 20},
        {"target_span": " aunt" * 20},
        {"answer_span": " aunt" * 20},
    ):
        response = service.client.post("/api/jobs", json={"prompt": "aunt"} | body)
        assert response.status_code == 413
        assert "at most 50" in response.json()["error"]


@pytest.mark.parametrize("text", INJECTIONS)
def test_markup_and_control_characters_stay_text(text: str, tiny_model: HuggingFaceModel, tmp_path: Path) -> None:
    service = create_service(tmp_path, tiny_model)
    name = service.submit(prompt=f"My aunt {text} moved", target=f" to {text}", method="random")
    job = service.wait_for_job(name)
    assert job["state"] == "done", job
    assert service.client.get(f"/api/explanations/{name}").json()["completion"] == f" to {text}"
    stream = service.client.get(f"/api/jobs/{name}/events")
    assert [line for line in stream.text.splitlines() if line.startswith("event: done")] == ["event: done"]
    page = service.client.get(f"/api/explanations/{name}.html").text
    assert "<script>alert" not in page
    assert "<img" not in page
    service.queue.close()


def test_a_lone_surrogate_is_rejected(service: Service) -> None:
    body = b'{"prompt": "aunt \\ud800 lives"}'
    response = service.client.post("/api/jobs", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 422


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"NaN", b'{"schema": "reagent.explanation/1"}', b"[" * 100_000, b'{"a":' * 50_000],
)
def test_a_body_that_is_not_an_explanation_is_rejected(service: Service, body: bytes) -> None:
    response = service.client.post("/api/view", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422), response.text
    assert response.json()["error"]


@pytest.mark.parametrize("name", ["0" * 16, "x", "..%2F..%2Fetc%2Fpasswd", "%00", "0" * 5000])
def test_an_unknown_id_is_404(service: Service, name: str) -> None:
    for path in (
        "/api/jobs/{}",
        "/api/jobs/{}/events",
        "/api/explanations/{}",
        "/api/explanations/{}.html",
        "/assets/{}",
    ):
        response = service.client.get(path.format(name))
        assert response.status_code == 404
        assert response.json()["error"]


def test_unchanged_files_are_not_sent_twice(service: Service) -> None:
    for path, kind in (("/", "text/html"), ("/assets/view.js", "text/javascript"), ("/assets/view.css", "text/css")):
        first = service.client.get(path)
        assert first.status_code == 200
        assert first.headers["content-type"].startswith(kind)
        assert first.headers["cache-control"] == "no-cache"
        second = service.client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (second.status_code, second.content) == (304, b"")


def test_the_api_docs_list_every_route_and_load_nothing_from_other_sites(service: Service) -> None:
    page = service.client.get("/docs").text
    paths = service.client.get("/openapi.json").json()["paths"]
    assert all(path in page for path in paths)
    assert {"/api/health", "/api/options", "/api/jobs", "/api/view", "/api/explanations/{name}"} <= set(paths)
    assert "http://" not in page
    assert "https://" not in page


def test_health_reports_the_model_and_the_queue(service: Service) -> None:
    assert service.client.get("/api/health").json() == {
        "status": "ok",
        "model": "scripted",
        "queued": 0,
        "running": 0,
    }
