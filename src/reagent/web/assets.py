"""The files of the page, and the view component that it shares with the HTML file and the notebook."""

from hashlib import sha256
from importlib.resources import files
from pathlib import PurePath

from starlette.requests import Request
from starlette.responses import Response

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_SHELVES = ("reagent.web", "reagent.views")  # whose folders `assets` are looked into


def asset(name: str, request: Request) -> Response | None:
    """A file by its plain name, or that the browser has it already; None if there is none."""
    kind = KINDS.get(PurePath(name).suffix)
    content = None if kind is None else _content(name)
    if content is None:
        return None
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(content, media_type=kind, headers={"ETag": tag})


def _content(name: str) -> bytes | None:
    for package in _SHELVES:
        folder = files(package).joinpath("assets")
        if folder.is_dir():
            for file in folder.iterdir():  # a name is compared, never joined: no path leads out
                if file.name == name and file.is_file():
                    return file.read_bytes()
    return None
