"""JSON responses; every error is {"error": one line}."""

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from reagent.errors import ReagentError

BODY_ERRORS = (400, 408, 413, 503)  # of every request that may have a body
_MEANINGS = {
    400: "the connection ended in the middle of the request",
    401: "the token is missing or wrong",
    403: "the host or the origin of the request is not allowed",
    404: "the id is unknown",
    408: "the request did not arrive in time",
    413: "the request or the prompt is too long",
    422: "the request is not valid",
    429: "the queue is full; Retry-After is the number of seconds to wait",
    500: "a defect of the service",
    503: "too many connections or large requests at once",
}


class Error(BaseModel):
    """What was wrong, in one line."""

    error: str


def dumps(data: Any) -> str:
    # ASCII only: a lone surrogate in a text must not make the response fail.
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class JsonResponse(JSONResponse):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content).encode("ascii")


def error_response(status: int, error: str, headers: dict[str, str] | None = None) -> JsonResponse:
    return JsonResponse({"error": " ".join(error.split())}, status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Turn every exception of a route into an error response."""

    @app.exception_handler(HTTPException)
    async def handle_http_error(_: Request, error: HTTPException) -> Response:
        headers = dict(error.headers) if error.headers else None
        return error_response(error.status_code, str(error.detail), headers)

    @app.exception_handler(RequestValidationError)
    async def handle_invalid_request(_: Request, error: RequestValidationError) -> Response:
        return error_response(422, "; ".join(_describe(one) for one in error.errors()[:3]))

    @app.exception_handler(ReagentError)
    async def handle_reagent_error(_: Request, error: ReagentError) -> Response:
        return error_response(422, str(error))

    @app.exception_handler(Exception)
    async def handle_unexpected_error(_: Request, error: Exception) -> Response:
        return error_response(500, f"unexpected {type(error).__name__}: see the terminal of the service")


def _describe(error: Any) -> str:
    field = ".".join(str(part) for part in error["loc"][1:])
    return f"{field}: {error['msg']}" if field else str(error["msg"])


def describe_errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Describe the error responses of a route for OpenAPI."""
    return {code: {"model": Error, "description": _MEANINGS[code]} for code in codes}


def describe_file(media_type: str) -> dict[int | str, dict[str, Any]]:
    """Describe a route that returns a file, for OpenAPI."""
    return {200: {"description": "The file", "content": {media_type: {"schema": {"type": "string"}}}}}


def correct_media_types(description: dict[str, Any]) -> dict[str, Any]:
    """State that errors are JSON also where the content of a route is not: FastAPI describes them with its type."""
    for route in (route for methods in description["paths"].values() for route in methods.values()):
        for code, response in route["responses"].items():
            if int(code) >= 400:
                response["content"] = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return description
