"""The page for an address where there is none."""

from __future__ import annotations

from fastapi import Request
from fastapi.exception_handlers import http_exception_handler
from nicegui import Client, ui
from nicegui import app as toolkit
from nicegui.page import page
from starlette.exceptions import HTTPException
from starlette.responses import Response

from services.dashboard.context import Context
from services.dashboard.theme import frame


def handle(context: Context) -> None:
    """Answer requests for what is no page with a page that says so; call it before the toolkit starts."""

    @toolkit.exception_handler(404)
    async def missing(request: Request, error: Exception) -> Response:
        endpoint = request.scope.get("endpoint")
        if endpoint not in (None, toolkit) and isinstance(error, HTTPException):  # a script, not a page
            return await http_exception_handler(request, error)
        with Client(page(""), request=request) as client:
            build(context, request.url.path)
        return client.build_response(request, 404)


def build(context: Context, path: str) -> None:
    """Fill the page for ``path``."""
    visitor = context.visitor()
    with frame("No such page", logged_in=visitor.logged_in, on_logout=visitor.logout):
        with ui.element("section").classes("ts-card"):
            ui.label("No such page").classes("ts-title").props("role=heading aria-level=1")
            ui.label(f"There is no page at {path[:200]}. It may have been mistyped, or moved.").classes("ts-wrap my-2")
            ui.link("To the list of jobs", "/").classes("ts-link")
