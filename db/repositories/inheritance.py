"""What a job begins with: the champions that earlier jobs left of its tasks."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Job, JobTask, Record
from db.repositories import models, records, schedules
from tunesmith.types import CacheState


def inherit(session: Session, job: Job) -> int:
    """Make earlier champions those of the job's tasks, with the default schedules' latencies; of how many tasks.

    A champion counts that was measured in the state of the caches in which the job measures, on no simulated device,
    and that lies in the task's design space.
    """
    assert job.target_hash is not None, "the plan names the target"
    caches = models.caches_of(session, job)
    champions = schedules.of_workloads(session, caches, job.target_hash)
    found = {key: row.record_id for key, row in champions.items() if row.cache == caches[key].value}
    rows = session.scalars(sa.select(Record).where(Record.id.in_(found.values())))
    sketches = {row.id: row.sketch_hash for row in rows}
    known = 0
    for task in session.scalars(sa.select(JobTask).where(JobTask.job_id == job.id, JobTask.tunable)):
        record = found.get(task.workload_hash)
        if record is None or sketches[record] not in task.sketches:
            continue
        task.known_seconds = task.best_seconds = champions[task.workload_hash].latency
        task.best_record_id = record
        task.untuned_seconds = _untuned(session, task, job.target_hash, caches)
        known += 1
    session.flush()
    return known


def _untuned(session: Session, task: JobTask, target: str, caches: Mapping[str, CacheState]) -> float | None:
    """The default schedule's latency in seconds, as it was measured last; None where it never ran."""
    latest = records.latest_baseline(session, task.workload_hash, target, caches[task.workload_hash])
    return latest.latency if latest is not None else None
