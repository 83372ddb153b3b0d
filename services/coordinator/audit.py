"""The audit log: who changed what, who was refused, and from where keys are used."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from db.engine import transact
from db.models import AuditRow
from db.transactions import audit
from services.coordinator.auth import Caller
from services.coordinator.context import Context
from services.rates import Rate, network_of

log = logging.getLogger(__name__)
REFUSALS = (401, 403, 429)
PATHS = ("/v1/", "/metrics", "/readyz")
READS = ("GET", "HEAD", "OPTIONS")
USES = "1/hour"
"""A key's reads from one address are logged once in this time."""
REFUSED = "60/minute"
"""Refusals of one address beyond this are not written: a flood must not fill the disk."""
WRITE_WAIT_SECONDS = 5.0
"""Seconds that an entry waits for others to write."""


class Audit:
    """ASGI middleware that writes entries, in order. They hold no secret: neither bodies, nor queries, nor keys.

    A change's entry is written before the answer leaves. Reads wait for no writer, so their entries follow a moment
    later. Where the service failed, nothing was changed, and nothing is written.

    Args:
        context: the application's.
    """

    def __init__(self, app: ASGIApp, *, context: Context) -> None:
        self._app, self._context = app, context
        self._uses, self._refused = Rate(USES), Rate(REFUSED)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="audit")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry = self._entry(request, message["status"], Headers(raw=message.get("headers", [])))
                if entry is not None:
                    written = self._writer.submit(self._write, entry)
                    if request.method not in READS:
                        await asyncio.wrap_future(written)
            await send(message)

        await self._app(scope, receive, answer)

    def _entry(self, request: Request, status: int, headers: Headers) -> AuditRow | None:
        caller: Caller | None = getattr(request.state, "caller", None)
        route = getattr(request.scope.get("route"), "path", None)
        if route is None or status >= 500 or not request.url.path.startswith(PATHS):
            return None
        if not self._tells(request, caller, status):
            return None
        return AuditRow(
            owner=caller.owner if caller else None,
            key_id=caller.key_id if caller else None,
            address=_address(request),
            action=f"{request.method} {route}",
            target=headers.get("location", request.url.path)[:500],
            status=status,
            request_id=getattr(request.state, "request_id", ""),
        )

    def _tells(self, request: Request, caller: Caller | None, status: int) -> bool:
        if status in REFUSALS:
            return not self._refused.hit(network_of(_address(request)))
        if request.method not in READS:
            return True
        used = caller is not None and caller.key_id is not None
        return used and not self._uses.hit(f"{caller.key_id if caller else ''} {_address(request)}")

    def _write(self, entry: AuditRow) -> None:
        try:
            transact(self._context.sessions, lambda session: audit.write(session, entry), patience=WRITE_WAIT_SECONDS)
        except Exception:  # what was done is done; the log of the process has it at least
            log.exception("audit: %s %s by %s was not written", entry.action, entry.target, entry.owner)


def _address(request: Request) -> str:
    return request.client.host[:64] if request.client else ""
