"""The look: one style sheet of variables for light and dark, and the frame that every page shares."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

from nicegui import ui

from services.dashboard.early import SEAM

STYLE = (Path(__file__).parent / "style.css").read_text("utf-8")
DARK = STYLE.partition(".body--dark {")[2].partition("}")[0]
"""Colours in the dark."""
SHELL_STYLE = (
    "body:has(#app > *) .ts-shell { display:none; } "
    f"@media (prefers-color-scheme:dark) {{ body:not(:has(#app > *)) {{{DARK}}} }}"
)
"""The shell goes when the page comes. Nobody knows before what the visitor chose, so the system's choice counts."""

COLOURS = {
    "queued": "idle",
    "preparing": "busy",
    "running": "busy",
    "paused": "warn",
    "finishing": "busy",
    "succeeded": "good",
    "failed": "bad",
    "cancelling": "warn",
    "cancelled": "idle",
}


PAGES = {
    "Jobs": "/",
    "Models": "/models",
    "Records": "/records",
    "Cost models": "/costmodels",
    "Devices": "/devices",
    "Workers": "/workers",
    "Keys": "/keys",
    "Audit": "/audit",
}
"""Where the head bar leads, by name."""
TOGGLE = "() => { Quasar.Dark.toggle(); localStorage.setItem('tunesmith-dark', Quasar.Dark.isActive); }"
RESTORE = "const kept = localStorage.getItem('tunesmith-dark'); if (kept !== null) Quasar.Dark.set(kept === 'true');"


def shell(title: str) -> str:
    """What is there before the toolkit's scripts: where one is. A link in it would come before the one that skips."""
    names = "".join(f'<span class="ts-link px-2">{name}</span>' for name in PAGES)
    return (
        '<div class="ts-shell"><header class="ts-top px-6 py-2"><span class="ts-brand">Tunesmith</span>'
        f'<div class="ts-nav">{names}</div></header>'
        f'<main class="ts-page"><h1 class="ts-title">{escape(title)}</h1><p class="ts-soft">Loading …</p></main></div>'
        f"{SEAM}"
    )


def frame(title: str, *, logged_in: bool, on_logout: Callable[[], None] | None = None) -> ui.element:
    """The page's head bar and body; returns the body to fill.

    Args:
        title: what the browser's tab shows.
        logged_in: shows the way out when True.
        on_logout: called by it.
    """
    ui.page_title(f"{title} · Tunesmith")
    ui.add_head_html(f"<style>{STYLE}{SHELL_STYLE}</style>")  # add_css would make an inline script of it
    ui.add_body_html(shell(title))
    ui.colors(primary="#4338ca")
    with ui.header().classes("ts-top items-center justify-between px-6 py-2"):
        ui.html('<a class="ts-brand" href="/">Tunesmith</a>', sanitize=False)
        with ui.row().classes("items-center gap-1"):
            with ui.element("nav").props("aria-label='Pages'").classes("ts-nav"):
                for name, path in PAGES.items():
                    ui.link(name, path).classes("ts-link px-2").style("font-size:.86rem")
            ui.link("API", "/docs").classes("ts-link px-2").style("font-size:.86rem")
            button = ui.button(icon="dark_mode").props("flat round dense aria-label='Switch between light and dark'")
            button.on("click", js_handler=TOGGLE)
            if logged_in and on_logout is not None:
                ui.button("Log out", on_click=on_logout).props("flat dense no-caps")
    body = ui.element("div").classes("ts-page")  # within the page, which is the toolkit's main
    ui.skip_link("Skip to content", target=body)
    return body
