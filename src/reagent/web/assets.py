"""The files of the page, and of the view component that the HTML export and the notebook also use."""

from hashlib import sha256
from importlib.resources import files
from pathlib import PurePath

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
PACKAGES = ("reagent.web", "reagent.views")  # each has a folder `assets`


def serve_asset(name: str, request: Request) -> Response:
    """Return a file by its name: 304 if the browser has it already, 404 if it does not exist."""
    media_type = MEDIA_TYPES.get(PurePath(name).suffix)
    content = None if media_type is None else _read_asset(name)
    if content is None:
        raise HTTPException(404, f"there is no file {name!r}")
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(content, media_type=media_type, headers={"ETag": tag})


def _read_asset(name: str) -> bytes | None:
    for package in PACKAGES:
        folder = files(package).joinpath("assets")
        if folder.is_dir():
            for file in folder.iterdir():  # the name is compared and never joined, so no path leads outside
                if file.name == name and file.is_file():
                    return file.read_bytes()
    return None
