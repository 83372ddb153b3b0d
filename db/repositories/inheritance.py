"""What a job takes over from others: the champions that they found for its tasks, before it began or since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Event, Job, JobTask, Record, Schedule
from db.repositories import events, models, records, schedules
from db.repositories.transitions import changed_rows
from db.repositories.views_scheduling import OPEN_JOBS
from tunesmith.states import JobState
from tunesmith.types import CacheState


@dataclass(frozen=True)
class Offer:
    """A champion that another job found for a task, in seconds."""

    task: int
    record: int
    seconds: float


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


def something_to_offer(session: Session, after: int) -> bool:
    """True when, in events with an id greater than ``after``, a task had a new best or a job began or went on."""
    kinds = ("new_best", "job_running")
    return bool(session.scalar(sa.select(sa.exists().where(Event.id > after, Event.kind.in_(kinds)))))


def offers(session: Session) -> list[Offer]:
    """What running jobs could take over from each other now, by task; see :func:`inherit` for what counts.

    Only of targets for which several jobs are open: a job that is alone has everything since it was planned.
    """
    shared = (
        sa.select(Job.target_hash).where(Job.state.in_(OPEN_JOBS)).group_by(Job.target_hash).having(sa.func.count() > 1)
    )
    query = (
        sa.select(JobTask, Job, Schedule, Record.sketch_hash)
        .join(Job, JobTask.job_id == Job.id)
        .join(
            Schedule,
            sa.and_(
                Schedule.workload_hash == JobTask.workload_hash,
                Schedule.target_hash == Job.target_hash,
                Schedule.simulated == Job.simulated,
            ),
        )
        .join(Record, Record.id == Schedule.record_id)
        .where(
            Job.state == JobState.RUNNING,
            Job.warm_start,
            Job.target_hash.in_(shared),
            JobTask.tunable,
            Record.job_id.is_distinct_from(Job.id),
            sa.or_(JobTask.best_seconds.is_(None), Schedule.latency < JobTask.best_seconds),
        )
        .order_by(JobTask.id)
        .execution_options(populate_existing=True)
    )
    caches: dict[str, Mapping[str, CacheState]] = {}
    found = []
    for task, job, schedule, sketch in session.execute(query):
        if job.id not in caches:
            caches[job.id] = models.caches_of(session, job)
        if sketch in task.sketches and schedule.cache == caches[job.id][task.workload_hash].value:
            found.append(Offer(task.id, schedule.record_id, schedule.latency))
    return found


def adopt(session: Session, offer: Offer) -> bool:
    """Make the offer's champion the task's, unless that has a faster one by now."""
    row = session.execute(
        sa.select(JobTask.job_id, JobTask.name, JobTask.best_seconds, Record.job_id)
        .join(Record, Record.id == offer.record)
        .where(JobTask.id == offer.task)
    ).one()
    job_id, name, before, finder = row
    changed = changed_rows(
        session,
        sa.update(JobTask)
        .where(
            JobTask.id == offer.task,
            sa.or_(JobTask.best_seconds.is_(None), JobTask.best_seconds > offer.seconds),
        )
        .values(best_seconds=offer.seconds, best_record_id=offer.record),
    )
    if changed:
        events.append(
            session,
            "champion_adopted",
            job_id,
            task=offer.task,
            name=name,
            seconds=offer.seconds,
            before=before,
            record=offer.record,
            found_by=finder,
        )
    return bool(changed)
