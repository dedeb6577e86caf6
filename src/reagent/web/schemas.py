"""What the service takes and answers, for its description; the answers themselves are plain dictionaries."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, WithJsonSchema

from reagent.schemas import read_schema


def _explanation_schema() -> dict[str, Any]:
    """explanation.schema.json without references, which would lead nowhere inside another description."""
    schema = read_schema("explanation")
    parts = schema.pop("$defs")

    def whole(part: Any) -> Any:
        if isinstance(part, list):
            return [whole(item) for item in part]
        if not isinstance(part, dict):
            return part
        name = str(part.get("$ref", "")).rpartition("/")[2]
        own = {key: whole(value) for key, value in part.items() if key not in ("$ref", "$schema", "$id")}
        return whole(parts[name]) | own if name else own

    return dict(whole(schema))


Saved = Annotated[dict[str, Any], WithJsonSchema(_explanation_schema())]


class Health(BaseModel):
    status: Literal["ok"]
    model: str
    queued: int
    running: int


class Named(BaseModel):
    id: str
    summary: str


class Method(Named):
    cost: str
    presets: list[Named]
    replaces: bool
    probes: bool  # whether its number of probes can be given


class Options(BaseModel):
    models: list[str]
    methods: list[Method]
    replacers: list[Named]
    units: list[str]
    chat: bool
    png: bool
    limits: dict[str, int]


class Id(BaseModel):
    id: str


class Done(BaseModel):
    done: int
    total: int


class Job(BaseModel):
    """A job; `explanation` is what view.js draws, from the first partial result on."""

    id: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: Done
    answer: str | None = None
    error: str | None = None
    explanation: dict[str, Any] | None = None


class HistoryItem(BaseModel):
    """One line of the history."""

    id: str
    prompt: str
    completion: str
    method: str
    created: str
