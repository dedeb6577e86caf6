"""The JSON bodies and responses, for the OpenAPI description. The routes return plain dictionaries."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, WithJsonSchema

from reagent.schemas import read_schema
from reagent.web.requests import ExplainBody


def _explanation_schema() -> dict[str, Any]:
    """Load explanation.schema.json and resolve its references, which are not valid inside another document."""
    schema = read_schema("explanation")
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


ExplanationJson = Annotated[dict[str, Any], WithJsonSchema(_explanation_schema())]


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


class Options(BaseModel):
    models: list[str]
    methods: list[MethodOption]
    replacers: list[Option]
    units: list[str]
    chat: bool  # whether the model has a chat template
    limits: dict[str, int]


class JobId(BaseModel):
    id: str


class JobProgress(BaseModel):
    done: int
    total: int


class PendingJob(BaseModel):
    """A job that waits or runs; for a chat, `prompt` is its last user message."""

    id: str
    state: Literal["queued", "running"]
    prompt: str
    method: str


class Job(BaseModel):
    """A job.

    `explanation` is the input of view.js, from the first partial result on. `request` is the body of the request,
    unless the service was restarted since.
    """

    id: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: JobProgress
    request: ExplainBody | None = None
    answer: str | None = None
    error: str | None = None
    explanation: dict[str, Any] | None = None


class HistoryItem(BaseModel):
    """One explanation of the history; for a chat, `prompt` is its last user message."""

    id: str
    prompt: str
    completion: str
    method: str
    created: str
