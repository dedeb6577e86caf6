"""The routes of the service."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.responses import Response

from reagent._version import __version__
from reagent.api.estimate import estimate_requests, is_server
from reagent.citations import Citations
from reagent.explanation import Explanation
from reagent.models.base import Model
from reagent.views.html import render_page
from reagent.views.plots import save_png
from reagent.web import schemas
from reagent.web.api_docs import render_api_docs
from reagent.web.assets import serve_asset
from reagent.web.config import ServiceConfig
from reagent.web.jobs import Job, JobQueue, QueueFullError
from reagent.web.requests import CiteBody, ExplainBody, ServiceOptions
from reagent.web.responses import (
    BODY_ERRORS,
    JsonResponse,
    add_error_handlers,
    correct_media_types,
    describe_errors,
    describe_file,
)
from reagent.web.results import JobRequest, read_result, summarize_request, to_view_data
from reagent.web.saved_jobs import SavedJobs
from reagent.web.security import Guard
from reagent.web.sse import stream_events
from reagent.web.storage import ResultStore

# A downloaded page runs its own script and cannot reach anything, not even this service.
DOWNLOAD_POLICY = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"


def create_app(model: Model, config: ServiceConfig | None = None) -> FastAPI:
    """Create the service for one model; `app.state.jobs` is its `JobQueue`."""
    config = config or ServiceConfig()
    app = FastAPI(
        title="reagent",
        summary="Which parts of my prompt made this language model say that?",
        version=__version__,
        docs_url=None,  # the page of FastAPI loads scripts from other sites
        redoc_url=None,
        default_response_class=JsonResponse,
        responses=describe_errors(401, 403, 422, 500, 503),  # the guard may reject any request
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},  # prompts are private
    )
    store = ResultStore(config.folder)
    queue = JobQueue(model, store, config.limits, SavedJobs(config.folder, str(model.info["id"])))
    options = ServiceOptions(model, config.limits)
    queue.restore(options.build_saved)
    app.state.jobs = queue
    add_error_handlers(app)
    add_page(app)
    add_service(app, queue, options)
    add_jobs(app, queue, options)
    add_explanations(app)
    add_citations(app, queue, options)
    describe = app.openapi
    app.openapi = lambda: correct_media_types(describe())  # type: ignore[method-assign]
    app.add_middleware(Guard, access=config.access, body=config.limits.body)
    return app


def find_job(name: str, request: Request) -> Job:
    queue: JobQueue = request.app.state.jobs
    job = queue.find(name)
    if job is None:
        raise HTTPException(404, f"there is no job {name!r}")
    return job


def find_explanation(name: str, request: Request) -> Explanation:
    queue: JobQueue = request.app.state.jobs
    why = queue.store.get(name)
    if not isinstance(why, Explanation):
        raise HTTPException(404, f"there is no explanation {name!r}")
    return why


def find_citations(name: str, request: Request) -> Citations:
    queue: JobQueue = request.app.state.jobs
    citations = queue.store.get(name)
    if not isinstance(citations, Citations):
        raise HTTPException(404, f"there are no citations {name!r}")
    return citations


RequestedJob = Annotated[Job, Depends(find_job)]
RequestedExplanation = Annotated[Explanation, Depends(find_explanation)]
RequestedCitations = Annotated[Citations, Depends(find_citations)]


def add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def get_page(request: Request) -> Response:
        return serve_asset("index.html", request)

    @app.get("/favicon.ico", include_in_schema=False)
    def get_icon(request: Request) -> Response:
        return serve_asset("favicon.svg", request)

    @app.get("/assets/{name}", include_in_schema=False)
    def get_asset(name: str, request: Request) -> Response:
        return serve_asset(name, request)

    @app.get("/docs", include_in_schema=False)
    def get_docs() -> Response:
        return render_api_docs(app.openapi())


def add_service(app: FastAPI, queue: JobQueue, options: ServiceOptions) -> None:
    @app.get("/api/health", tags=["service"], response_model=schemas.Health)
    def get_health() -> Response:
        """Return that the service runs, its model, and the numbers of waiting and running jobs."""
        queued, running = queue.counts()
        return JsonResponse({"status": "ok", "model": queue.model.info["id"], "queued": queued, "running": running})

    @app.get("/api/options", tags=["service"], response_model=schemas.Options)
    def get_options() -> Response:
        """Return the methods, presets, removals, replacers and units that this model supports, and the limits."""
        return JsonResponse(options.describe())


def add_jobs(app: FastAPI, queue: JobQueue, options: ServiceOptions) -> None:
    path, errors = "/api/jobs/{name}", describe_errors(404)

    @app.post(
        "/api/jobs",
        tags=["jobs"],
        status_code=201,
        response_model=schemas.JobId,
        responses=describe_errors(*BODY_ERRORS, 429),
    )
    def create_job(body: ExplainBody) -> Response:
        """Request an explanation. If the queue is full, the answer is 429 with a Retry-After header."""
        return _submit(queue, options.build_request(body), body)

    @app.get("/api/jobs", tags=["jobs"], response_model=list[schemas.PendingJob])
    def list_jobs() -> Response:
        """List the running job and the waiting jobs, in the order in which they are computed."""
        return JsonResponse([_describe_pending(job) for job in queue.pending()])

    @app.get(path, tags=["jobs"], response_model=schemas.Job, responses=errors)
    def get_job(job: RequestedJob) -> Response:
        """Return the state of a job, with its request and the latest partial result."""
        return JsonResponse(_describe_job(job))

    @app.get(path + "/events", tags=["jobs"], response_class=EventSourceResponse, responses=errors)
    async def get_events(job: RequestedJob) -> AsyncIterator[ServerSentEvent]:
        """Stream a job as server-sent events: the latest state first, then every change until the job ends.

        `state` {"state"}; `token` {"text"}: the whole answer so far; `progress` {"done", "total"}; `partial`: the
        explanation so far, as the input of view.js. The last event is `done` with the final explanation or the
        citations, `failed` {"error"} or `cancelled`.
        """
        async for event in stream_events(job):
            yield event

    @app.delete(path, tags=["jobs"], response_model=schemas.Job, responses=errors | describe_errors(*BODY_ERRORS))
    def cancel_job(job: RequestedJob) -> Response:
        """Cancel a job that waits or runs. A job that has ended does not change."""
        queue.cancel(job)
        return JsonResponse(_describe_job(job))

    @app.get("/api/history", tags=["jobs"], response_model=list[schemas.HistoryItem])
    def list_history() -> Response:
        """List the explanations and citations since the service was started, the latest first."""
        return JsonResponse(list(queue.history))


def add_explanations(app: FastAPI) -> None:
    path, errors = "/api/explanations/{name}", describe_errors(404)

    @app.get(
        path + ".html", tags=["explanations"], response_class=Response, responses=errors | describe_file("text/html")
    )
    def get_html(name: str, why: RequestedExplanation) -> Response:
        """Download an explanation as a self-contained HTML file."""
        return _download(render_page(why), f"{name}.html", "text/html; charset=utf-8")

    @app.get(
        path + ".png", tags=["explanations"], response_class=Response, responses=errors | describe_file("image/png")
    )
    def get_png(name: str, why: RequestedExplanation) -> Response:
        """Download an explanation as a plot."""
        with tempfile.TemporaryDirectory() as folder:
            plot = save_png(why, Path(folder) / "why.png").read_bytes()
        return _download(plot, f"{name}.png", "image/png")

    @app.get(path, tags=["explanations"], response_model=schemas.ExplanationJson, responses=errors)
    def get_explanation(why: RequestedExplanation) -> Response:
        """Return an explanation in the schema reagent.explanation/2."""
        return JsonResponse(why.to_dict())

    @app.post(
        "/api/view", tags=["explanations"], response_model=dict[str, Any], responses=describe_errors(*BODY_ERRORS)
    )
    def create_view(result: Annotated[schemas.ExplanationJson | schemas.CitationsJson, Body()]) -> Response:
        """Convert an explanation or citations to the input of view.js or citations.js."""
        return JsonResponse(to_view_data(read_result(result)))


def add_citations(app: FastAPI, queue: JobQueue, options: ServiceOptions) -> None:
    path, errors = "/api/citations/{name}", describe_errors(404)

    @app.post(
        "/api/citations",
        tags=["citations"],
        status_code=201,
        response_model=schemas.JobId,
        responses=describe_errors(*BODY_ERRORS, 429),
    )
    def create_citations(body: CiteBody) -> Response:
        """Ask a question about documents. The job is one of /api/jobs. If the queue is full, the answer is 429."""
        return _submit(queue, options.build_cite_request(body), body)

    @app.post(
        "/api/citations/estimate",
        tags=["citations"],
        response_model=schemas.CostEstimate,
        responses=describe_errors(*BODY_ERRORS),
    )
    def estimate_citations(body: CiteBody) -> Response:
        """Return an upper bound of the requests that a question sends to the server of the model."""
        request = options.build_cite_request(body)
        if not is_server(queue.model):
            return JsonResponse({"requests": 0, "tokens": 0})
        cost = estimate_requests(queue.model, request)
        return JsonResponse({"requests": cost.requests, "tokens": cost.tokens})

    @app.get(path + ".html", tags=["citations"], response_class=Response, responses=errors | describe_file("text/html"))
    def get_citations_html(name: str, citations: RequestedCitations) -> Response:
        """Download citations as a self-contained HTML file."""
        return _download(citations.to_html(), f"{name}.html", "text/html; charset=utf-8")

    @app.get(
        path + ".md", tags=["citations"], response_class=Response, responses=errors | describe_file("text/markdown")
    )
    def get_citations_markdown(name: str, citations: RequestedCitations) -> Response:
        """Download the answer with footnotes as Markdown."""
        return _download(citations.to_markdown(), f"{name}.md", "text/markdown; charset=utf-8")

    @app.get(path, tags=["citations"], response_model=schemas.CitationsJson, responses=errors)
    def get_citations(citations: RequestedCitations) -> Response:
        """Return citations in the schema reagent.citations/1."""
        return JsonResponse(citations.to_dict())


def _submit(queue: JobQueue, request: JobRequest, body: ExplainBody | CiteBody) -> Response:
    try:
        job = queue.submit(request, body.model_dump(exclude_unset=True))
    except QueueFullError as error:
        raise HTTPException(429, str(error), {"Retry-After": str(error.retry_after)}) from error
    return JsonResponse({"id": job.name}, 201, {"Location": f"/api/jobs/{job.name}"})


def _describe_pending(job: Job) -> dict[str, Any]:
    assert job.request is not None  # jobs from the store are never queued
    return {"id": job.name, "kind": job.kind, "state": job.state.status, **summarize_request(job.request)}


def _describe_job(job: Job) -> dict[str, Any]:
    state = job.state
    fields = {
        "id": job.name,
        "kind": job.kind,
        "state": state.status,
        "progress": {"done": state.done, "total": state.total},
        "request": job.body,
        "answer": state.answer,
        "error": state.error,
        job.kind: state.view,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _download(content: str | bytes, name: str, media_type: str) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="reagent-{name}"',
        "Content-Security-Policy": DOWNLOAD_POLICY,
    }
    return Response(content, media_type=media_type, headers=headers)
