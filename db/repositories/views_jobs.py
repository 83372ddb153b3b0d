"""Jobs as the API lists and shows them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased, defer

from db.models import Batch, Evaluation, Event, Family, Job, JobTask, Model, Record, Round, TargetRow, WorkloadRow
from tunesmith.alternatives import TaskLatency, places
from tunesmith.states import JobState, RoundState

OPEN_ROUNDS = (RoundState.PROPOSING, RoundState.MEASURING)
ENDED_ROUNDS = (RoundState.DONE, RoundState.FAILED)
SORTS = ("created_at", "priority")


@dataclass(frozen=True)
class JobParts:
    """A job with the rows around it that its description needs."""

    job: Job
    model: Model
    target: TargetRow | None
    evaluation: Evaluation | None


@dataclass(frozen=True)
class TaskSums:
    """A job's tasks, summed up; latencies in seconds, weighted, over the tunable tasks that have one, and of a task and
    its alternative over the faster one alone.

    ``measured`` counts the tunable tasks with a latency, and those whose first round ended without giving any.
    """

    tasks: int = 0
    tunable: int = 0
    measured: int = 0
    trials: int = 0
    failures: int = 0
    untuned: float | None = None
    best: float | None = None


def get(session: Session, job_id: str, *, lock: bool = False) -> Job | None:
    """A job by id; ``lock`` keeps others from moving it until the transaction ends."""
    return session.get(Job, job_id, populate_existing=True, with_for_update=lock or None)


def owner_of(session: Session, job_id: str | None) -> str | None:
    """Who owns a job; None for none, and for one that is gone."""
    return None if job_id is None else session.scalar(sa.select(Job.owner).where(Job.id == job_id))


def owned(session: Session, job_ids: Collection[str], owner: str) -> set[str]:
    """Which of the jobs belong to ``owner``."""
    return set(session.scalars(sa.select(Job.id).where(Job.id.in_(job_ids), Job.owner == owner)))


def page(
    session: Session, *, owner: str | None, state: JobState | None, target: str | None, sort: str, descending: bool,
    after: tuple[Any, str] | None, limit: int,
) -> Sequence[str]:  # fmt: skip
    """Ids of jobs in order of ``sort``, then id. ``after``: sort value and id of the page's predecessor."""
    column: Any = Job.created_at if sort == "created_at" else Job.priority
    query = sa.select(Job.id)
    if owner is not None:
        query = query.where(Job.owner == owner)
    if state is not None:
        query = query.where(Job.state == state)
    if target is not None:
        query = query.where(sa.or_(Job.target_spec == target, Job.target_hash == target))
    if after is not None:
        here = sa.tuple_(column, Job.id)
        bound = sa.tuple_(sa.bindparam(None, after[0], column.type), sa.bindparam(None, after[1], Job.id.type))
        query = query.where(here < bound if descending else here > bound)
    order = (column.desc(), Job.id.desc()) if descending else (column, Job.id)
    return session.scalars(query.order_by(*order).limit(limit)).all()


def parts(session: Session, job_ids: Collection[str]) -> dict[str, JobParts]:
    """Jobs with model, target and evaluation, by id."""
    query = (
        sa.select(Job, Model, TargetRow, Evaluation)
        .join(Model, Job.model_id == Model.id)
        .outerjoin(TargetRow, Job.target_hash == TargetRow.hash)
        .outerjoin(Evaluation, Evaluation.job_id == Job.id)
        .where(Job.id.in_(job_ids))
    )
    return {job.id: JobParts(job, model, target, check) for job, model, target, check in session.execute(query)}


def sums(session: Session, job_ids: Collection[str]) -> dict[str, TaskSums]:
    """The sums over each job's tasks. One counts as measured where its alternative or direct task has a schedule:
    the model's latency is known then."""
    known = sa.or_(JobTask.untuned_seconds.is_not(None), JobTask.best_seconds.is_not(None))
    ended = sa.exists().where(Round.job_task_id == JobTask.id, Round.state.in_(ENDED_ROUNDS))
    other = aliased(JobTask)
    stands_in = sa.exists().where(
        other.job_id == JobTask.job_id, other.best_seconds.is_not(None),
        sa.or_(other.alternative_of == JobTask.workload_hash, other.workload_hash == JobTask.alternative_of),
    )  # fmt: skip
    measured = sa.and_(JobTask.tunable, sa.or_(known, ended, stands_in))
    query = sa.select(
        JobTask.job_id,
        sa.func.count(),
        sa.func.sum(sa.case((JobTask.tunable, 1), else_=0)),
        sa.func.sum(sa.case((measured, 1), else_=0)),
        sa.func.sum(JobTask.trials),
        sa.func.sum(JobTask.failures),
    ).where(JobTask.job_id.in_(job_ids))
    found, totals = session.execute(query.group_by(JobTask.job_id)), _totals(session, job_ids)
    return {
        job: TaskSums(number, int(tunable), int(measured), int(trials), int(failures), *totals.get(job, (None, None)))
        for job, number, tunable, measured, trials, failures in found
    }


def _totals(session: Session, job_ids: Collection[str]) -> dict[str, tuple[float, float]]:
    """Each job's estimated latency untuned and now; jobs without any are left out."""
    query = sa.select(
        JobTask.job_id, JobTask.workload_hash, JobTask.weight, JobTask.untuned_seconds, JobTask.best_seconds,
        JobTask.alternative_of,
    ).where(JobTask.job_id.in_(job_ids), JobTask.tunable)
    tasks: dict[str, dict[str, TaskLatency[str]]] = {}
    for job, workload, weight, untuned, best, direct in session.execute(query.order_by(JobTask.position, JobTask.id)):
        tasks.setdefault(job, {})[workload] = TaskLatency(weight, untuned, best, direct)
    known = {job: [place for place in places(of_job).values() if place.known] for job, of_job in tasks.items()}
    return {
        job: (sum(p.weight * p.start for p in found), sum(p.weight * (p.current or 0.0) for p in found))
        for job, found in known.items() if found
    }  # fmt: skip


