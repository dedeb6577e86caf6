"""Access control: host, origin, token, size and duration of a request.

A page that somebody else wrote can make a browser send requests to this machine. It cannot choose their Host
and Origin, and it has no token.
"""

import asyncio
import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from types import MappingProxyType
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reagent.web.config import Access
from reagent.web.responses import error_response

RECEIVE_TIMEOUT = 15.0  # seconds in which a request must have arrived whole
MAX_RECEIVING = 8  # bodies of the largest size that arrive at once, so that memory is bounded
UNSAFE_METHODS = ("POST", "PUT", "PATCH", "DELETE")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class Guard:
    """ASGI middleware that checks every request."""

    def __init__(self, app: ASGIApp, access: Access, body: int) -> None:
        self.app, self.access, self.body = app, access, body
        self.receiving = 0  # bytes of the bodies that arrive now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._check_request(scope)
        if answer is None and scope["method"] in UNSAFE_METHODS:
            answer, receive = await self._read_body(Headers(scope=scope), receive)
        await (answer or self.app)(scope, receive, with_headers)

    def _check_request(self, scope: Scope) -> Response | None:
        """The error response for a rejected request, otherwise None."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not allowed_host(host, self.access):
            return error_response(403, f"unknown host {host!r}: use the printed address")
        if scope["method"] in UNSAFE_METHODS and not _same_origin(headers, host):
            return error_response(403, "requests from other sites are not allowed")
        return None if self.access.token is None else self._check_token(scope, headers, self.access.token)

    def _check_token(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        """A redirect or an error response; None if the request has the token."""
        session = hmac.new(token.encode(), b"session", hashlib.sha256).hexdigest()
        name = f"reagent-{self.access.port}"
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = query.pop("token", [""])[0]
        if given and scope["path"] == "/" and _equal(given, token):
            rest = urlencode(query, doseq=True)
            answer = RedirectResponse("/?" + rest if rest else "/", 303)
            answer.set_cookie(name, session, httponly=True, samesite="strict")
            return answer
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if _equal(_cookie(headers, name), session) or (scheme.lower() == "bearer" and _equal(bearer, token)):
            return None
        return error_response(
            401, "open the address with the token that `reagent serve` printed", {"WWW-Authenticate": "Bearer"}
        )

    async def _read_body(self, headers: Headers, receive: Receive) -> tuple[Response | None, Receive]:
        """The body is read before the application starts, so that it is never too large, too slow or incomplete."""
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.body:
            return self._too_large(), receive
        body = bytearray()
        try:
            async with asyncio.timeout(RECEIVE_TIMEOUT):
                answer = await self._receive_all(receive, body)
        except TimeoutError:
            answer = _refuse(408, f"the request did not arrive within {RECEIVE_TIMEOUT:g} s")
        finally:
            self.receiving -= len(body)
        if answer is not None:
            return answer, receive
        replay = iter([{"type": "http.request", "body": bytes(body), "more_body": False}])

        async def replay_body() -> Message:
            return next(replay, None) or await receive()

        return None, replay_body

    async def _receive_all(self, receive: Receive, body: bytearray) -> Response | None:
        """Append the parts of a body; the error response if it is too large or incomplete."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return _refuse(400, "the connection ended in the middle of the request")
            part = message.get("body", b"")
            body += part
            self.receiving += len(part)
            if len(body) > self.body:
                return self._too_large()
            if self.receiving > MAX_RECEIVING * self.body:
                return _refuse(503, "too many large requests arrive at once: try again", {"Retry-After": "5"})
            if not message.get("more_body", False):
                return None

    def _too_large(self) -> Response:
        return _refuse(413, f"the request is larger than {self.body:,} bytes")


def allowed_host(host: str, access: Access) -> bool:
    """Whether the Host header is allowed. This prevents DNS rebinding.

    >>> allowed_host("localhost:8765", Access()), allowed_host("evil.example", Access())
    (True, False)
    """
    name = _name(host)
    if name == "localhost" or name in access.names:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return access.remote or address.is_loopback


def _name(host: str) -> str:
    """Without the port and the brackets of an IPv6 address."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _same_origin(headers: Headers, host: str) -> bool:
    """Browsers send the origin of a request; other programs send none and are not exposed to cross-site requests."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _cookie(headers: Headers, name: str) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""


def _equal(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), known.encode())


def _refuse(status: int, error: str, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    """An error response to a request of which a part may still arrive."""
    return error_response(status, error, {"Connection": "close", **headers})
