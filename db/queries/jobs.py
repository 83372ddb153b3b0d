"""Jobs as the API lists and shows them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Evaluation, Event, Job, JobTag, JobTask, Model, Record, Round, TargetRow
from db.queries.totals import total
from tunesmith.event_kinds import EventKind
from tunesmith.states import OPEN_ROUNDS, JobState, RoundState


@dataclass(frozen=True)
class JobParts:
    """A job with the rows around it that its description needs."""

    job: Job
    model: Model
    target: TargetRow | None
    evaluation: Evaluation | None
    tags: list[str]


def owner_of(session: Session, job_id: str | None) -> str | None:
    """Who owns a job; None for none, and for one that is gone."""
    return None if job_id is None else session.scalar(sa.select(Job.owner).where(Job.id == job_id))


def owned(session: Session, job_ids: Collection[str], owner: str) -> set[str]:
    """Which of the jobs belong to ``owner``."""
    return set(session.scalars(sa.select(Job.id).where(Job.id.in_(job_ids), Job.owner == owner)))


@dataclass(frozen=True)
class JobFilter:
    """Which jobs a list is of; None leaves a member open.

    Attributes:
        seen_by: whose jobs the caller may see.
        text: part of the id, of the job's name or of its model's, in any case.
        target: as submitted, or the resolved target's hash.
    """

    seen_by: str | None = None
    owner: str | None = None
    state: JobState | None = None
    target: str | None = None
    text: str | None = None
    tag: str | None = None
    model: str | None = None

    def ids(self) -> sa.Select[str]:
        """A query of the jobs' ids."""
        query = sa.select(Job.id)
        for owner in (self.seen_by, self.owner):
            if owner is not None:
                query = query.where(Job.owner == owner)
        if self.state is not None:
            query = query.where(Job.state == self.state)
        if self.target is not None:
            query = query.where(sa.or_(Job.target_spec == self.target, Job.target_hash == self.target))
        if self.text:
            names = (Job.id, Job.name, Model.name)
            query = query.join(Model, Job.model_id == Model.id).where(
                sa.or_(*(name.icontains(self.text, autoescape=True) for name in names))
            )
        if self.model is not None:
            variants = sa.select(Model.id).where(sa.or_(Model.id == self.model, Model.variant_of == self.model))
            query = query.where(Job.model_id.in_(variants))
        if self.tag is not None:
            query = query.where(Job.id.in_(sa.select(JobTag.job_id).where(JobTag.tag == self.tag)))
        return query


def page(
    session: Session,
    wanted: JobFilter,
    *,
    sort: str,
    descending: bool,
    after: tuple[Any, str] | None,
    limit: int,
) -> Sequence[str]:
    """Ids of jobs in order of ``sort``, then id.

    Args:
        after: sort value and id of the page's predecessor.
    """
    column: Any = Job.created_at if sort == "created_at" else Job.priority
    query = wanted.ids()
    if after is not None:
        here = sa.tuple_(column, Job.id)
        query = query.where(here < after if descending else here > after)
    order = (column.desc(), Job.id.desc()) if descending else (column, Job.id)
    return session.scalars(query.order_by(*order).limit(limit)).all()


def tags(session: Session, job_ids: Collection[str]) -> dict[str, list[str]]:
    """Tags of jobs that have some, in order, by job."""
    found: dict[str, list[str]] = {}
    query = sa.select(JobTag.job_id, JobTag.tag).where(JobTag.job_id.in_(job_ids)).order_by(JobTag.tag)
    for job, tag in session.execute(query):
        found.setdefault(job, []).append(tag)
    return found


def parts(session: Session, job_ids: Collection[str]) -> dict[str, JobParts]:
    """Jobs with model, target, evaluation and tags, by id."""
    query = (
        sa.select(Job, Model, TargetRow, Evaluation)
        .join(Model, Job.model_id == Model.id)
        .outerjoin(TargetRow, Job.target_hash == TargetRow.hash)
        .outerjoin(Evaluation, Evaluation.job_id == Job.id)
        .where(Job.id.in_(job_ids))
    )
    tagged = tags(session, job_ids)
    return {
        job.id: JobParts(job, model, target, check, tagged.get(job.id, []))
        for job, model, target, check in session.execute(query)
    }


def round_counts(session: Session, job_ids: Collection[str]) -> dict[str, tuple[int, int]]:
    """Rounds ever opened, and those under way, by job."""
    under_way = sa.func.sum(sa.case((Round.state.in_(OPEN_ROUNDS), 1), else_=0))
    query = sa.select(Round.job_id, sa.func.count(), under_way).where(Round.job_id.in_(job_ids))
    return {row[0]: (row[1], int(row[2])) for row in session.execute(query.group_by(Round.job_id))}


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


