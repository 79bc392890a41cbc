"""Access control of the page's server: requests from this machine or with the token, and what the page may load.

A page of another site can make a browser send requests to this server. Such a request has the other site as Origin, or
as Host if the site's name resolves to this machine's address.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*"  # for a notebook on this machine
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """An ASGI application that passes permitted requests to another one.

    Args:
        app: the application that answers permitted requests.
        host: the host on which the server listens; only a loopback host needs no token.
        token: the token that every request needs; None on a loopback host.
    """

    def __init__(self, app: ASGIApp, host: str, token: str | None):
        self._app, self._token = app, token
        self._names = LOOPBACK if token is None else LOOPBACK | {host, socket.gethostname(), socket.getfqdn()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(headers)
        if refusal is None and self._token is not None:
            if scope["type"] == "http" and self._is_token(_query(scope).get("token")):
                await self._admit(scope, headers)(scope, receive, _guarded(send))
                return
            if not self._is_token(_cookie(headers, _cookie_name(headers))):
                refusal = "open the address that headrace watch printed, with its token"
        if refusal is None:
            await self._app(scope, receive, _guarded(send))
        elif scope["type"] == "http":
            await PlainTextResponse(f"{refusal}\n", 403)(scope, receive, _guarded(send))
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": refusal})

    def _refusal(self, headers: Headers) -> str | None:
        """Returns why a request is refused even with the token; None if it is not."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_here(_address(host)[0]):
            return "this page is for the machine on which it runs"
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return "pages of other sites get nothing here"
        return None

    def _is_here(self, name: str | None) -> bool:
        if name is None:
            return False
        if name in {known.lower() for known in self._names}:
            return True
        return self._token is not None and _is_address(name)  # unlike a name, an address does not need to be resolved

    def _is_token(self, said: str | None) -> bool:
        return said is not None and hmac.compare_digest(said.encode(), (self._token or "").encode())

    def _admit(self, scope: Scope, headers: Headers) -> RedirectResponse:
        """Returns a redirection to the same page without the token in its URL; a cookie holds the token."""
        answer = RedirectResponse(scope.get("root_path") or "/", 303)
        name = _cookie_name(headers)
        answer.set_cookie(name, self._token or "", httponly=True, samesite="strict", path="/")
        return answer


def _guarded(send: Send) -> Send:
    """Returns a send function that adds `HEADERS`, which restrict what a page may load."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-cache")
        await send(message)

    return send_with_headers


def _address(header: str) -> tuple[str | None, int]:
    """Returns the name and the port of a Host header; (None, 0) if it is malformed."""
    try:
        parts = urlsplit(f"//{header}")
        return parts.hostname, parts.port or 80
    except ValueError:
        return None, 0


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _cookie_name(headers: Headers) -> str:
    """Returns the cookie's name, which includes the port, since all servers of a machine share cookies."""
    return f"headrace-{_address(headers.get('host', ''))[1]}"


def _query(scope: Scope) -> dict[str, str]:
    pairs = parse_qs(scope["query_string"].decode("latin-1"))
    return {name: values[-1] for name, values in pairs.items()}


def _cookie(headers: Headers, name: str) -> str | None:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return morsel.value if morsel else None
