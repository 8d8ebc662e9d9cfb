"""Access control of the local web app: Host (DNS rebinding), the token in the address, Origin, security headers.

The token is a part of the path, not a cookie: a browser sends the cookies of 127.0.0.1 to every port of it, so another
local server could read one. Nothing is answered without it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
SAFE_METHODS = ("GET", "HEAD")


def new_token() -> str:
    """192 random bits, to be a part of the app's address."""
    return secrets.token_urlsafe(24)


class Guard:
    """ASGI middleware: requests for this computer, with the token, from the app's own page; the others are refused."""

    def __init__(self, app: ASGIApp, token: str, port: int):
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close"})
        refusal = self._refusal(scope)
        if refusal is not None:
            return await refusal(scope, receive, _with_headers(send))
        inner = {**scope, "path": scope["path"][len(self.token) + 1 :], "root_path": ""}
        return await self.app(inner, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        """Why the request is refused; None if it is not."""
        headers = Headers(scope=scope)
        if headers.get("host") not in self.hosts:
            return PlainTextResponse("This is not the address of the app.", 421)
        path: str = scope["path"]
        first, slash, _ = path.removeprefix("/").partition("/")
        if not secrets.compare_digest(first.encode("utf-8", "replace"), self.token.encode()) or not slash:
            return PlainTextResponse("Open the address that the command has printed.", 404)
        if scope["method"] not in SAFE_METHODS and not _own_page(headers):
            return PlainTextResponse("Only the app's own page may ask for that.", 403)
        return None


def _own_page(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from a page of the app: every browser says so of a request that changes something."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and origin != f"http://{headers['host']}":
        return False
    return site == "same-origin" or (site is None and origin is not None)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
