"""Protection from the web pages that a user visits, whose scripts reach everything that the browser does.

A foreign page could send forms, open web sockets that carry the dashboard's cookie or, where no key is asked for, use
a name of its own that suddenly means 127.0.0.1 and read everything.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from services.coordinator.auth import Forbidden
from services.coordinator.problems import response

POLICY_VIOLATION = 1008


class OriginGuard:
    """ASGI middleware: refuses requests and web sockets from pages of another origin, with a key and without.

    Args:
        keys: True where a key is asked for; else public names of this host are refused, too.
        public_url: where browsers reach the coordinator, when a proxy stands in between.
    """

    def __init__(self, app: ASGIApp, *, keys: bool, public_url: str = "") -> None:
        self._app, self._keys = app, keys
        parts = urlsplit(public_url.lower())
        self._public = f"{parts.scheme}://{parts.netloc}" if public_url else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, unless it is a foreign page's."""
        if scope["type"] in ("http", "websocket"):
            refusal = self._refusal(HTTPConnection(scope))
            if refusal and scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
            if refusal:
                await response(Request(scope), Forbidden(refusal).problem())(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, asked: HTTPConnection) -> str:
        """Why the request is not one of our own pages' or of no page at all; nothing when it may be."""
        host, origin = asked.headers.get("host", ""), asked.headers.get("origin")
        if not self._keys and host and not _local(host):
            return f"requests to host {host[:100]!r} are refused unless TUNESMITH_ADMIN_KEY is set"
        if origin is None or self._own(origin.lower(), host.lower(), asked.scope.get("scheme", "http")):
            return ""
        return f"pages of {origin[:100]!r} are not let in; behind a proxy, set TUNESMITH_PUBLIC_URL to its address"

    def _own(self, origin: str, host: str, scheme: str) -> bool:
        if self._public and origin == self._public:
            return True
        given, _, netloc = origin.partition("://")
        # Behind TLS a page without it is somebody else's; a proxy that we do not trust hides whether there is TLS.
        return netloc == host and (given == "https" or scheme not in ("https", "wss"))


def _local(host: str) -> bool:
    """A name without a dot belongs to no domain that a stranger can register, and an address is no name at all."""
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
