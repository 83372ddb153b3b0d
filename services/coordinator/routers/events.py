"""Events of a job: a JSON page, or a stream of server-sent events that resumes after ``Last-Event-ID``."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.responses import Response

from services.coordinator.auth import Caller, InCaller, still_valid
from services.coordinator.context import Context, InContext
from services.coordinator.cursors import MAX_ID, Limit
from services.coordinator.streams import EventBatch
from services.coordinator.usecases import events as of_job
from tunesmith.answers.base import Page
from tunesmith.answers.events import EventBody

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"])
POLL_SECONDS = 0.5
PING_SECONDS = 15.0
LIFE_SECONDS = 600.0
"""A stream ends after this long; clients reconnect and go on where they were."""
KEY_SECONDS = 2.0
"""A stream whose key is revoked ends after this long at most."""
BATCH = 200


@router.get(
    "/events",
    response_model=Page[EventBody],
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def job_events(
    request: Request,
    context: InContext,
    caller: InCaller,
    job_id: str,
    after: Annotated[int, Query(ge=0, description="Only events with a greater id.")] = 0,
    sort: Annotated[
        Literal["id", "-id"], Query(description="Oldest first, or newest first; a stream is oldest first.")
    ] = "id",
    limit: Limit = 50,
    cursor: Annotated[int | None, Query(ge=0)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response | Page[EventBody]:
    """A page of events, oldest first unless asked otherwise; with ``Accept: text/event-stream`` they are streamed as
    they happen, until the job is over."""
    if last_event_id is not None and re.fullmatch("[0-9]{1,19}", last_event_id):
        after = int(last_event_id)
    streamed = "text/event-stream" in request.headers.get("accept", "")
    if sort == "-id" and not streamed:
        before = min(cursor if cursor is not None else MAX_ID, MAX_ID)
        return await run_in_threadpool(of_job.page, context, caller, job_id, min(after, MAX_ID), limit, before)
    after = min(cursor if cursor is not None else after, MAX_ID)
    if not streamed:
        return await run_in_threadpool(of_job.page, context, caller, job_id, after, limit)
    await run_in_threadpool(of_job.page, context, caller, job_id, after, 1)  # a problem, not a broken stream
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return EventSourceResponse(tail_events(context, caller, job_id, after), headers=headers)


async def tail_events(context: Context, caller: Caller, job_id: str, after: int) -> AsyncIterator[bytes]:
    """Events from ``after`` on, and a comment now and then. It ends once the job is over and all was said, or the
    caller's key is revoked.

    What is new comes from the feed that all who may see the same share; what is older is read by each itself.
    """
    began = heard = time.monotonic()
    yield format_sse_event(retry=1000, comment="events of one job")
    async with context.streams.follow(
        (job_id, caller.filter),
        partial(of_job.look, context, caller, job_id, BATCH),
        partial(of_job.last_event, context, job_id),
        POLL_SECONDS,
    ) as feed:
        while time.monotonic() - began < LIFE_SECONDS:
            if not await context.streams.may_go_on(caller, partial(_may_go_on, context, caller), KEY_SECONDS):
                return
            changed, start = feed.changed, feed.start  # before anything is read, so that nothing is missed
            if after < start:
                found = await run_in_threadpool(of_job.look, context, caller, job_id, BATCH, after)
                events, after_all, over = found.events, start, found.over
            else:
                found = EventBatch((), over=feed.over)
                events, after_all, over = tuple(feed.since(after)), feed.latest, feed.over
            for key, text in events:
                yield text
                after, heard = key, time.monotonic()
            if found.more:
                continue
            after = max(after, after_all)
            if over:
                return
            if time.monotonic() - heard > PING_SECONDS:
                yield format_sse_event(comment="ping")
                heard = time.monotonic()
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(changed.wait(), min(PING_SECONDS, KEY_SECONDS or POLL_SECONDS))


def _may_go_on(context: Context, caller: Caller) -> bool:
    with context.reading() as session:
        return still_valid(session, caller)
