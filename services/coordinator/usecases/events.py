"""Events of a job, without what the caller may not see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.sse import format_sse_event
from sqlalchemy.orm import Session

from db.models import Event
from db.queries import event_log, jobs
from db.queries.totals import total
from services.coordinator.auth import Caller
from services.coordinator.context import Context
from services.coordinator.streams import EventBatch
from services.coordinator.usecases.jobs import visible
from tunesmith.answers.base import Page
from tunesmith.answers.events import EventBody
from tunesmith.event_kinds import FORMER_NAMES
from tunesmith.states import is_final


def page(
    context: Context, caller: Caller, job_id: str, after: int, limit: int, before: int | None = None
) -> Page[EventBody]:
    """Events of a job with an id above ``after``, oldest first; with ``before`` those below it, newest first.

    ``next_cursor`` is the id to go on from. Who goes backwards is told how many there are above ``after``; who follows
    a job asks twice a second, and only for what is new.
    """
    with context.reading() as session:
        visible(session, caller, job_id)
        found = event_log.page(session, after=after, job_id=job_id, limit=limit + 1, before=before)
        items = _events(session, caller, found[:limit])
        count = total(session, event_log.of_job(job_id, after)) if before is not None else None
    return Page(items=items, next_cursor=str(items[-1].id) if len(found) > limit else None, total=count)


def look(context: Context, caller: Caller, job_id: str, limit: int, after: int) -> EventBatch:
    """The next events of a job as server-sent ones, in one query; over with the job, or when it was deleted."""
    with context.reading() as session:
        found = event_log.tail(session, job_id, after, limit)
        if found is None:
            return EventBatch((), over=True)
        state, rows = found
        items = _events(session, caller, rows)
    more = len(rows) == limit
    texts = (format_sse_event(id=str(it.id), event=it.kind, data_str=it.model_dump_json()) for it in items)
    return EventBatch(tuple(zip((row.id for row in rows), texts, strict=True)), more, is_final(state) and not more)


def last_event(context: Context, job_id: str) -> int:
    """The id of a job's newest event."""
    with context.reading() as session:
        return event_log.last_id(session, job_id)


def _events(session: Session, caller: Caller, found: Sequence[Event]) -> list[EventBody]:
    finders = {str(row.data["found_by"]) for row in found if row.data.get("found_by")}
    known = finders if caller.filter is None or not finders else jobs.owned(session, finders, caller.filter)
    return [
        EventBody.of(row, formerly=FORMER_NAMES.get(row.kind), data=_without_strangers(row.data, known))
        for row in found
    ]


def _without_strangers(data: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """An event's data; whose job found a champion stays out unless the job is in ``known``."""
    finder = data.get("found_by")
    return data if finder is None or finder in known else {**data, "found_by": None, "record": None}
