"""`reagent serve`: the web page, for this machine or, with a token, for others."""

import ipaddress
import logging
import os
import secrets
import socket
import sys
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from reagent.cli import arguments as o
from reagent.errors import InputError

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from reagent.web.config import Access

logger = logging.getLogger(__name__)

TOKEN = "REAGENT_TOKEN"
SHORTEST_TOKEN = 16  # characters
BACKLOG = 1000  # connections that wait while the model loads


def serve(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 takes a free port.")] = 8765,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow other machines, with a token in the address.")
    ] = False,
    token: Annotated[
        bool, typer.Option("--token", help="Require a token on this machine too: for a machine that people share.")
    ] = False,
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="Remote: a host name that browsers may use.")
    ] = None,
    model: o.ModelName = "smollm2",
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    revision: o.Revision = None,
    languages: o.Languages = None,
    tokenizer: o.Tokenizer = None,
    cache: o.Cache = None,
    concurrency: o.Concurrency = None,
    rate: o.Rate = None,
    recover: o.Recover = False,
    server: o.ServerSettings = None,
    queue: Annotated[int, typer.Option(metavar="N", help="The length of the queue.")] = 16,
    max_prompt: Annotated[int, typer.Option(metavar="N", help="Characters of a prompt, at most.")] = 20_000,
    max_new_tokens: Annotated[int, typer.Option(metavar="N", help="Tokens to generate, at most.")] = 100,
    max_seconds: Annotated[int, typer.Option(metavar="N", help="Seconds of one explanation, at most.")] = 600,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of saved explanations; by default in the cache folder."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the address only.")] = False,
) -> None:
    """Serve a local web page that explains the answers of a model live.

    Example: reagent serve --port 8765
    """
    require_web()
    from reagent.cli.parsing import load_model, server_options
    from reagent.web.app import create_app
    from reagent.web.config import Limits, ServiceConfig

    limits = Limits(queue=queue, prompt=max_prompt, new_tokens=max_new_tokens, seconds=max_seconds)
    check_reach(host, allow_remote, name or [])
    listening = bind(host, port)  # before the model is loaded, so that a port in use is reported at once
    access = make_access(listening, host, allow_remote, name or [], token)
    loaded = load_model(
        model,
        device,
        dtype,
        revision,
        languages,
        quiet,
        server_options(tokenizer, cache, concurrency, rate, recover, server),
    )
    chosen = ServiceConfig(limits, access) if folder is None else ServiceConfig(limits, access, folder)
    app = create_app(loaded, chosen)
    if not quiet and not _is_loopback(host):
        logger.warning("prompts and the token are sent unencrypted: use a TLS proxy in front of this service")
    run(app, listening, address(host, access), quiet)


def require_web() -> None:
    """Raise an error that names the packages to install."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(
            "the page needs fastapi and uvicorn, which are not installed; run: pip install 'reagent-lm[web]'"
        ) from error


def check_reach(host: str, allow_remote: bool, names: list[str]) -> None:
    """Refuse other machines unless they are allowed."""
    if not allow_remote and not _is_loopback(host):
        raise InputError(
            f"--host {host} allows other machines: add --allow-remote, or use 127.0.0.1 for this machine alone"
        )
    if names and not allow_remote:
        raise InputError(f"--name {names[0]} is for other machines: add --allow-remote, or leave it out")


def bind(host: str, port: int) -> socket.socket:
    """Bind the port now; connections wait while the model loads."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        held = socket.socket(family, kind, protocol)
        if os.name == "posix":  # on other systems two services could share a port
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(where)
        held.listen(BACKLOG)
    except OSError as error:
        raise InputError(
            f"cannot listen at {host} port {port}: {error.strerror or error}; choose another with --port (0: any)"
        ) from error
    return held


def make_access(
    listening: socket.socket, host: str, allow_remote: bool, names: list[str], with_token: bool = False
) -> "Access":
    """The access rules: other machines need the token, and with `with_token` this one too."""
    from reagent.web.config import Access

    token = os.environ.get(TOKEN) or (secrets.token_urlsafe(24) if allow_remote or with_token else None)
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError(
            f"{TOKEN} must be at least {SHORTEST_TOKEN} plain characters: give a longer one, or leave it unset"
        )
    own = {host, socket.gethostname(), *names} if allow_remote else set()
    return Access(allow_remote, token, frozenset(one.lower() for one in own), listening.getsockname()[1])


def address(host: str, access: "Access") -> str:
    """The address to open in a browser; the token is shown nowhere else."""
    from urllib.parse import quote

    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    token = "" if access.token is None else f"?token={quote(access.token, safe='')}"
    return f"http://{shown}:{access.port}/{token}"


def configure(app: "FastAPI") -> "uvicorn.Config":
    """The settings of the server."""
    import uvicorn

    from reagent.web.connections import MAX_CONNECTIONS, Connection

    return uvicorn.Config(
        app,
        http=Connection,
        log_level="error",  # its warnings are about single requests that are not HTTP
        access_log=False,  # it would log the token
        server_header=False,
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )


def run(app: "FastAPI", listening: socket.socket, where: str, quiet: bool) -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    class Server(uvicorn.Server):
        """Stops at once: jobs are cancelled and their event streams end."""

        def handle_exit(self, sig: int, frame: object) -> None:
            # In another thread: this one may hold a lock of the queue when the signal arrives.
            Thread(target=app.state.jobs.close, args=(0,)).start()
            super().handle_exit(sig, frame)  # type: ignore[arg-type]

    typer.echo(where)
    if not quiet:
        logger.info("open this address in a browser; Ctrl-C ends the service")
    try:
        Server(configure(app)).run(sockets=[listening])
    finally:
        if not app.state.jobs.close():  # a forward pass cannot be interrupted
            print("interrupted", file=sys.stderr, flush=True)
            os._exit(130)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
