"""Many readers of one event stream: what they hear, and what that costs the database."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa
from api_driver import GEMM, Api

from db.models import Job
from db.transactions import events
from services.coordinator import streams
from services.coordinator.auth import ANYBODY
from services.coordinator.routers import events as event_stream
from services.coordinator.streams import EventBatch, Streams
from tunesmith.events import CostModelQueued
from tunesmith.states import JobState

pytestmark = pytest.mark.parallel
READERS = 200


def ids(pieces: list[bytes]) -> list[int]:
    return [int(found) for found in re.findall(rb"^id: (\d+)", b"".join(pieces), re.MULTILINE)]


def append(api: Api, job_id: str, count: int) -> None:
    with api.context.sessions.begin() as session:
        for number in range(count):
            events.append(session, CostModelQueued("cm", number), job_id)


def end(api: Api, job_id: str) -> None:
    with api.context.sessions.begin() as session:
        session.execute(sa.update(Job).where(Job.id == job_id).values(state=JobState.CANCELLED))


def test_two_hundred_readers_cost_one_query_a_look(both: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.02)
    job_id = both.client.post("/v1/jobs", json=GEMM).json()["id"]
    append(both, job_id, 3)
    said: Counter[str] = Counter()
    looks = 0
    real = event_stream.of_job.look

    def look(*args: Any) -> EventBatch:
        nonlocal looks
        looks += 1
        return real(*args)

    def statement(_c: Any, _k: Any, text: str, *_: Any) -> None:
        said["events" if "events" in text else "other"] += text.startswith("SELECT")

    monkeypatch.setattr(event_stream.of_job, "look", look)
    sa.event.listen(both.context.reader_engine, "before_cursor_execute", statement)

    async def read(after: int) -> list[int]:
        return ids([piece async for piece in event_stream.tail_events(both.context, ANYBODY, job_id, after)])

    async def follow() -> list[list[int]]:
        readers = [asyncio.create_task(read(number % 3)) for number in range(READERS)]
        while both.context.streams.readers() < READERS:
            await asyncio.sleep(0.01)
        for _ in range(5):
            await asyncio.to_thread(append, both, job_id, 2)
        await asyncio.to_thread(end, both, job_id)
        found = await asyncio.gather(*readers)
        assert both.context.streams.readers() == 0
        return found

    found = asyncio.run(asyncio.wait_for(follow(), 60))
    sa.event.remove(both.context.reader_engine, "before_cursor_execute", statement)
    everything = [event["id"] for event in both.client.get(f"/v1/jobs/{job_id}/events").json()["items"]]
    assert len(everything) >= 14
    for number, heard in enumerate(found):
        assert heard == [key for key in everything if key > number % 3]
    polls = looks - READERS  # each reader reads once for itself what was there before
    assert polls >= 1
    assert said["events"] == looks + 1, "one query a look, and one for the newest id"


def test_a_reader_that_falls_behind_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_FEED_EVENTS", 10)
    table = list(range(1, 101))

    def read(after: int) -> EventBatch:
        found = [key for key in table if key > after][:7]
        return EventBatch(tuple((key, b"%d" % key) for key in found), more=len(found) == 7, over=len(found) < 7)

    async def follow() -> tuple[int, list[int], bool]:
        async with Streams().follow("a", read, lambda: 0, 0.01) as feed:
            while not feed.over:
                await feed.changed.wait()
            return feed.start, [key for key, _ in feed.since(feed.start)], feed.latest == 100

    start, kept, all_read = asyncio.run(asyncio.wait_for(follow(), 30))
    assert all_read
    assert (start, kept) == (90, list(range(91, 101)))


def test_the_last_reader_ends_the_poller() -> None:
    looks: list[int] = []

    def read(after: int) -> EventBatch:
        looks.append(after)
        return EventBatch(())

    async def follow() -> None:
        feeds, before = Streams(), len(asyncio.all_tasks())
        async with feeds.follow("a", read, lambda: 5, 0.001), feeds.follow("a", read, lambda: 5, 0.001):
            while len(looks) < 3:
                await asyncio.sleep(0.001)
        while len(asyncio.all_tasks()) > before:  # a look that is under way ends first
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(follow(), 30))
    assert set(looks) == {5}
