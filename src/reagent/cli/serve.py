"""`reagent serve`: the page on this machine, or for others with a token."""

import ipaddress
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
    from fastapi import FastAPI

    from reagent.web.config import Access

TOKEN = "REAGENT_TOKEN"
SHORTEST = 16  # characters of a token that nobody guesses
PEOPLE = 1000  # connections at once


def serve(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 takes any that is free.")] = 8765,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let other machines in, with a token that the address carries.")
    ] = False,
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="Remote: a host name that browsers may use.")
    ] = None,
    model: o.ModelName = "smollm2",
    device: o.Device = "auto",
    dtype: o.Dtype = "auto",
    revision: o.Revision = None,
    tokenizer: o.Tokenizer = None,
    cache: o.Cache = None,
    concurrency: o.Concurrency = None,
    rate: o.Rate = None,
    recover: o.Recover = False,
    server: o.ServerSettings = None,
    queue: Annotated[int, typer.Option(metavar="N", help="How many explanations may wait.")] = 16,
    max_prompt: Annotated[int, typer.Option(metavar="N", help="Characters of a prompt, at most.")] = 20_000,
    max_new_tokens: Annotated[int, typer.Option(metavar="N", help="Tokens to generate, at most.")] = 100,
    max_seconds: Annotated[int, typer.Option(metavar="N", help="Seconds of one explanation, at most.")] = 600,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where explanations are kept, for links to them; else in the cache folder."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but the address.")] = False,
) -> None:
    """Open a page on this machine: type a prompt, watch the answer, click a word and see what it was based on.

    Example: reagent serve --port 8765
    """
    require_web()
    from reagent.cli.parsing import load, serving
    from reagent.models.cache import say
    from reagent.web.app import create_app
    from reagent.web.config import Limits, ServiceConfig

    limits = Limits(queue=queue, prompt=max_prompt, new_tokens=max_new_tokens, seconds=max_seconds)
    check_reach(host, allow_remote, name or [])
    listening = bind(host, port)  # before the model is loaded: a port that is taken is known at once
    access = admission(listening, host, allow_remote, name or [])
    loaded = load(model, device, dtype, revision, quiet, serving(tokenizer, cache, concurrency, rate, recover, server))
    chosen = ServiceConfig(limits, access) if folder is None else ServiceConfig(limits, access, folder)
    app = create_app(loaded, chosen)
    if not quiet and not _is_loopback(host):
        say("prompts and the token travel unencrypted: put a server with TLS in front where that matters")
    run(app, listening, address(host, access), quiet)


def require_web() -> None:
    """Say in one line what to install."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(
            "the page needs fastapi and uvicorn, which are not installed; run: pip install 'reagent-lm[web]'"
        ) from error


def check_reach(host: str, allow_remote: bool, names: list[str]) -> None:
    """Other machines come in only where that was said."""
    if not allow_remote and not _is_loopback(host):
        raise InputError(
            f"--host {host} lets other machines in: add --allow-remote, or use 127.0.0.1 for this machine alone"
        )
    if names and not allow_remote:
        raise InputError(f"--name {names[0]} is for other machines: add --allow-remote, or leave it out")


def bind(host: str, port: int) -> socket.socket:
    """The port, held from now on: who comes while the model is loading waits for it."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        held = socket.socket(family, kind, protocol)
        if os.name == "posix":  # elsewhere it would let two services share a port
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(where)
        held.listen(PEOPLE)
    except OSError as error:
        raise InputError(
            f"cannot listen at {host} port {port}: {error.strerror or error}; choose another with --port (0: any)"
        ) from error
    return held


def admission(listening: socket.socket, host: str, allow_remote: bool, names: list[str]) -> "Access":
    """Who may come in: where others can, only those with the token."""
    from reagent.web.config import Access

    token = os.environ.get(TOKEN) or (secrets.token_urlsafe(24) if allow_remote else None)
    if token is not None and (len(token) < SHORTEST or not token.isascii() or not token.isprintable()):
        raise InputError(f"{TOKEN} must be at least {SHORTEST} plain characters: give a longer one, or leave it unset")
    own = {host, socket.gethostname(), *names} if allow_remote else set()
    return Access(allow_remote, token, frozenset(one.lower() for one in own), listening.getsockname()[1])


def address(host: str, access: "Access") -> str:
    """What to open in a browser; the one place where the token is shown."""
    from urllib.parse import quote

    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    token = "" if access.token is None else f"?token={quote(access.token, safe='')}"
    return f"http://{shown}:{access.port}/{token}"


def run(app: "FastAPI", listening: socket.socket, where: str, quiet: bool) -> None:
    """Serve until somebody presses Ctrl-C."""
    import uvicorn

    from reagent.models.cache import say

    class Server(uvicorn.Server):
        """Ends at once: whoever watches a job is told so and let go."""

        def handle_exit(self, sig: int, frame: object) -> None:
            # Not here: the signal may have come while this very thread holds a lock of the job queue.
            Thread(target=app.state.jobs.close, args=(0,)).start()
            super().handle_exit(sig, frame)  # type: ignore[arg-type]

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # it would write the token down
        server_header=False,
        ws="none",
        limit_concurrency=PEOPLE,
        timeout_graceful_shutdown=1,
    )
    typer.echo(where)
    if not quiet:
        say("open this address in a browser; Ctrl-C ends the service")
    try:
        Server(config).run(sockets=[listening])
    finally:
        if not app.state.jobs.close():  # a forward pass cannot be interrupted, and nobody should wait for one
            print("interrupted", file=sys.stderr, flush=True)
            os._exit(130)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
