"""Small pieces that several pages use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from services.dashboard.theme import COLOURS
from tunesmith.errors import TunesmithError


def words(name: str) -> str:
    """``round_finished`` → ``Round finished``."""
    return name.replace("_", " ").replace("-", " ").capitalize()


def paint(label: ui.label, state: str) -> ui.label:
    """Give ``label`` the text and colour of a state."""
    label.set_text(words(state))
    return label.classes(replace=f"ts-badge ts-{COLOURS.get(state, 'idle')}")


class Figure:
    """A number with its name above it."""

    def __init__(self, name: str, *, strong: bool = False) -> None:
        with ui.element("dl").classes("ts-kpi" + (" strong" if strong else "")).style("margin:0") as self._box:
            with ui.element("dt"):
                self._name = ui.label(name)
            with ui.element("dd"):
                self._value = ui.label("–")

    def show(self, text: str, name: str | None = None) -> None:
        """Replace the number, and its name when one is given."""
        self._value.set_text(text)
        if name is not None:
            self._name.set_text(name)

    def reveal(self, shown: bool) -> None:
        """Show it, or hide it where there is nothing to be told any more."""
        self._box.set_visibility(shown)


class Banner:
    """A message across the page, hidden while there is nothing to say."""

    def __init__(self) -> None:
        with ui.element("div").classes("ts-banner").props("role=status aria-live=polite") as self._box:
            self._icon = ui.icon("info").classes("text-xl")
            with ui.element("div"):
                self._title = ui.label().classes("font-semibold")
                self._text = ui.label()
        self.hide()

    def show(self, kind: str, title: str, text: str) -> None:
        """``kind``: ``bad``, ``warn``, ``busy`` or ``good``."""
        icons = {"bad": "error_outline", "warn": "hourglass_empty", "busy": "info", "good": "check_circle"}
        self._box.classes(replace=f"ts-banner ts-{kind}")
        self._icon.props(f"name={icons[kind]}")
        self._title.set_text(title)
        self._text.set_text(text)
        self._box.set_visibility(True)

    def problem(self, error: TunesmithError) -> None:
        """Show an error with its title, sentence and code."""
        self.show("bad", error.title, f"{error.detail} ({error.code})")

    def simulated(self, invented: bool) -> None:
        """Say that a simulated device invented the figures, or nothing."""
        if invented:
            self.show("warn", "Simulated device", "Its latencies are invented; nothing was measured.")
        else:
            self.hide()

    def hide(self) -> None:
        """Say nothing."""
        self._box.set_visibility(False)


def empty(icon: str, title: str, text: str) -> ui.element:
    """What stands where a list has no items; hidden until somebody knows that."""
    with ui.element("div").classes("ts-empty") as box:
        ui.icon(icon).classes("text-4xl")
        ui.label(title).classes("font-semibold mt-2")
        ui.label(text).classes("ts-soft")
    box.set_visibility(False)
    return box


def download(label: str, path: str) -> None:
    """A link to a file."""
    with ui.link(target=path).classes("ts-download").props("download"):
        ui.icon("download")
        ui.label(label)


def whole_table(columns: list[dict[str, Any]], key: str) -> ui.table:
    """A table of all of its rows, without pages; ``key`` is the field that tells them apart."""
    table = ui.table(columns=columns, rows=[], row_key=key, pagination={"rowsPerPage": 0})
    return table.classes("ts-table w-full").props("flat dense hide-pagination wrap-cells")


def fill_rows(table: ui.table, cells: Mapping[str, str], choice: str = "") -> None:
    """Say how a table's rows look, in one template of plain elements.

    With a template for each cell, or with the toolkit's cells, a browser takes several times as long.

    Args:
        cells: template of a column's cell by its name; others show their value.
        choice: template of the box that chooses a row; empty for tables whose rows are not chosen.
    """
    parts = (
        f'<td class="q-td text-{column["align"]}">{cells.get(column["name"], _value(column["name"]))}</td>'
        for column in table.columns
    )
    box = f'<td class="q-td q-table--col-auto-width">{choice}</td>' if choice else ""
    table.add_slot("body", f'<tr class="q-tr" :class="{{selected: props.selected}}">{box}{"".join(parts)}</tr>')


def _value(name: str) -> str:
    return f"{{{{ props.row.{name} }}}}"


async def agreed(title: str, text: str, *, yes: str, no: str) -> bool:
    """Ask before something that cannot be undone; True when the visitor wants it.

    Args:
        yes: what the button says that does it.
        no: what the one says that does not.
    """
    with ui.dialog().props(f'aria-label="{title}"') as dialog, ui.card().classes("ts-dialog"):
        ui.label(title).classes("ts-head").props("role=heading aria-level=2")
        ui.label(text)
        with ui.row().classes("w-full justify-end"):
            ui.button(no, on_click=lambda: dialog.submit(False)).props("flat no-caps")
            ui.button(yes, on_click=lambda: dialog.submit(True)).props("no-caps unelevated color=negative")
    answer = await dialog
    dialog.delete()
    return bool(answer)
