"""The login page: takes an API key, tries it, keeps it on the server."""

from __future__ import annotations

import secrets
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from services.dashboard.context import Context
from services.dashboard.parts import Banner
from services.dashboard.theme import frame
from services.rates import network_of
from tunesmith.errors import TunesmithError, Unauthorized

ENTER = "/login/enter"


def local_path(target: str) -> str:
    """``target`` when it is a path on this server, else ``/``."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


def enter(context: Context, request: Request, ticket: str, target: str) -> Response:
    """Exchange a ticket for a session with a fresh id: one that somebody planted before the login is worth nothing."""
    key = context.sessions.redeem(ticket, str(request.session.get("id", "")))
    if key is None:
        return RedirectResponse("/login", status_code=303)
    request.session["id"] = secrets.token_urlsafe(32)
    context.sessions.login(request.session["id"], key)
    return RedirectResponse(local_path(target), status_code=303, headers={"Cache-Control": "no-store"})


def build(context: Context, target: str) -> None:
    """Fill the page; after a login the browser goes to ``target``."""
    visitor = context.visitor()

    async def submit() -> None:
        key = field.value.strip()
        if not key:
            banner.show("bad", "No key given", "Paste an API key, such as the value of TUNESMITH_ADMIN_KEY.")
            return
        wait = context.logins.hit(network_of(ui.context.client.ip or ""))
        if wait:
            banner.show("bad", "Too many attempts", f"Try again in {wait} s.")
            return
        api = context.connect(key)
        try:
            await visitor.call(lambda _: api.jobs(1))
        except Unauthorized:
            banner.show("bad", "Key refused", "The coordinator does not know this key, or it was revoked.")
        except TunesmithError as error:
            banner.problem(error)
        else:
            # A web socket cannot set a cookie: the browser fetches its new session with a ticket.
            ticket = context.sessions.issue(visitor.session, key)
            ui.navigate.to(f"{ENTER}?{urlencode({'ticket': ticket, 'next': local_path(target)})}")

    with frame("Log in", logged_in=False), ui.element("section").classes("ts-card ts-login"):
        ui.label("Log in").classes("ts-title").props("role=heading aria-level=1")
        ui.label("An API key is needed. Your browser keeps a session cookie only.").classes("ts-soft my-2")
        banner = Banner()
        field = ui.input("API key", password=True).classes("w-full mt-2")
        field.props("outlined autofocus autocomplete=current-password")
        field.on("keydown.enter", submit)
        ui.button("Log in", on_click=submit).props("unelevated no-caps").classes("w-full mt-3")
