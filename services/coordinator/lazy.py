"""The dashboard's web toolkit takes as long to load as everything else: it is loaded once the API answers."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse
from starlette.routing import Match, Mount
from starlette.types import Receive, Scope, Send

log = logging.getLogger(__name__)
API_PATHS = ("/v1", "/livez", "/readyz", "/metrics", "/docs", "/openapi.json")
STARTING = HTMLResponse(
    '<!doctype html><meta http-equiv="refresh" content="1"><title>Tunesmith</title><p>The dashboard is starting.</p>',
    status_code=503,
    headers={"Retry-After": "1"},
)


class LazyApp:
    """An ASGI application that is made in the background; until then visitors are asked to come back.

    Args:
        module: loaded in a thread first, because that is what takes the time.
        fill: then puts the routes into a fresh application.
    """

    def __init__(self, module: str, fill: Callable[[FastAPI], None]) -> None:
        self._module, self._fill = module, fill
        self._app: FastAPI | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, or say that it is too early."""
        if self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await STARTING(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1013})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Make the application meanwhile, and end it with the block."""
        ended = asyncio.Event()
        task = asyncio.create_task(self._run(ended), name="dashboard")
        try:
            yield
        finally:
            ended.set()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self, ended: asyncio.Event) -> None:
        try:
            await run_in_threadpool(importlib.import_module, self._module)
            app = FastAPI(openapi_url=None)
            self._fill(app)
            async with app.router.lifespan_context(app):
                self._app = app
                await ended.wait()
        except Exception:  # the dashboard is a library's application, and the API must not end with it
            log.exception("there is no dashboard, the API goes on without it")
        finally:
            self._app = None


class LazyMount(Mount):
    """A mount at ``/`` that leaves the API's paths alone: what is missing there is a problem object, not a page."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """No match below ``API_PATHS``."""
        path = scope.get("path", "")
        if scope["type"] == "http" and any(path == own or path.startswith(f"{own}/") for own in API_PATHS):
            return Match.NONE, {}
        return super().matches(scope)
