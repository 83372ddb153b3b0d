"""A limit on request bodies. Uploads of files have their own, counted while they stream to disk."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 1 << 20
UPLOADS = ("/v1/models", "/v1/records/import")


class BodyLimit:
    """ASGI middleware: a body of the API is never read beyond ``MAX_BODY_BYTES``; the answer is 413 then."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with a body that is counted."""
        if scope["type"] == "http" and scope["path"].startswith("/v1/") and scope["path"] not in UPLOADS:
            receive = _counted(scope, receive)
        await self._app(scope, receive, send)


def _counted(scope: Scope, receive: Receive) -> Receive:
    """``receive`` that raises, inside of the route that reads, when more than the limit is announced or comes."""
    declared = dict(scope["headers"]).get(b"content-length", b"").decode("latin-1")
    known, came = announced(declared) > MAX_BODY_BYTES, 0

    async def limited() -> Message:
        nonlocal came
        if known:
            raise _too_large()
        message = await receive()
        came += len(message.get("body", b""))
        if came > MAX_BODY_BYTES:
            raise _too_large()
        return message

    return limited


def announced(declared: str) -> int:
    """Bytes that a header ``Content-Length`` speaks of, 0 where it makes no sense."""
    return int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 20 else 0


def _too_large() -> HTTPException:
    return HTTPException(413, f"the body is larger than {MAX_BODY_BYTES} bytes; only an uploaded file may be")
