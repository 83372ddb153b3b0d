"""Measure workers that were let in, by their public keys."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from db import clock
from db.models import EnrolledWorker
from db.queries import by_key
from db.transactions import events
from db.transactions.upsert import insert_for
from tunesmith.errors import Conflict, NotFound
from tunesmith.events import WorkerEnrolled, WorkerRevoked


def enrol(
    session: Session, worker_id: str, public_key: str, name: str, device_classes: Sequence[str], by: str
) -> tuple[EnrolledWorker, bool]:
    """Let a worker in; the same key again changes nothing. The row, and whether it is new.

    Raises:
        Conflict: the key was revoked.
    """
    row = by_key.get(session, EnrolledWorker, worker_id)
    if row is not None:
        if row.revoked_at is not None:
            raise Conflict(
                f"the key of worker {row.name} was revoked: remove its file worker_key and enrol it with a new one",
                field="public_key",
                value=worker_id,
            )
        return row, False
    values = {
        "id": worker_id,
        "name": name,
        "public_key": public_key,
        "device_classes": sorted(set(device_classes)),
        "enrolled_by": by,
    }
    # Coordinators that start together let in the workers of their settings at once; one of them is first.
    insert = insert_for(session, EnrolledWorker).values(**values).on_conflict_do_nothing()
    first = bool(session.execute(insert.returning(EnrolledWorker.id)).all())
    row = session.get_one(EnrolledWorker, worker_id)
    if first:
        events.append(session, WorkerEnrolled(worker_id, name, by))
    return row, first


def revoke(session: Session, worker_id: str, by: str) -> EnrolledWorker:
    """Believe a worker no longer; what it reported stays as it is.

    Raises:
        NotFound: there is none.
    """
    row = by_key.get(session, EnrolledWorker, worker_id)
    if row is None:
        raise NotFound(f"no measure worker {worker_id} is enrolled", field="worker", value=worker_id)
    if row.revoked_at is None:
        row.revoked_at = clock.now(session)
        session.flush()
        events.append(session, WorkerRevoked(worker_id, row.name, by))
    return row
