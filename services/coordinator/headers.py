"""What every answer tells a browser: guess no types, frame nothing, name no paths to others, run nothing foreign."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
"""For answers that are no pages; the dashboard's pages bring a policy of their own."""
DOCS_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""For ``/docs``: FastAPI's page begins with an inline script."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def safe_headers(path: str) -> dict[str, str]:
    """The headers of an answer under ``path`` that has no policy of its own."""
    docs = path == "/docs" or path.startswith("/docs/")
    return {**HEADERS, "Content-Security-Policy": DOCS_POLICY if docs else DATA_POLICY}


class SafeHeaders:
    """ASGI middleware: adds the headers, and behind TLS marks every cookie ``Secure``.

    Args:
        tls: True where browsers come over TLS whatever the last hop says.
    """

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app, self._tls = app, tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        secure = self._tls or scope.get("scheme") in ("https", "wss")

        async def answer(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in safe_headers(scope["path"]).items():
                    headers.setdefault(name, value)
                if secure:
                    message["headers"] = [_secured(name, value) for name, value in message["headers"]]
            await send(message)

        await self._app(scope, receive, answer)


def _secured(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    if name.lower() != b"set-cookie" or b"; secure" in value.lower():
        return name, value
    return name, value + b"; Secure"
