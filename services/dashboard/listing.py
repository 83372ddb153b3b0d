"""A page with one table that the server pages: what the dataset, the fleet and the keys have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from services.dashboard.api import Api, Json
from services.dashboard.context import Context, at_once, keep_fresh
from services.dashboard.paging import Pager
from services.dashboard.parts import Banner, download, empty, whole_table
from services.dashboard.theme import frame

PAGE = 50
LINK = """<q-td :props="props"><a v-if="props.row.link" :href="props.row.link">{{ props.value }}</a>
  <span v-else>{{ props.value }}</span></q-td>"""


@dataclass(frozen=True)
class Rows:
    """Part of a list of ``total`` rows: a text for each column by its name, and ``link``, where the first one leads."""

    items: list[Json]
    next_cursor: str | None = None
    total: int | None = None


@dataclass(frozen=True)
class Listing:
    """A page.

    Attributes:
        columns: names and heads of the columns, the first one first; ``>`` before a head puts texts on the right.
        fetch: a part of the list, by what is looked for and a cursor.
        finds: what the field says that narrows the list; empty for lists that are not narrowed.
        nothing: what is said of an empty list.
        file: label and address of a file with all that the list is about; empty where there is none.
    """

    path: str
    title: str
    columns: tuple[tuple[str, str], ...]
    fetch: Callable[[Api, str | None, str | None], Rows]
    nothing: str
    finds: str = ""
    file: tuple[str, str] | tuple[()] = ()

    def heads(self) -> list[dict[str, Any]]:
        """The columns as the table takes them."""
        return [
            {
                "name": name,
                "label": head.removeprefix(">"),
                "field": name,
                "align": "right" if head.startswith(">") else "left",
            }
            for name, head in self.columns
        ]


def build(context: Context, listing: Listing, find: str) -> None:
    """Fill the page."""
    visitor = context.visitor()
    with frame(listing.title, logged_in=visitor.logged_in, on_logout=visitor.logout):
        banner = Banner()
        with ui.element("section").classes("ts-card"):
            with ui.row().classes("w-full items-center justify-between"):
                ui.label(listing.title).classes("ts-title").props("role=heading aria-level=1")
                if listing.file:
                    download(*listing.file)
            field = ui.input(listing.finds or "Find", value=find).props("dense outlined clearable debounce=300")
            field.set_visibility(bool(listing.finds))
            nothing = empty("inbox", "Nothing here", listing.nothing)
            table = whole_table(listing.heads(), "key")
            table.add_slot(f"body-cell-{listing.columns[0][0]}", LINK)
            pager = Pager(lambda: at_once(refresh, banner))

    async def refresh() -> float:
        last = await visitor.call(lambda api: listing.fetch(api, field.value or None, pager.cursor))
        rows = [{"key": number, **item} for number, item in enumerate(last.items)]
        if rows != table.rows:
            table.rows = rows
            table.update()
        nothing.set_visibility(not rows)
        table.set_visibility(bool(rows))
        pager.show(last.next_cursor, len(rows), PAGE, last.total)
        return 5.0

    async def narrowed() -> None:
        pager.rewind()
        ui.navigate.history.replace(f"{listing.path}?{urlencode({'find': field.value or ''})}")
        await at_once(refresh, banner)

    keep_fresh(refresh, banner, listing.path)
    field.on_value_change(narrowed)
