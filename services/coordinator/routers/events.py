"""Events of a job: a JSON page, or a stream of server-sent events that resumes after ``Last-Event-ID``."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.responses import Response

from services.coordinator.auth import Caller, InCaller, still_valid
from services.coordinator.context import Context, InContext
from services.coordinator.schemas.common import MAX_ID, Limit, Page
from services.coordinator.schemas.jobs import EventBody
from services.coordinator.usecases import jobs, progress
from tunesmith.errors import NotFound
from tunesmith.states import is_final

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"])
POLL_SECONDS = 0.5
PING_SECONDS = 15.0
LIFE_SECONDS = 600.0
"""A stream ends after this long; clients reconnect and go on where they were."""
KEY_SECONDS = 2.0
"""A stream whose key is revoked ends after this long at most."""
BATCH = 200


@router.get(
    "/events", response_model=Page[EventBody],
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def job_events(
    request: Request, context: InContext, caller: InCaller, job_id: str,
    after: Annotated[int, Query(ge=0, description="Only events with a greater id.")] = 0,
    limit: Limit = 50, cursor: Annotated[int | None, Query(ge=0)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response | Page[EventBody]:  # fmt: skip
    """A page of events, oldest first; with ``Accept: text/event-stream`` they are streamed as they happen, until
    the job is over."""
    if last_event_id is not None and re.fullmatch("[0-9]{1,19}", last_event_id):
        after = int(last_event_id)
    after = min(cursor if cursor is not None else after, MAX_ID)
    if "text/event-stream" not in request.headers.get("accept", ""):
        return await run_in_threadpool(progress.events, context, caller, job_id, after, limit)
    await run_in_threadpool(jobs.show, context, caller, job_id)  # a problem, not a broken stream
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return EventSourceResponse(_tail(context, caller, job_id, after), headers=headers)


async def _tail(context: Context, caller: Caller, job_id: str, after: int) -> AsyncIterator[bytes]:
    """Events from ``after`` on, a comment now and then, the end once the job is over and all was said, or the caller's
    key is revoked."""
    began = heard = asked = time.monotonic()
    yield format_sse_event(retry=1000, comment="events of one job")
    while time.monotonic() - began < LIFE_SECONDS:
        if time.monotonic() - asked > KEY_SECONDS:
            asked = time.monotonic()
            if not await run_in_threadpool(_may_go_on, context, caller):
                return
        try:
            over = is_final((await run_in_threadpool(jobs.show, context, caller, job_id)).state)
            page = await run_in_threadpool(progress.events, context, caller, job_id, after, BATCH)
        except NotFound:  # the job was deleted meanwhile, and its events with it
            return
        for event in page.items:
            yield format_sse_event(id=str(event.id), event=event.kind, data_str=event.model_dump_json())
            after, heard = event.id, time.monotonic()
        if page.next_cursor is not None:
            continue
        if over:
            return
        if time.monotonic() - heard > PING_SECONDS:
            yield format_sse_event(comment="ping")
            heard = time.monotonic()
        await asyncio.sleep(POLL_SECONDS)


def _may_go_on(context: Context, caller: Caller) -> bool:
    with context.reading() as session:
        return still_valid(session, caller)
