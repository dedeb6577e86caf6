"""The JSON bodies and responses, for the OpenAPI description. The routes return plain dictionaries."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, WithJsonSchema

from reagent.schemas import read_schema
from reagent.web.requests import CiteBody, ExplainBody
from reagent.web.results import Kind


def _inline_schema(kind: Kind) -> dict[str, Any]:
    """Load a schema and resolve its references, which are not valid inside another document."""
    schema = read_schema(kind)
    definitions = schema.pop("$defs")

    def resolve(part: Any) -> Any:
        if isinstance(part, list):
            return [resolve(item) for item in part]
        if not isinstance(part, dict):
            return part
        name = str(part.get("$ref", "")).rpartition("/")[2]
        own = {key: resolve(value) for key, value in part.items() if key not in ("$ref", "$schema", "$id")}
        return resolve(definitions[name]) | own if name else own

    return dict(resolve(schema))


ExplanationJson = Annotated[dict[str, Any], WithJsonSchema(_inline_schema("explanation"))]
CitationsJson = Annotated[dict[str, Any], WithJsonSchema(_inline_schema("citations"))]


class Health(BaseModel):
    status: Literal["ok"]
    model: str
    queued: int
    running: int


class Option(BaseModel):
    id: str
    summary: str


class PresetOption(Option):
    replaces: bool  # whether it can use a replacer
    what_if: bool  # whether it can report what the model says under a replacement
    probes: bool  # whether it has the option `probes`
    removal: str | None  # how it removes units by default
    removals: list[str]  # the values of its option `removal`; empty if it has none


class MethodOption(BaseModel):
    id: str
    summary: str
    cost: str
    presets: list[PresetOption]


class CiteOptions(BaseModel):
    removals: list[str]


class Options(BaseModel):
    models: list[str]
    methods: list[MethodOption]
    replacers: list[Option]
    units: list[str]
    chat: bool  # whether the model has a chat template
    server: bool  # whether the model runs behind an API, so that every pass is a request
    cite: CiteOptions
    limits: dict[str, int]


class JobId(BaseModel):
    id: str


class CostEstimate(BaseModel):
    """At most this number of requests to the server of the model; 0 if the model runs here."""

    requests: int
    tokens: int


class JobProgress(BaseModel):
    done: int
    total: int


class PendingJob(BaseModel):
    """A job that waits or runs; of a chat, `prompt` is the last user message, of citations the question."""

    id: str
    kind: Kind
    state: Literal["queued", "running"]
    prompt: str
    method: str


class Job(BaseModel):
    """A job.

    `explanation` is the input of view.js, from the first partial result on; `citations` is that of citations.js.
    `request` is the body of the request, unless the service was restarted since.
    """

    id: str
    kind: Kind
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: JobProgress
    request: ExplainBody | CiteBody | None = None
    answer: str | None = None
    error: str | None = None
    explanation: dict[str, Any] | None = None
    citations: dict[str, Any] | None = None


class HistoryItem(BaseModel):
    """One result of the history; of a chat, `prompt` is the last user message, of citations the question."""

    id: str
    kind: Kind
    prompt: str
    completion: str
    method: str
    created: str
