"""Champions: the fastest known schedule of a workload on a target."""

from __future__ import annotations

import json
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Schedule
from db.repositories.upsert import insert_for
from tunesmith.types import CacheState


def crown(
    session: Session,
    workload: str,
    target: str,
    record_id: int,
    latency: float,
    trace: str,
    *,
    simulated: bool = False,
    cache: CacheState = CacheState.WARM,
) -> bool:
    """Make a record the champion if it is faster than the present one.

    Args:
        latency: seconds.
        trace: JSON text of MetaSchedule's trace, postprocessing included.
        simulated: it was invented by a simulated device, and contends with its like only.
        cache: where its runs found their arguments; the same holds.

    Returns:
        True when the champion changed.
    """
    values = {"record_id": record_id, "latency": latency, "trace": json.loads(trace), "updated_at": clock.now(session)}
    key = {"workload_hash": workload, "target_hash": target, "simulated": simulated, "cache": cache.value}
    statement = insert_for(session, Schedule).values(**key, **values)
    statement = statement.on_conflict_do_update(index_elements=list(key), set_=values, where=Schedule.latency > latency)
    return session.execute(statement.returning(Schedule.record_id)).scalar_one_or_none() is not None


def measured_again(
    session: Session, workload: str, target: str, record_id: int, latency: float, *, simulated: bool, cache: CacheState
) -> None:
    """Lower the champion's latency in seconds, if the record is still the champion."""
    session.execute(
        sa.update(Schedule)
        .values(latency=latency, updated_at=clock.now(session))
        .where(
            Schedule.workload_hash == workload,
            Schedule.target_hash == target,
            Schedule.simulated.is_(simulated),
            Schedule.cache == cache.value,
            Schedule.record_id == record_id,
            Schedule.latency > latency,
        )
    )


def get(
    session: Session, workload: str, target: str, *, simulated: bool = False, cache: CacheState = CacheState.WARM
) -> Schedule | None:
    """The champion, if there is one."""
    return session.get(Schedule, (workload, target, simulated, cache.value), populate_existing=True)


def of_workloads(
    session: Session, caches: Mapping[str, CacheState], target: str, *, simulated: bool = False
) -> dict[str, Schedule]:
    """The champions of several workloads on a target, by workload.

    Args:
        caches: for each workload where the model's runs find its arguments. A champion that was measured so is the
            one; where there is none, the other one is better than the default schedule.
    """
    query = sa.select(Schedule).where(
        Schedule.workload_hash.in_(caches), Schedule.target_hash == target, Schedule.simulated.is_(simulated)
    )
    found: dict[str, Schedule] = {}
    for row in session.scalars(query):
        if row.workload_hash not in found or row.cache == caches[row.workload_hash].value:
            found[row.workload_hash] = row
    return found
