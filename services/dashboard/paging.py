"""Going through a list that the server pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui


class Pager:
    """Buttons to the next page and back. A cursor leads forward only, so those of the pages before are kept.

    Args:
        turned: called when another page is wanted.
    """

    def __init__(self, turned: Callable[[], Awaitable[None]]) -> None:
        self._cursors: list[str | None] = [None]
        self._next: str | None = None
        self._turned = turned
        with ui.row().classes("items-center gap-2"):
            self._back = ui.button("Back", icon="chevron_left", on_click=self._go_back).props("flat no-caps dense")
            self._more = ui.button("More", icon="chevron_right", on_click=self._go_on).props("flat no-caps dense")
            self._place = ui.label().classes("ts-soft")

    @property
    def cursor(self) -> str | None:
        """The cursor of the page that is looked at."""
        return self._cursors[-1]

    def show(self, next_cursor: str | None, count: int, size: int, total: int | None) -> None:
        """Say where in the list the page is.

        Args:
            next_cursor: cursor of the page behind this one; None for the last.
            count: items of this page.
            size: items of a full page.
            total: items of the whole list; None where nobody counted them.
        """
        self._next = next_cursor
        self._back.set_visibility(len(self._cursors) > 1)
        self._more.set_visibility(next_cursor is not None)
        first = size * (len(self._cursors) - 1)
        of = "" if total is None else f" of {total:,}"
        self._place.set_text(f"{first + 1:,} to {first + count:,}{of}" if count else "")

    def rewind(self) -> None:
        """Begin again, with another list."""
        self._cursors[:] = [None]

    async def _go_on(self) -> None:
        if self._next is not None:
            self._cursors.append(self._next)
            await self._turned()

    async def _go_back(self) -> None:
        if len(self._cursors) > 1:
            self._cursors.pop()
            await self._turned()
