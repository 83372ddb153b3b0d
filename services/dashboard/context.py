"""What a page holds while somebody looks at it: who is asking, and the loop that keeps it fresh."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from nicegui import Client, app, background_tasks, ui

from services.dashboard.api import Api
from services.dashboard.parts import Banner
from services.dashboard.sessions import Sessions
from services.rates import Rate
from tunesmith.errors import TunesmithError, Unauthorized

T = TypeVar("T")
FIRST_LOOK = "first look"
"""Where a page's client keeps the task that fills it first."""
FIRST_SECONDS = 0.6
"""For which a page's second part waits for its data; what comes later follows over the socket."""


@dataclass(frozen=True)
class Context:
    """What every page is made with.

    Attributes:
        connect: makes an API for a key.
        sessions: who is logged in.
        logins: how often an address may try to log in.
    """

    connect: Callable[[str | None], Api]
    sessions: Sessions
    logins: Rate

    def visitor(self) -> Visitor:
        """Who asks for the page that is being built."""
        return Visitor(self, str(app.storage.browser["id"]))


def own_url() -> str:
    """The address under which this page's visitor reached the coordinator, without a trailing slash."""
    request = ui.context.client.request
    return f"{request.url.scheme}://{request.url.netloc}"


@dataclass(frozen=True)
class Visitor:
    """One browser's session."""

    context: Context
    session: str

    @property
    def logged_in(self) -> bool:
        """True when this browser gave a key."""
        return self.context.sessions.known(self.session)

    @property
    def key(self) -> str | None:
        """The visitor's key; None before the login."""
        return self.context.sessions.key(self.session)

    @property
    def api(self) -> Api:
        """The API with this visitor's key."""
        return self.context.connect(self.key)

    def logout(self) -> None:
        """Forget the key and go to the login page."""
        self.context.sessions.logout(self.session)
        ui.navigate.to("/login")

    async def call(self, work: Callable[[Api], T]) -> T:
        """Run a blocking call of the API in a thread."""
        return await asyncio.to_thread(work, self.api)

    @asynccontextmanager
    async def calls(self) -> AsyncIterator[Callable[[Callable[[Api], T]], Awaitable[T]]]:
        """Several calls at the same time; all have ended with the block, whatever became of the first."""
        begun: list[asyncio.Task[Any]] = []

        def call(work: Callable[[Api], T]) -> asyncio.Task[T]:
            task = asyncio.create_task(self.call(work))
            begun.append(task)
            return task

        try:
            yield call
        finally:
            await asyncio.gather(*begun, return_exceptions=True)


async def at_once(refresh: Callable[[], Awaitable[float]], banner: Banner) -> None:
    """Call ``refresh`` without waiting for its turn, because the visitor asked for something else."""
    try:
        await refresh()
    except TunesmithError as error:
        banner.problem(error)


def keep_fresh(refresh: Callable[[], Awaitable[float]], banner: Banner, path: str, *, hides: bool = True) -> ui.timer:
    """Call ``refresh`` at once, and again after as many seconds as it returns.

    Problems are shown in ``banner`` and tried again; a missing or revoked key leads to the login page. What the banner
    says is gone after a call without a problem, unless ``hides`` is False.
    """

    async def tick() -> None:
        try:
            timer.interval = await refresh()
            if hides:
                banner.hide()
        except Unauthorized:
            timer.deactivate()
            ui.navigate.to(f"/login?next={quote(path, safe='')}")
        except TunesmithError as error:
            timer.interval = 5.0
            banner.problem(error)

    timer = ui.timer(2.0, tick, immediate=False)
    client = ui.context.client
    client.storage[FIRST_LOOK] = background_tasks.create(tick(), name=f"first look at {path}", context=client)
    return timer


async def first_look(client: Client) -> None:
    """Wait a moment for the first data of a client's page: it need not be drawn twice then."""
    task = client.storage.get(FIRST_LOOK)
    if task is not None:
        await asyncio.wait({task}, timeout=FIRST_SECONDS)
