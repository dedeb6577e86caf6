"""Every answer as plain JSON, every error as {"error": one line}."""

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from reagent.errors import ReagentError

_MEANING = {
    401: "the token is missing or wrong",
    403: "the request comes under a name or from a page that this service does not know",
    404: "there is none of that id",
    413: "too long",
    422: "what was given cannot be used",
    429: "the queue is full; Retry-After says when to try again",
}


class Problem(BaseModel):
    """What was wrong, in one line."""

    error: str


def dumps(data: Any) -> str:
    # ASCII only: a lone surrogate in somebody's text is no reason to fail.
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content).encode("ascii")


def problem(status: int, error: str, headers: dict[str, str] | None = None) -> Json:
    return Json({"error": " ".join(error.split())}, status, headers)


def add_handlers(app: FastAPI) -> None:
    """From what goes wrong in a route to an answer."""

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        headers = dict(error.headers) if error.headers else None
        return problem(error.status_code, str(error.detail), headers)

    @app.exception_handler(RequestValidationError)
    async def misread(_: Request, error: RequestValidationError) -> Response:
        return problem(422, "; ".join(_line(one) for one in error.errors()[:3]))

    @app.exception_handler(ReagentError)
    async def wrong(_: Request, error: ReagentError) -> Response:
        return problem(422, str(error))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        return problem(500, f"unexpected {type(error).__name__}: see the terminal of the service")


def _line(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"][1:])
    return f"{where}: {error['msg']}" if where else str(error["msg"])


def failures(*codes: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer instead, for its description."""
    return {code: {"model": Problem, "description": _MEANING[code]} for code in codes}
