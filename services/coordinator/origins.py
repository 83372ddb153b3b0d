"""Protection of a coordinator without keys from the web pages that its user visits.

It listens on loopback, where a browser reaches it, too: a foreign page could send it forms, open its web sockets, or,
under a name of its own that suddenly means 127.0.0.1, read everything.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from services.coordinator.auth import Forbidden
from services.coordinator.problems import response

POLICY_VIOLATION = 1008


class OwnPages:
    """ASGI middleware: refuses requests from pages of another origin, and those to a public name of this host."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, unless it is a foreign page's."""
        if scope["type"] in ("http", "websocket"):
            headers = HTTPConnection(scope).headers
            refusal = foreign(headers.get("host", ""), headers.get("origin"))
            if refusal and scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
            if refusal:
                detail = f"{refusal}; set TUNESMITH_ADMIN_KEY to allow it to whoever has a key"
                await response(Request(scope), Forbidden(detail).problem())(scope, receive, send)
                return
        await self._app(scope, receive, send)


def foreign(host: str, origin: str | None) -> str:
    """Why a request with these headers is not one of this machine's own; nothing when it may be.

    A name without a dot belongs to no domain that a stranger can register, and an address is no name at all.
    """
    if host and not _local(host):
        return f"without a key this service is not to be called {host[:100]!r}"
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return f"without a key pages of {origin[:100]!r} are not let in"
    return ""


def _local(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if "." not in name or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
