"""Jobs: list, show, steer, delete. Functions that a route calls without more are routes themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from sqlalchemy.orm import Session

from db import clock
from db.models import Job, JobTask
from db.queries import by_key, jobs
from db.queries.jobs import JobFilter
from db.queries.totals import total
from db.transactions import budget_clock, job_requests
from db.transactions.locks import lock_job
from db.transactions.transitions import transition
from services.coordinator.auth import Caller, InCaller
from services.coordinator.context import Context, InContext
from services.coordinator.cursors import Limit, PlaceCursor, decode_place, decode_time, encode_place
from services.coordinator.requests import JobChange
from services.coordinator.usecases.describe import describe
from tunesmith.answers.base import Page
from tunesmith.answers.jobs import JobBody
from tunesmith.budget import check_budget
from tunesmith.errors import Conflict, InvalidInput, NotFound
from tunesmith.job_tags import checked_tags
from tunesmith.options import MAX_PRIORITY, MIN_PRIORITY
from tunesmith.states import JobState, can_move, is_final


def visible(session: Session, caller: Caller, job_id: str, *, lock: bool = False) -> Job:
    """The job's row, locked to change it. Raises NotFound, also for what the caller may not see."""
    job = lock_job(session, job_id) if lock else by_key.get(session, Job, job_id)
    if job is None or not caller.sees(job.owner):
        raise NotFound(f"there is no job {job_id}", field="job_id", value=job_id)
    return job


def visible_task(session: Session, caller: Caller, job_id: str, task_id: int) -> JobTask:
    """A task of a job that the caller may see. Raises NotFound."""
    visible(session, caller, job_id)
    task = by_key.get(session, JobTask, task_id)
    if task is None or task.job_id != job_id:
        raise NotFound(f"job {job_id} has no task {task_id}", field="task_id", value=task_id)
    return task


def show(context: InContext, caller: InCaller, job_id: str) -> JobBody:
    """One job. Raises NotFound."""
    with context.reading() as session:
        return _read(context, session, [visible(session, caller, job_id).id])[0]


def page(
    context: InContext,
    caller: InCaller,
    state: JobState | None = None,
    target: Annotated[str | None, Query(description="As submitted, or the resolved target's hash.")] = None,
    q: Annotated[
        str | None, Query(max_length=200, description="Part of the id, the name or the model's name, in any case.")
    ] = None,
    tag: Annotated[str | None, Query(max_length=200, description="A tag that they have.")] = None,
    model: Annotated[str | None, Query(max_length=40, description="Id of the model that they tune.")] = None,
    owner: Annotated[
        str | None, Query(max_length=100, description="Whose they are; for operators, who see those of others.")
    ] = None,
    sort: Annotated[
        Literal["created_at", "-created_at", "priority", "-priority"], Query(description="A minus sign for descending.")
    ] = "-created_at",
    limit: Limit = 50,
    cursor: PlaceCursor = None,
) -> Page[JobBody]:
    """Jobs in order of ``sort``: ``created_at`` or ``priority``, descending after a minus sign."""
    column, descending = sort.removeprefix("-"), sort.startswith("-")
    after: tuple[Any, str] | None = decode_time(cursor) if column == "created_at" else _after_priority(cursor)
    wanted = JobFilter(seen_by=caller.filter, owner=owner, state=state, target=target, text=q, tag=tag, model=model)
    with context.reading() as session:
        ids = jobs.page(session, wanted, sort=column, descending=descending, after=after, limit=limit + 1)
        more = None
        if len(ids) > limit:
            last = by_key.get(session, Job, ids[limit - 1])
            assert last is not None
            place = last.created_at if column == "created_at" else last.priority - MIN_PRIORITY
            more = encode_place(place, last.id)
        items = _read(context, session, ids[:limit])
        return Page(items=items, next_cursor=more, total=total(session, wanted.ids()))


def _after_priority(cursor: str | None) -> tuple[int, str] | None:
    at = decode_place(cursor)
    return None if at is None else (min(at[0], MAX_PRIORITY - MIN_PRIORITY + 1) + MIN_PRIORITY, at[1])


