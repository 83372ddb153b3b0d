"""The page of one worker: what it does, what it broke on, and what it logged lately."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from nicegui import ui

from services.dashboard import format as fmt
from services.dashboard.api import Api, Json
from services.dashboard.context import Context, at_once, keep_fresh
from services.dashboard.parts import Banner, Figure, empty, fill_rows, whole_table, words
from services.dashboard.theme import frame
from tunesmith.errors import TunesmithError

LEVELS = {"debug": "Everything", "warning": "Warnings", "error": "Errors"}
"""Lowest levels that can be asked for."""
COLOURS = {"warning": "warn", "error": "bad", "critical": "bad"}
COLUMNS = [
    {"name": "at", "label": "Time", "field": "at", "align": "left"},
    {"name": "text", "label": "Line", "field": "text", "align": "left"},
]
FAILURES = [
    {"name": "made", "label": "Made", "field": "made", "align": "left"},
    {"name": "what", "label": "Work", "field": "what", "align": "left"},
    {"name": "why", "label": "Problem", "field": "why", "align": "left"},
]
CELLS = {
    "at": '{{ props.row.at }} <span :class="`ts-badge ts-${props.row.colour}`">{{ props.row.level }}</span>',
    "text": '<div class="ts-text">{{ props.row.text }}</div><div class="ts-soft">{{ props.row.source }}</div>',
}
REFRESH_SECONDS = 3.0
SHOWN_LINES = 100


def line_rows(lines: list[Json]) -> list[Json]:
    """Lines of the table, the newest first."""
    return [
        {
            "key": number,
            "at": fmt.when(each["at"]),
            "level": each["level"],
            "colour": COLOURS.get(each["level"], "idle"),
            "source": f"{each['logger']} ({each['process']})",
            "text": each["text"],
        }
        for number, each in enumerate(lines)
    ]


def failure_rows(failures: list[Json]) -> list[Json]:
    """What the worker broke on."""
    return [
        {
            "key": number,
            "made": fmt.when(each["created_at"]),
            "what": f"{words(each['kind'])} {each['row']}",
            "why": each["problem"].get("detail") or each["problem"].get("title", ""),
        }
        for number, each in enumerate(failures)
    ]


def build(context: Context, name: str) -> None:
    """Fill the page."""
    visitor = context.visitor()
    with frame(name, logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner = Banner()
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label(name).classes("ts-title").props("role=heading aria-level=1")
                ui.link("Every worker", "/workers").classes("ts-link")
            about = ui.label().classes("ts-soft ts-wrap")
        with ui.element("div").classes("ts-grid"):
            state, load = Figure("State"), Figure("Work")
            seen, version = Figure("Heard of"), Figure("Version")
        with ui.element("section").classes("ts-card") as broken:
            ui.label("Last failures").classes("ts-head").props("role=heading aria-level=2")
            failures = _table(FAILURES)
        broken.set_visibility(False)
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label("Log").classes("ts-head").props("role=heading aria-level=2")
                level = ui.toggle(LEVELS, value="debug", on_change=lambda: at_once(read, banner))
                level.props("no-caps dense unelevated aria-label='Lines that are shown'")
            find = ui.input("Find in the lines", on_change=lambda: at_once(read, banner))
            find.props("dense outlined clearable debounce=300")
            nothing = empty("notes", "No lines", "It logged nothing of the kind in the last day.")
            private = empty("lock", "For operators", "Lines of a log may name jobs, models and files of others.")
            log = _table(COLUMNS, CELLS)
            log.props("aria-label='Lines of the log'")
            how_many = ui.label().classes("ts-soft")

    async def read() -> float:
        page = await visitor.call(lambda api: _lines(api, name, str(level.value), find.value or None))
        lines = page["items"] if page is not None else None
        how_many.set_text(f"The newest {len(lines)} of {page['total']} lines." if page and lines else "")
        _fill(log, line_rows(lines or []))
        log.set_visibility(bool(lines))
        nothing.set_visibility(lines == [])
        private.set_visibility(lines is None)
        return REFRESH_SECONDS

    async def look() -> None:
        workers = await visitor.call(lambda api: api.workers())
        worker = next((each for each in workers if each["name"] == name), None)
        about.set_text(", ".join([*worker["roles"], *worker["queues"]]) if worker else "gone")
        state.show(words(_state(worker)))
        load.show(fmt.count(worker["holds"]) if worker else fmt.NOTHING)
        seen.show(fmt.when(worker["seen_at"]) if worker else fmt.NOTHING)
        version.show((worker["version"] if worker else "") or fmt.NOTHING)
        _fill(failures, failure_rows(worker["failures"] if worker else []))
        broken.set_visibility(bool(failures.rows))

    async def refresh() -> float:
        await asyncio.gather(look(), read())
        return REFRESH_SECONDS

    keep_fresh(refresh, banner, f"/workers/{quote(name)}")


def _table(columns: list[Json], cells: dict[str, str] | None = None) -> ui.table:
    table = whole_table(columns, "key")
    fill_rows(table, cells or {})
    return table


def _fill(table: ui.table, rows: list[Json]) -> None:
    if table.rows != rows:
        table.rows = rows
        table.update()


def _state(worker: Json | None) -> str:
    if worker is None or not worker["alive"]:
        return "gone" if worker is None else "silent"
    return "working" if worker["holds"] else "idle"


def _lines(api: Api, name: str, level: str, find: str | None) -> Json | None:
    """Lines of a log, the newest first; None where the visitor may not read them."""
    try:
        return api.worker_log(name, level, find, SHOWN_LINES)
    except TunesmithError as error:
        if error.code != "forbidden":
            raise
        return None
