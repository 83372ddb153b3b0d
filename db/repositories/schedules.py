"""Champions: the fastest known schedule of a workload on a target."""

from __future__ import annotations

import json
from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Schedule
from db.models.base import utcnow
from db.repositories.upsert import insert_for


def crown(
    session: Session, workload: str, target: str, record_id: int, latency: float, trace: str, *, simulated: bool = False
) -> bool:
    """Make a record the champion if it is faster than the present one.

    Args:
        latency: seconds.
        trace: JSON text of MetaSchedule's trace, postprocessing included.
        simulated: it was invented by a simulated device, and contends with its like only.

    Returns:
        True when the champion changed.
    """
    values = {"record_id": record_id, "latency": latency, "trace": json.loads(trace), "updated_at": utcnow()}
    key = {"workload_hash": workload, "target_hash": target, "simulated": simulated}
    statement = insert_for(session, Schedule).values(**key, **values)
    statement = statement.on_conflict_do_update(
        index_elements=list(key), set_=values, where=Schedule.latency > latency
    )
    return session.execute(statement.returning(Schedule.record_id)).scalar_one_or_none() is not None


def get(session: Session, workload: str, target: str, *, simulated: bool = False) -> Schedule | None:
    """The champion, if there is one."""
    return session.get(Schedule, (workload, target, simulated), populate_existing=True)


def of_workloads(
    session: Session, workloads: Collection[str], target: str, *, simulated: bool = False
) -> dict[str, Schedule]:
    """The champions of several workloads on a target, by workload."""
    query = sa.select(Schedule).where(
        Schedule.workload_hash.in_(workloads), Schedule.target_hash == target, Schedule.simulated.is_(simulated)
    )
    return {row.workload_hash: row for row in session.scalars(query)}
