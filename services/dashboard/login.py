"""The login page: takes an API key, tries it, keeps it on the server."""

from __future__ import annotations

from nicegui import ui

from services.dashboard.context import Context
from services.dashboard.parts import Banner
from services.dashboard.theme import frame
from tunesmith.errors import TunesmithError, Unauthorized


def local_path(target: str) -> str:
    """``target`` when it is a path on this server, else ``/``."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


def build(context: Context, target: str) -> None:
    """Fill the page; after a login the browser goes to ``target``."""
    visitor = context.visitor()

    async def submit() -> None:
        key = field.value.strip()
        if not key:
            banner.show("bad", "No key given", "Paste an API key, such as the value of TUNESMITH_ADMIN_KEY.")
            return
        api = context.connect(key)
        try:
            await visitor.call(lambda _: api.jobs(1))
        except Unauthorized:
            banner.show("bad", "Key refused", "The coordinator does not know this key, or it was revoked.")
        except TunesmithError as error:
            banner.problem(error)
        else:
            context.sessions.login(visitor.session, key)
            ui.navigate.to(local_path(target))

    with frame("Log in", logged_in=False), ui.element("section").classes("ts-card ts-login"):
        ui.label("Log in").classes("ts-title").props("role=heading aria-level=1")
        ui.label("An API key is needed. Your browser keeps a session cookie only.").classes("ts-soft my-2")
        banner = Banner()
        field = ui.input("API key", password=True).classes("w-full mt-2")
        field.props("outlined autofocus autocomplete=current-password")
        field.on("keydown.enter", submit)
        ui.button("Log in", on_click=submit).props("unelevated no-caps").classes("w-full mt-3")
