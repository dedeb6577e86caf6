"""The routes."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from reagent._version import __version__
from reagent.explanation import Explanation
from reagent.explanation_json import from_dict, to_dict
from reagent.models.base import Model
from reagent.views.html import render_page, to_view_data
from reagent.views.plots import require_matplotlib, save_png
from reagent.web import schemas
from reagent.web.assets import asset
from reagent.web.config import ServiceConfig
from reagent.web.jobs import Job, JobQueue, QueueFullError
from reagent.web.reference import reference
from reagent.web.requests import Question, Questions
from reagent.web.responses import Json, add_handlers, failures
from reagent.web.security import Guard
from reagent.web.sse import events
from reagent.web.storage import ExplanationStore

# A saved page runs its own script and may reach nothing, not even this service.
ALONE = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"


def create_app(model: Model, settings: ServiceConfig | None = None) -> FastAPI:
    """The service for one model; `app.state.desk` is where its jobs are."""
    chosen = settings or ServiceConfig()
    app = FastAPI(
        title="reagent",
        summary="Which parts of my prompt made this language model say that?",
        version=__version__,
        docs_url=None,  # FastAPI's page loads scripts from elsewhere
        redoc_url=None,
        default_response_class=Json,
        responses=failures(401, 403, 422),  # the guard may refuse any request
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},  # prompts are private
    )
    shelf = ExplanationStore(chosen.folder)
    app.state.desk = JobQueue(model, shelf, chosen.limits)
    questions = Questions(model, chosen.limits)
    add_handlers(app)
    add_page(app)
    add_jobs(app, app.state.desk, questions)
    add_explanations(app, app.state.desk, shelf)
    app.add_middleware(Guard, access=chosen.access, body=chosen.limits.body)
    return app


def add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def front(request: Request) -> Response:
        return _found(asset("index.html", request), "the page is missing from this installation")

    @app.get("/favicon.ico", include_in_schema=False)
    def icon(request: Request) -> Response:
        return asset("favicon.svg", request) or Response(status_code=204)

    @app.get("/assets/{name}", include_in_schema=False)
    def assets(name: str, request: Request) -> Response:
        return _found(asset(name, request), f"there is no file {name!r}")

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return reference(app.openapi())


def add_jobs(app: FastAPI, desk: JobQueue, questions: Questions) -> None:
    @app.get("/api/health", tags=["service"], response_model=schemas.Health)
    def health() -> Response:
        """Whether the service answers, and how busy it is."""
        queued, running = desk.counts()
        return Json({"status": "ok", "model": desk.model.info["id"], "queued": queued, "running": running})

    @app.get("/api/options", tags=["service"], response_model=schemas.Options)
    def options() -> Response:
        """What may be asked: methods, presets, replacers and units that this model can do, and the limits."""
        return Json(questions.options())

    @app.post("/api/jobs", tags=["jobs"], status_code=201, response_model=schemas.Id, responses=failures(413, 429))
    def ask(question: Question) -> Response:
        """Ask for an explanation; 429 and Retry-After when too many wait already."""
        try:
            job = desk.submit(questions.build(question))
        except QueueFullError as error:
            raise HTTPException(429, str(error), {"Retry-After": str(error.seconds)}) from error
        return Json({"id": job.name}, 201, {"Location": f"/api/jobs/{job.name}"})

    @app.get("/api/jobs/{name}", tags=["jobs"], response_model=schemas.Job, responses=failures(404))
    def job(name: str) -> Response:
        """How far a job is, with the latest picture."""
        return Json(_described(_job(desk, name)))

    @app.get(
        "/api/jobs/{name}/events",
        tags=["jobs"],
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}, **failures(404)},
    )
    def watch(name: str) -> Response:
        """A job as server-sent events: the latest state first, then what changes, until it ends.

        `state` {"state"}; `token` {"text"}: the whole answer so far; `progress` {"done", "total"}; `partial`: the
        picture so far, as view.js draws it; and at last `done`: the final picture, `failed` {"error"} or
        `cancelled`.
        """
        return StreamingResponse(events(_job(desk, name)), media_type="text/event-stream")

    @app.delete("/api/jobs/{name}", tags=["jobs"], response_model=schemas.Job, responses=failures(404))
    def cancel(name: str) -> Response:
        """Cancel a job that waits or runs; one that has ended stays as it is."""
        found = _job(desk, name)
        desk.cancel(found)
        return Json(_described(found))


def add_explanations(app: FastAPI, desk: JobQueue, shelf: ExplanationStore) -> None:
    many, one = "/api/explanations", "/api/explanations/{name}"

    def saved(name: str) -> Explanation:
        why = shelf.get(name)
        if why is None:
            raise HTTPException(404, f"there is no explanation {name!r}")
        return why

    @app.get(many, tags=["explanations"], response_model=list[schemas.HistoryItem])
    def history() -> Response:
        """What was explained since the service was started, the latest first."""
        return Json(list(desk.history))

    @app.get(one + ".html", tags=["explanations"], response_class=Response, responses=failures(404))
    def as_html(name: str) -> Response:
        """A page of its own, to keep."""
        return _download(render_page(saved(name)), f"{name}.html", "text/html; charset=utf-8")

    @app.get(one + ".png", tags=["explanations"], response_class=Response, responses=failures(404))
    def as_png(name: str) -> Response:
        """A plot, to keep."""
        why = saved(name)
        require_matplotlib()
        with tempfile.TemporaryDirectory() as folder:
            picture = save_png(why, Path(folder) / "why.png").read_bytes()
        return _download(picture, f"{name}.png", "image/png")

    @app.get(one, tags=["explanations"], response_model=schemas.Saved, responses=failures(404))
    def as_json(name: str) -> Response:
        """The explanation itself, in the schema reagent.explanation/1."""
        return Json(to_dict(saved(name)))

    @app.post("/api/view", tags=["explanations"], response_model=dict[str, Any], responses=failures(413))
    def view(explanation: Annotated[schemas.Saved, Body()]) -> Response:
        """What view.js draws of an explanation in the schema reagent.explanation/1."""
        return Json(to_view_data(from_dict(explanation)))


def _job(desk: JobQueue, name: str) -> Job:
    found = desk.find(name)
    if found is None:
        raise HTTPException(404, f"there is no job {name!r}")
    return found


def _described(job: Job) -> dict[str, Any]:
    look = job.look
    known = {
        "id": job.name,
        "state": look.state,
        "progress": {"done": look.done, "total": look.total},
        "answer": look.answer,
        "error": look.error,
        "explanation": look.view,
    }
    return {key: value for key, value in known.items() if value is not None}


def _found(answer: Response | None, otherwise: str) -> Response:
    if answer is None:
        raise HTTPException(404, otherwise)
    return answer


def _download(content: str | bytes, name: str, kind: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="reagent-{name}"', "Content-Security-Policy": ALONE}
    return Response(content, media_type=kind, headers=headers)