def latencies(tasks: Iterable[JobTask]) -> dict[int, TaskLatency[int]]:
    """What the tasks of one job contribute to the latency of its model, by id."""
    rows = list(tasks)
    ids: dict[str | None, int] = {task.workload_hash: task.id for task in rows}
    return {
        task.id: TaskLatency(task.weight, task.untuned_seconds, task.best_seconds, ids.get(task.alternative_of))
        for task in rows
    }


def round_counts(session: Session, job_ids: Collection[str]) -> dict[str, tuple[int, int]]:
    """Rounds ever opened, and those under way, by job."""
    under_way = sa.func.sum(sa.case((Round.state.in_(OPEN_ROUNDS), 1), else_=0))
    query = sa.select(Round.job_id, sa.func.count(), under_way).where(Round.job_id.in_(job_ids))
    return {row[0]: (row[1], int(row[2])) for row in session.execute(query.group_by(Round.job_id))}


def tasks(session: Session, job_id: str) -> Sequence[tuple[JobTask, WorkloadRow, str | None]]:
    """A job's tasks with workload and family name, in the model's order."""
    query = (
        sa.select(JobTask, WorkloadRow, Family.name)
        .join(WorkloadRow, JobTask.workload_hash == WorkloadRow.hash)
        .outerjoin(Family, JobTask.family_id == Family.id)
        .where(JobTask.job_id == job_id)
        .options(defer(JobTask.searcher_state))
    )
    found = session.execute(query.order_by(JobTask.position, JobTask.id))
    return [(task, workload, family) for task, workload, family in found]


def rounds(
    session: Session, job_id: str, *, after: int = 0, limit: int | None = None, descending: bool = False
) -> Sequence[tuple[Round, str, int]]:
    """A job's rounds with the task's name and weight, by number; ``after`` is the number to go on from."""
    query = sa.select(Round, JobTask.name, JobTask.weight).join(JobTask, Round.job_task_id == JobTask.id)
    query = query.where(Round.job_id == job_id)
    if after:
        query = query.where(Round.number < after if descending else Round.number > after)
    query = query.order_by(Round.number.desc() if descending else Round.number)
    found = session.execute(query.limit(limit) if limit else query)
    return [(row, name, weight) for row, name, weight in found]


@dataclass(frozen=True)
class RoundStep:
    """What a finished round did to its task."""

    task: int
    best: float | None
    metrics: dict[str, Any]
    baseline: bool
    finished_at: dt.datetime

    @property
    def seconds(self) -> float:
        """What it took in a builder and on the device; 0 where nobody told."""
        return float(sum(self.metrics.get(name) or 0.0 for name in ("build_seconds", "device_seconds")))

    @property
    def measured(self) -> int:
        """Its candidates, the default schedule among them."""
        return int(self.metrics.get("measured") or 0)

    @property
    def known_at(self) -> dt.datetime:
        """When its best was crowned, if it brought one: a slow default schedule is timed after that. Else its end."""
        crowned = self.metrics.get("crowned_at")
        return self.finished_at if crowned is None else dt.datetime.fromisoformat(crowned)


def finished_rounds(session: Session, job_id: str) -> list[RoundStep]:
    """A job's finished rounds in the order in which they finished."""
    query = sa.select(
        Round.job_task_id, Round.best_after, Round.metrics, Round.baseline, Round.finished_at
    ).where(Round.job_id == job_id, Round.state == RoundState.DONE, Round.finished_at.is_not(None))
    return [
        RoundStep(task, best, metrics or {}, baseline, finished)
        for task, best, metrics, baseline, finished in session.execute(query.order_by(Round.finished_at, Round.id))
        if finished is not None
    ]


def adoptions(session: Session, job_id: str) -> list[RoundStep]:
    """What champions of other jobs, taken over while the job ran, did to its tasks: as rounds in which nothing was
    measured, oldest first."""
    query = sa.select(Event).where(Event.job_id == job_id, Event.kind == "champion_adopted").order_by(Event.id)
    return [RoundStep(row.data["task"], row.data["seconds"], {}, False, row.created_at)
            for row in session.scalars(query)]


def trials(
    session: Session, job_id: str, *, after: int, limit: int, task: int | None = None, failure: str | None = None
) -> Sequence[Record]:
    """A job's records with an id greater than ``after``; ``failure`` may be ``none`` for those that ran."""
    query = sa.select(Record).where(Record.job_id == job_id, Record.id > after)
    if task is not None:
        query = query.where(Record.job_task_id == task)
    if failure is not None:
        query = query.where(Record.failure.is_(None) if failure == "none" else Record.failure == failure)
    return session.scalars(query.order_by(Record.id).limit(limit)).all()


def champions(session: Session, job_id: str) -> dict[int, Record]:
    """Records of the best candidates, by task."""
    query = sa.select(JobTask.id, Record).join(Record, JobTask.best_record_id == Record.id)
    return {row[0]: row[1] for row in session.execute(query.where(JobTask.job_id == job_id))}


def baselines(session: Session, job_id: str) -> dict[int, Record]:
    """Records of the default schedules that ran, by task."""
    first = sa.select(Batch.id).join(Round, Batch.round_id == Round.id).where(Round.job_id == job_id, Round.baseline)
    query = sa.select(Record).where(
        Record.batch_id.in_(first), Record.sketch_hash.is_(None), Record.latency.is_not(None)
    )
    return {row.job_task_id: row for row in session.scalars(query.order_by(Record.id)) if row.job_task_id is not None}
