"""RFC 9457 for every error: the answer's body is a problem object with a stable ``code`` and a ``request_id``."""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy.exc import DataError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from db.engine import is_transient
from db.outages import is_away, is_full
from services.coordinator.headers import safe_headers
from tunesmith.errors import DiskFull, InvalidBudget, InvalidInput, TunesmithError, Unavailable
from tunesmith.resources import problem_url

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "X-Request-ID"
RETRY_SECONDS = {429: 1, 503: 2, 507: 30}
"""What ``Retry-After`` says where the error knows no better."""

HTTP_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "request_timeout",
    409: "conflict",
    411: "length_required",
    413: "payload_too_large",
    415: "unsupported_media_type",
    416: "range_not_satisfiable",
    422: "invalid_input",
    429: "rate_limited",
    431: "request_header_fields_too_large",
    500: "internal_error",
    503: "unavailable",
    507: "disk_full",
}
"""Codes for errors that the framework raises; those of Tunesmith's own errors are in ``tunesmith.errors``."""


class RequestIds:
    """ASGI middleware: every request has an id, its own or a fresh one, and the answer repeats it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(REQUEST_ID.lower().encode(), b"").decode("latin-1")
        request_id = given if 0 < len(given) <= 100 and given.isascii() and given.isprintable() else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", []).append((REQUEST_ID.lower().encode(), request_id.encode()))
            await send(message)

        await self._app(scope, receive, answer)


def response(request: Request, body: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """The answer for a problem object."""
    full = {**body, "instance": request.url.path, "request_id": getattr(request.state, "request_id", "")}
    content = json.dumps(full, default=str)
    return Response(content, status_code=body["status"], headers=headers, media_type=MEDIA_TYPE)


def http_problem(status: int, detail: str) -> dict[str, Any]:
    """A problem object for an error that has no class of its own."""
    code = HTTP_CODES.get(status, "error")
    return {
        "type": problem_url(code),
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": detail,
        "code": code,
    }


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, TunesmithError)
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if error.status in RETRY_SECONDS:
        headers["Retry-After"] = str(error.extra.get("retry_after", RETRY_SECONDS[error.status]))
    return response(request, error.problem(), headers)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:  # the router names the methods of the first route of that path alone
        headers["Allow"] = request.app.state.paths.allow(request.url.path) or headers.get("Allow", "")
    return response(request, http_problem(error.status_code, str(error.detail)), headers)


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {
            "field": ".".join(str(part) for part in item["loc"][1:]) or str(item["loc"][0]),
            "value": _plain(item.get("input")),
            "detail": item["msg"],
        }
        for item in error.errors()
    ]
    detail = "; ".join(f"{item['field']}: {item['detail']}" for item in errors[:5])
    kind = InvalidBudget if all(item["field"].startswith("budget.") for item in errors) else InvalidInput
    return response(request, {**kind(detail or "the request is not valid").problem(), "errors": errors})


def _plain(value: Any) -> Any:
    """What was given, cut short, in JSON types."""
    if value is None or isinstance(value, (bool, int, float)):
        return value if value == value and value not in (float("inf"), float("-inf")) else str(value)
    return str(value)[:200]


async def _on_data(request: Request, error: Exception) -> Response:
    """PostgreSQL refuses what SQLite takes, such as a text with a zero byte."""
    assert isinstance(error, DataError)
    refused = InvalidInput(f"the database cannot hold a value of the request: {str(error.orig)[:200]}")
    return response(request, refused.problem())


async def _on_outage(request: Request, error: Exception) -> Response:
    """The database or the disk: what is away comes back, what is full may be freed, anything else is a bug."""
    if is_full(error):
        found: TunesmithError = DiskFull("the disk is full: nothing was changed, try again once there is room")
    elif isinstance(error, SQLAlchemyError) and (is_away(error) or is_transient(error)):
        found = Unavailable("the database does not answer or is too busy: nothing was changed, try again soon")
    else:
        return await _on_bug(request, error)
    request_id = getattr(request.state, "request_id", "")
    log.error("request %s: %s %s: %s", request_id, request.method, request.url.path, error)
    return await _on_error(request, found)


async def _on_bug(request: Request, error: Exception) -> Response:
    log.error(
        "request %s failed: %s %s",
        getattr(request.state, "request_id", ""),
        request.method,
        request.url.path,
        exc_info=error,
    )
    body = http_problem(500, "internal error; find it in the log by this request_id")
    # This answer is made outside of the middleware that repeats the request's id and adds the safe headers.
    headers = {REQUEST_ID: getattr(request.state, "request_id", ""), **safe_headers(request.url.path)}
    return response(request, body, headers)


def install(app: FastAPI) -> None:
    """Handlers and request ids."""
    app.add_exception_handler(TunesmithError, _on_error)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(DataError, _on_data)
    app.add_exception_handler(SQLAlchemyError, _on_outage)
    app.add_exception_handler(OSError, _on_outage)
    app.add_exception_handler(Exception, _on_bug)
    app.add_middleware(RequestIds)