class RoundStep(NamedTuple):
    """What a finished round did to its task.

    Attributes:
        id: the round's; 0 for what was taken over from another job.
        best: latency of the task's best schedule after it, in seconds.
        finished_at: when the round ended.
        known_at: when its best was found, if it brought one: a slow default schedule is timed after that. Else its end.
        measured: measured candidates, the default schedule among them.
        run_seconds: what measuring them took.
        seconds: what they took in a builder and on the device; 0 where nobody told.
    """

    id: int
    task: int
    best: float | None
    baseline: bool
    finished_at: dt.datetime
    known_at: dt.datetime
    measured: int = 0
    run_seconds: float = 0.0
    seconds: float = 0.0


def count_finished(session: Session, job_id: str) -> int:
    """How many of a job's rounds have finished, those without candidates left out."""
    query = sa.select(sa.func.count()).where(Round.job_id == job_id, Round.state == RoundState.DONE, Round.size > 0)
    return session.scalar(query) or 0


def first_open_round(session: Session, job_id: str) -> int | None:
    """The least id of a job's rounds that are under way; None without any."""
    query = sa.select(sa.func.min(Round.id)).where(Round.job_id == job_id, Round.state.in_(OPEN_ROUNDS))
    return session.scalar(query)


def finished_rounds(session: Session, job_id: str, since: int = 0) -> list[RoundStep]:
    """A job's finished rounds with ids from ``since`` on, in the order in which they finished.

    Rounds without candidates are left out.
    """
    metrics = Round.metrics
    query = sa.select(
        Round.id,
        Round.job_task_id,
        Round.best_after,
        Round.baseline,
        Round.finished_at,
        Round.champion_since,
        *(metrics[name].as_float() for name in ("measured", "run_seconds", "build_seconds", "device_seconds")),
    ).where(Round.job_id == job_id, Round.state == RoundState.DONE, Round.id >= since, Round.size > 0)
    found = session.execute(query.where(Round.finished_at.is_not(None)).order_by(Round.finished_at, Round.id))
    return [
        RoundStep(
            key,
            task,
            best,
            baseline,
            finished,
            found_at or finished,
            int(measured or 0),
            run or 0.0,
            (build or 0.0) + (device or 0.0),
        )
        for key, task, best, baseline, finished, found_at, measured, run, build, device in found
    ]


def adoptions(session: Session, job_id: str) -> list[RoundStep]:
    """What champions of other jobs, taken over while the job ran, did to its tasks: as rounds in which nothing was
    measured, oldest first."""
    query = (
        sa.select(Event)
        .where(Event.job_id == job_id, Event.kind == EventKind.CHAMPION_ADOPTED.value)
        .order_by(Event.id)
    )
    return [
        RoundStep(0, row.data["task"], row.data["seconds"], False, row.created_at, row.created_at)
        for row in session.scalars(query)
    ]


def trials(
    session: Session,
    job_id: str,
    *,
    after: int | None,
    limit: int,
    task: int | None = None,
    failure: str | None = None,
    sort: str = "id",
) -> Sequence[Record]:
    """A job's records that follow the one with the id ``after``.

    Args:
        after: None for the first ones.
        failure: ``none`` for those that ran.
        sort: ``id``, ``-id`` or ``latency``; the last leaves out what has none.
    """
    query = _trials(job_id, task, failure)
    if sort == "latency":
        return session.scalars(_fastest(query, after).limit(limit)).all()
    if after is not None:
        query = query.where(Record.id < after if sort == "-id" else Record.id > after)
    order = Record.id.desc() if sort == "-id" else Record.id
    return session.scalars(query.order_by(order).limit(limit)).all()


def count_trials(
    session: Session, job_id: str, *, task: int | None = None, failure: str | None = None, sort: str = "id"
) -> int | None:
    """How many records :func:`trials` has in all; None where they are too many to count."""
    query = _trials(job_id, task, failure)
    return total(session, query.where(Record.latency.is_not(None)) if sort == "latency" else query)


def _trials(job_id: str, task: int | None, failure: str | None) -> sa.Select[Any]:
    query = sa.select(Record).where(Record.job_id == job_id)
    if task is not None:
        query = query.where(Record.job_task_id == task)
    if failure is not None:
        query = query.where(Record.failure.is_(None) if failure == "none" else Record.failure == failure)
    return query


def _fastest(query: sa.Select[Any], after: int | None) -> sa.Select[Any]:
    """The fastest first; the id decides between equals."""
    query = query.where(Record.latency.is_not(None))
    if after is not None:
        last = sa.select(Record.latency).where(Record.id == after).scalar_subquery()
        query = query.where(sa.or_(Record.latency > last, sa.and_(Record.latency == last, Record.id > after)))
    return query.order_by(Record.latency, Record.id)