def cancel(context: InContext, caller: InCaller, job_id: str) -> JobBody:
    """Cancel; a job that is over already stays as it is. Raises NotFound."""

    def work(session: Session) -> JobBody:
        job = visible(session, caller, job_id, lock=True)
        if not is_final(job.state) and job.state is not JobState.CANCELLING:
            if can_move(job.state, JobState.CANCELLING):
                transition(session, job, JobState.CANCELLING, stop_reason="cancelled")
            else:
                transition(session, job, JobState.CANCELLED, stop_reason="cancelled", finished_at=clock.now(session))
        elif job.state in (JobState.SUCCEEDED, JobState.FAILED):
            raise Conflict(f"the job has {job.state.value} already", state=job.state.value)
        return _one(context, session, job)

    return context.write(work)


def pause(context: InContext, caller: InCaller, job_id: str) -> JobBody:
    """Open no more rounds; those under way end. Raises NotFound, IllegalTransition."""

    def work(session: Session) -> JobBody:
        job = visible(session, caller, job_id, lock=True)
        if job.state is not JobState.PAUSED:
            transition(session, job, JobState.PAUSED)
            budget_clock.set_clock(session, job, True, clock.now(session))
        return _one(context, session, job)

    return context.write(work)


def resume(context: InContext, caller: InCaller, job_id: str) -> JobBody:
    """Resume a paused job. Raises NotFound, Conflict."""

    def work(session: Session) -> JobBody:
        job = visible(session, caller, job_id, lock=True)
        if job.state is not JobState.PAUSED:
            if is_final(job.state) or job.state is JobState.CANCELLING:
                raise Conflict(f"the job is {job.state.value} and cannot be resumed", state=job.state.value)
            return _one(context, session, job)
        transition(session, job, JobState.QUEUED if job.started_at is None else JobState.RUNNING)
        budget_clock.set_clock(session, job, False, clock.now(session))
        return _one(context, session, job)

    return context.write(work)


def change(context: InContext, caller: InCaller, job_id: str, request: JobChange) -> JobBody:
    """Change name, tags or comment; of a job that is under way priority and budget, too.

    Raises:
        InvalidInput: or InvalidBudget, naming the field.
        NotFound: no such job.
        Conflict: it is too late for what is to be changed.
    """
    if request.budget is not None:
        check_budget(request.budget.trials, request.budget.seconds, least=1)
    tags = None if request.tags is None else checked_tags(request.tags)
    late = [name for name in ("priority", "budget") if getattr(request, name) is not None]

    def work(session: Session) -> JobBody:
        job = visible(session, caller, job_id, lock=True)
        if late and (is_final(job.state) or job.state in (JobState.FINISHING, JobState.CANCELLING)):
            raise Conflict(
                f"the job is {job.state.value}, too late for another {late[0]}: name, tags and comment can be changed",
                state=job.state.value,
            )
        job_requests.change(session, job, _changes(job, request), tags)
        return _one(context, session, job)

    return context.write(work)


def _changes(job: Job, request: JobChange) -> dict[str, Any]:
    """New values by column."""
    values: dict[str, Any] = request.model_dump(exclude={"budget", "tags"}, exclude_none=True)
    if request.budget is not None:
        given = request.budget.model_dump(exclude_unset=True)
        names = {"trials": "budget_trials", "seconds": "budget_seconds", "stop_when_converged": "stop_when_converged"}
        values |= {names[key]: value for key, value in given.items()}
    if values.get("stop_when_converged", False) is None:
        del values["stop_when_converged"]
    trials = values.get("budget_trials", job.budget_trials)
    unlimited = trials is None and values.get("budget_seconds", job.budget_seconds) is None
    if request.budget is not None and unlimited and job.collecting is None:
        raise InvalidInput("a budget needs trials or seconds", field="budget")
    return values


def delete(context: InContext, caller: InCaller, job_id: str) -> None:
    """Remove a job that is over; its records stay in the dataset. Raises NotFound, Conflict."""

    def work(session: Session) -> None:
        job = visible(session, caller, job_id, lock=True)
        if not is_final(job.state):
            raise Conflict(f"the job is {job.state.value}, cancel it first", state=job.state.value)
        job_requests.delete(session, job)

    context.write(work)


def _read(context: Context, session: Session, job_ids: Sequence[str]) -> list[JobBody]:
    """Jobs in the order of ``job_ids``, in a session that only reads."""

    def find(missing: list[str]) -> dict[str, JobBody]:
        return {body.id: body for body in describe(session, missing, context.settings.device_timeout)}

    found = context.ended.bodies.of(session, job_ids, find)
    return [found[key] for key in job_ids if key in found]


def _one(context: Context, session: Session, job: Job) -> JobBody:
    return describe(session, [job.id], context.settings.device_timeout)[0]
