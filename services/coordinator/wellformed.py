"""What every request must be before a route sees it: texts that can be kept, and JSON that is JSON."""

from __future__ import annotations

from email.message import Message as Headers
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.coordinator.problems import http_problem, response
from tunesmith import strict_json
from tunesmith.errors import InvalidInput


class WellFormed:
    """ASGI middleware: answers 422 to zero bytes and broken Unicode in path and query, and to JSON that cannot be kept.

    By then no route has been chosen, so none can forget it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with the body that was looked at."""
        if scope["type"] != "http" or not scope["path"].startswith("/v1"):
            await self._app(scope, receive, send)
            return
        try:
            _check_text(scope.get("raw_path", b""), "path")
            _check_text(scope["query_string"], "query")
            if _is_json(scope):
                receive = await _checked(receive)
        except InvalidInput as error:
            await response(Request(scope), error.problem())(scope, receive, send)
        except HTTPException as error:  # the body is too large
            await response(Request(scope), http_problem(error.status_code, str(error.detail)))(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _check_text(encoded: bytes, field: str) -> None:
    """Frameworks put a replacement character where the bytes are no UTF-8; here that is the caller's mistake."""
    try:
        strict_json.check_text(unquote_to_bytes(encoded).decode(), field)
    except UnicodeDecodeError:
        raise InvalidInput(f"the {field} is not UTF-8 once its percent signs are decoded", field=field) from None


def _is_json(scope: Scope) -> bool:
    headers = Headers()
    headers["content-type"] = dict(scope["headers"]).get(b"content-type", b"").decode("latin-1")
    subtype = headers.get_content_subtype()
    return headers.get_content_maintype() == "application" and (subtype == "json" or subtype.endswith("+json"))


async def _checked(receive: Receive) -> Receive:
    """Read the body, look at it, and hand it out anew. Raises InvalidInput, and what ``receive`` raises."""
    pieces: list[bytes] = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return _replay([message], receive)
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    body = b"".join(pieces)
    if body:
        strict_json.loads(body, "body")
    return _replay([{"type": "http.request", "body": body, "more_body": False}], receive)


def _replay(messages: list[Message], receive: Receive) -> Receive:
    async def repeated() -> Message:
        return messages.pop(0) if messages else await receive()

    return repeated
