"""Champions: the fastest confirmed schedule of a workload on a target, and who may adopt which."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session, load_only

from db.blobs import BlobStore
from db.models import Event, Job, JobTask, Record, Schedule, TargetRow, WorkloadRow
from db.queries import models
from db.queries.relatives import Likeness, nearest
from tunesmith.event_kinds import EventKind
from tunesmith.states import OPEN_JOBS, JobState
from tunesmith.types import CacheState, Candidate


@dataclass(frozen=True)
class Champion:
    """A task's champion and its latency in seconds; None both while only the default schedule exists."""

    candidate: Candidate | None
    seconds: float | None


def of_task(session: Session, task: JobTask) -> Champion:
    """The champion of now."""
    record = record_of(session, task)
    candidate = Candidate.from_json([record.sketch_hash, record.decisions]) if record is not None else None
    return Champion(candidate, task.best_seconds)


def record_of(session: Session, task: JobTask) -> Record | None:
    """The record of a task's champion; None while only the default schedule exists."""
    return session.get(Record, task.best_record_id) if task.best_record_id is not None else None


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


def known(session: Session, workloads: Collection[str], target: str) -> set[str]:
    """Those of some workloads that have a measured champion on a target, whatever the state of the caches."""
    query = sa.select(Schedule.workload_hash).where(
        Schedule.workload_hash.in_(workloads), Schedule.target_hash == target, Schedule.simulated.is_(False)
    )
    return set(session.scalars(query))


@dataclass(frozen=True)
class AdoptableChampion:
    """A champion that another job found for a task, in seconds."""

    task: int
    record: int
    seconds: float


def any_adoptable(session: Session, after: int) -> bool:
    """True when, in events with an id greater than ``after``, a task had a new best or a job began or went on."""
    kinds = (EventKind.NEW_BEST.value, EventKind.JOB_RUNNING.value)
    return bool(session.scalar(sa.select(sa.exists().where(Event.id > after, Event.kind.in_(kinds)))))


def adoptable(session: Session) -> list[AdoptableChampion]:
    """What running jobs could take over from each other now, by task; see ``adopt_earlier`` for what counts.

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
            found.append(AdoptableChampion(task.id, schedule.record_id, schedule.latency))
    return found


class MeasuredChampion(NamedTuple):
    """A champion that a device measured, with its target, its workload and the job that found it."""

    schedule: Schedule
    target: TargetRow
    workload: WorkloadRow
    job: str | None


def measured(session: Session, workload: str) -> Sequence[MeasuredChampion]:
    """The measured champions of a workload on every target, fastest first.

    Schedules that were measured with cold weights, as models have them, come first.
    """
    query = (
        sa.select(Schedule, TargetRow, WorkloadRow, Record.job_id)
        .join(TargetRow, Schedule.target_hash == TargetRow.hash)
        .join(WorkloadRow, Schedule.workload_hash == WorkloadRow.hash)
        .join(Record, Schedule.record_id == Record.id)
        .where(Schedule.workload_hash == workload, Schedule.simulated.is_(False))
    )
    warm = Schedule.cache != CacheState.STREAMED.value
    return [MeasuredChampion(*row) for row in session.execute(query.order_by(warm, Schedule.latency))]


def relatives(session: Session, workload: str, most: int = 16) -> Iterator[tuple[MeasuredChampion, float]]:
    """Measured champions of the ``most`` workloads of the family that are most alike, and how many times fewer FLOPs
    they have."""
    mine = session.get(WorkloadRow, workload)
    if mine is None:
        return
    tuned = sa.exists().where(Schedule.workload_hash == WorkloadRow.hash, Schedule.simulated.is_(False))
    for key, flops in nearest(session, Likeness.of(mine), tuned)[:most]:
        for found in measured(session, key):
            yield found, mine.flops / flops if flops else 1.0


def records_of_tasks(session: Session, job_id: str, tasks: Collection[int]) -> dict[int, Record]:
    """Records of the best candidates of some of a job's tasks, by task, with what their intervals and checks need."""
    query: Any = sa.select(JobTask.id, Record).join(Record, JobTask.best_record_id == Record.id)
    needed = load_only(Record.samples, Record.confirmation, Record.environment)
    found = session.execute(query.where(JobTask.job_id == job_id, JobTask.id.in_(tasks)).options(needed))
    return {task: record for task, record in found}  # noqa: C416  (rows are no pairs to mypy)


def program_of(blobs: BlobStore, workload: WorkloadRow) -> str | None:
    """The program whose blocks a workload's traces name; None where its file is not here."""
    blob = workload.metaschedule_blob
    return str(json.loads(blobs.get_bytes(blob))[1]) if blobs.exists(blob) else None
