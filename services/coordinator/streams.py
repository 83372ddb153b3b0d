"""Event streams: one poller for each source that somebody follows, however many do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger(__name__)
MAX_FEED_EVENTS = 1000
"""Newest events that are kept for a feed's readers; who is further behind reads the table."""


@dataclass(frozen=True)
class EventBatch:
    """What one query found.

    Attributes:
        events: ids that only grow, and texts.
        more: whether there are more at once.
        over: whether nothing comes after these.
    """

    events: tuple[tuple[int, bytes], ...]
    more: bool = False
    over: bool = False


Reading = Callable[[int], EventBatch]
"""Looks for what has a greater id; called in a thread."""


class Feed:
    """The newest events of one source.

    Attributes:
        start: every event with a greater id that was read is still here.
        latest: the greatest id that was read.
        over: nothing comes after that.
        changed: set, and replaced, whenever something has come.
        readers: how many follow it.
        begun: set once ``start`` is known.
    """

    def __init__(self) -> None:
        self.start = self.latest = 0
        self.over, self.changed, self.readers = False, asyncio.Event(), 0
        self.begun = asyncio.Event()
        self._events: deque[tuple[int, bytes]] = deque()

    def since(self, after: int) -> list[tuple[int, bytes]]:
        """The events with greater ids, oldest first; complete when ``after`` is ``start`` at least."""
        found = []
        for key, text in reversed(self._events):
            if key <= after:
                break
            found.append((key, text))
        return found[::-1]

    async def poll(self, begin: Callable[[], int], read: Reading, pause: float) -> None:
        """Take in what comes, one look every ``pause`` seconds, until it is over."""
        while not self.over:
            more = False
            try:
                if not self.begun.is_set():
                    self.start = self.latest = await run_in_threadpool(begin)
                    self.begun.set()
                found = await run_in_threadpool(read, self.latest)
                self._take(found)
                more = found.more
            except SQLAlchemyError as error:
                log.warning("events cannot be read, trying again: %s", error)
            if not more:
                await asyncio.sleep(pause)

    def _take(self, found: EventBatch) -> None:
        self.over = found.over
        if found.events:
            self.latest = found.events[-1][0]
            self._events.extend(found.events)
            while len(self._events) > MAX_FEED_EVENTS:
                self.start = self._events.popleft()[0]
        if found.events or found.over:
            changed, self.changed = self.changed, asyncio.Event()
            changed.set()


class Streams:
    """The feeds of an application, each with its poller while it has readers."""

    def __init__(self) -> None:
        self._feeds: dict[Hashable, tuple[Feed, asyncio.Task[None]]] = {}
        self._checked: dict[Hashable, tuple[float, bool]] = {}

    @asynccontextmanager
    async def follow(
        self, source: Hashable, read: Reading, begin: Callable[[], int], pause: float
    ) -> AsyncIterator[Feed]:
        """The feed of a source; its poller ends with its last reader.

        Args:
            source: readers of the same one share a feed.
            read: looks for events.
            begin: the id of the newest event there is, asked for the first reader.
            pause: seconds between two looks.
        """
        key = (asyncio.get_running_loop(), source)
        if key not in self._feeds:
            feed = Feed()
            self._feeds[key] = feed, asyncio.create_task(feed.poll(begin, read, pause))
        feed, poller = self._feeds[key]
        feed.readers += 1
        try:
            await feed.begun.wait()
            yield feed
        finally:
            feed.readers -= 1
            if not feed.readers:
                del self._feeds[key]
                poller.cancel()
                if not self._feeds:
                    self._checked.clear()

    async def may_go_on(self, reader: Hashable, check: Callable[[], bool], seconds: float) -> bool:
        """What ``check`` says of a reader; equal readers share an answer for ``seconds``."""
        asked, answer = self._checked.get(reader, (float("-inf"), True))
        if time.monotonic() - asked > seconds:
            self._checked[reader] = time.monotonic(), answer  # the others need not ask meanwhile
            answer = await run_in_threadpool(check)
            self._checked[reader] = time.monotonic(), answer
        return answer

    def readers(self) -> int:
        """How many follow something now."""
        return sum(feed.readers for feed, _ in self._feeds.values())
