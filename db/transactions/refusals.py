"""Reports that were not believed: counted all, and told in events as far as that stays readable."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Event, ReportRefusal
from db.queries import event_log
from db.transactions import events
from db.transactions.upsert import insert_for
from tunesmith.event_kinds import EventKind
from tunesmith.events import ReportRefused

LATELY = 2000
"""Events that are looked back at."""


EVENTS = 40
"""Refusals among them at most: whoever sends nonsense without end fills no event log."""


def note(
    session: Session,
    reason: str,
    detail: str,
    *,
    job_id: str | None = None,
    worker: str | None = None,
    message: str,
    row: int | str | None = None,
) -> None:
    """Count a refused report, and log it as an event unless there were many lately.

    Args:
        reason: a ``tunesmith.measuring.claims.Reason``.
        detail: for people.
        job_id: job of the work that it claimed to be about, if that exists.
        worker: worker whose report it claimed to be.
        message: the task's name.
        row: the batch, evaluation or device.
    """
    now = clock.now(session)
    statement = insert_for(session, ReportRefusal).values(reason=reason, count=1, last_at=now)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=["reason"], set_={"count": ReportRefusal.count + 1, "last_at": now}
        )
    )
    newest = event_log.last_id(session)
    lately = session.scalar(
        sa.select(sa.func.count())
        .select_from(Event)
        .where(Event.id > newest - LATELY, Event.kind == EventKind.REPORT_REFUSED.value)
    )
    if (lately or 0) < EVENTS:
        known = None if worker is None else _clean(worker)
        about = _clean(row) if isinstance(row, str) else row
        said = ReportRefused(reason, _clean(detail), known, _clean(message), about)
        events.append(session, said, job_id)


def _clean(value: str) -> str:
    """Text that a database stores, of bounded length."""
    return value.encode("utf-8", "replace").decode().replace("\0", " ")[:500]
