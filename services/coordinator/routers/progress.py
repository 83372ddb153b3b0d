"""What happened inside a job."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from db.models import JobTask, Record, Round, WorkloadRow
from db.queries import champions as champion_rows
from db.queries import cost_models, jobs, sums
from db.queries import tasks as task_rows
from db.queries.task_columns import TaskColumns, columns
from services.coordinator import intervals, verified
from services.coordinator.auth import Caller, InCaller
from services.coordinator.context import Context, InContext
from services.coordinator.cursors import (
    MAX_ID,
    MAX_LIMIT,
    Cursor,
    Limit,
    PairCursor,
    decode_number,
    decode_place,
    encode_place,
)
from services.coordinator.usecases import curve, forecast, roofline, trials
from services.coordinator.usecases.jobs import visible
from tunesmith.answers.base import Page
from tunesmith.answers.jobs import DecisionBody, FailureBody, FamilyBody, RoundBody, TaskBody, TrialBody, UnmeasuredBody

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"])


@router.get("/tasks")
def job_tasks(
    context: InContext,
    caller: InCaller,
    job_id: str,
    q: Annotated[str | None, Query(max_length=200, description="Part of the name, in any case.")] = None,
    sort: Annotated[
        Literal["position", "-share"],
        Query(
            description="In the model's order, or the largest share of its latency first. "
            "Shares change while a job is under way, and a task may change its page with them."
        ),
    ] = "position",
    limit: Limit = MAX_LIMIT,
    cursor: PairCursor = None,
) -> Page[TaskBody]:
    """Tasks, in the model's order unless asked otherwise: where the budget went and what it found."""
    at = decode_place(cursor)
    after = None if at is None else (at[0], decode_number(at[1], 0))
    with context.reading() as session:
        visible(session, caller, job_id)
        every = context.ended.tasks.of(session, [job_id], lambda _: dict(columns(session, [job_id]))).get(job_id)
        start = after[0] if after is not None and sort == "-share" else 0
        if sort == "-share":
            among = task_rows.named(session, job_id, q) if q else None
            found = task_rows.of_ids(session, _by_share(every, among)[start : start + limit + 1])
        else:
            found = task_rows.tasks(session, job_id, after=after, text=q, limit=limit + 1)
        page = [task for task, _, _ in found[:limit]]
        totals = _Totals.of(every, page)
        tuned = {task.id for task in page if totals.is_tuned(task)}
        around = _TaskContext.read(session, job_id, tuned, {task.id for task in page} - tuned)
    more = None
    if len(found) > limit:
        more = encode_place(start + limit if sort == "-share" else page[-1].position, str(page[-1].id))
    return Page(items=[_task(row, totals, around) for row in found[:limit]], next_cursor=more)


def _by_share(tasks: TaskColumns | None, among: Collection[int] | None) -> list[int]:
    """Ids of tasks, all or those ``among`` which they are, with the largest part of the model's latency first."""
    if tasks is None:
        return []
    cost = np.where(tasks.in_use, np.nan_to_num(tasks.weight * tasks.current), 0.0)
    ids: list[int] = tasks.ids[np.lexsort((tasks.ids, -cost))].tolist()
    return ids if among is None else [key for key in ids if key in among]


@router.get("/families")
def job_families(context: InContext, caller: InCaller, job_id: str) -> Page[FamilyBody]:
    """Tasks of similar computation, summed up."""
    with context.reading() as session:
        visible(session, caller, job_id)
        found = sums.families(session, job_id)
    trials = sum(family.trials for family in found)
    return Page(
        items=[
            FamilyBody.of(
                family,
                untuned_latency=family.untuned,
                best_latency=family.best,
                budget_share=family.trials / trials if trials else 0.0,
            )
            for family in found
        ]
    )


_CURVE = "Best-so-far latency of the model against trials, wall time and device time, down-sampled."
_FORECAST = "Time left, and the latency that the model is expected to have by then, with an interval."
router.get("/curve", name="job_curve", description=_CURVE)(curve.curve)
router.get("/forecast", name="job_forecast", description=_FORECAST)(forecast.forecast)
_ROOFLINE = "How fast the model can run at best: the roofline bound of its tasks, by the device's calibration."
router.get("/roofline", name="job_roofline", description=_ROOFLINE)(roofline.roofline)


@router.get("/rounds")
def job_rounds(
    context: InContext, caller: InCaller, job_id: str, limit: Limit = 50, cursor: Cursor = None
) -> Page[RoundBody]:
    """Rounds, oldest first."""
    found, more = _rounds(context, caller, job_id, limit, cursor)
    models = _visible_models(context, caller, {row.cost_model_id for row, _, _ in found if row.cost_model_id})
    items = [
        RoundBody.of(
            row,
            task=row.job_task_id,
            task_name=name,
            cost_model_id=row.cost_model_id if row.cost_model_id in models else None,
        )
        for row, name, _ in found
    ]
    return Page(items=items, next_cursor=more)


@router.get("/trials")
def job_trials(
    context: InContext,
    caller: InCaller,
    job_id: str,
    task: Annotated[int | None, Query(ge=0, le=MAX_ID, description="A task's id.")] = None,
    failure: Annotated[str | None, Query(max_length=30, description="A failure kind, or `none`.")] = None,
    sort: Annotated[
        Literal["id", "-id", "latency"],
        Query(description="Oldest first, newest first, or the fastest first, which leaves out failures."),
    ] = "id",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[TrialBody]:
    """Measured candidates, oldest first unless asked otherwise."""
    after = None if cursor is None else decode_number(cursor, 0)
    with context.reading() as session:
        visible(session, caller, job_id)
        found = jobs.trials(session, job_id, after=after, limit=limit + 1, task=task, failure=failure, sort=sort)
        names = task_rows.names(session, {row.job_task_id for row in found if row.job_task_id is not None})
        total = jobs.count_trials(session, job_id, task=task, failure=failure, sort=sort)
    items = [
        TrialBody.of(row, **trials.renamed(row), task_name=names.get(row.job_task_id or 0, "")) for row in found[:limit]
    ]
    more = str(found[limit - 1].id) if len(found) > limit else None
    return Page(items=items, next_cursor=more, total=total)


@router.get("/decisions")
def job_decisions(
    context: InContext,
    caller: InCaller,
    job_id: str,
    sort: Annotated[Literal["number", "-number"], Query(description="A minus sign for the newest first.")] = "number",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[DecisionBody]:
    """Why the allocator chose each round, what it expected, and what the round gained."""
    found, more = _rounds(context, caller, job_id, limit, cursor, sort.startswith("-"))
    items = [
        DecisionBody(
            round=row.number,
            task=row.job_task_id,
            task_name=name,
            reason=str((row.reason or {}).get("reason", "")),
            scores={key: _finite(value) for key, value in (row.reason or {}).get("scores", {}).items()},
            expected=_finite((row.reason or {}).get("gain")),
            saved=_saved(row, weight),
            created_at=row.created_at,
        )
        for row, name, weight in found
    ]
    return Page(items=items, next_cursor=more)


@router.get("/failures")
def job_failures(context: InContext, caller: InCaller, job_id: str) -> Page[FailureBody]:
    """How many candidates failed, by class, most frequent first."""
    with context.reading() as session:
        visible(session, caller, job_id)
        return Page(items=trials.failures_of(session, job_id))


@dataclass(frozen=True)
class _Totals:
    """Some of a job's tasks: latency of each in seconds, and which of them the model runs. Of the whole job: seconds of
    the model as things stand, and trials."""

    current: dict[int, float | None]
    used: set[int]
    seconds: float
    trials: int

    @classmethod
    def of(cls, tasks: TaskColumns | None, page: Sequence[JobTask]) -> _Totals:
        """For the tasks of a page, of all of a job's; None without any."""
        if tasks is None:
            return cls({}, set(), 0.0, 0)
        some = np.isin(tasks.ids, [task.id for task in page])
        ids, latencies = tasks.ids[some].tolist(), tasks.current[some].tolist()
        return cls(
            {key: None if math.isnan(seconds) else seconds for key, seconds in zip(ids, latencies, strict=True)},
            set(tasks.ids[some & tasks.in_use].tolist()),
            sums.latency(tasks) or 0.0,
            int(tasks.trials.sum()),
        )

    def is_tuned(self, task: JobTask) -> bool:
        """Whether the task is as fast as its best schedule, not its default one."""
        best = self.current[task.id]
        return best is not None and best == task.best_seconds

    def share(self, task: JobTask) -> float | None:
        """The part of the model's latency that is a task's; None where there is none, or it is not in use."""
        best = self.current[task.id] if task.id in self.used else None
        return task.weight * best / self.seconds if best and self.seconds else None


@dataclass(frozen=True)
class _TaskContext:
    """What stands around the tasks of a page, by task: the allocator's scores at its latest choice, and records.

    ``replaced``: workloads whose alternatives have an answer of a job that measures nothing.
    """

    belief: dict[str, dict[str, float | None]]
    champions: dict[int, Record]
    baselines: dict[int, Record]
    replaced: set[str]

    @classmethod
    def read(cls, session: Session, job_id: str, tuned: Collection[int], others: Collection[int]) -> _TaskContext:
        """A fixed number of queries: champions' records of tuned tasks, default schedules' of others."""
        return cls(
            _belief(session, job_id),
            champion_rows.records_of_tasks(session, job_id, tuned),
            task_rows.baselines(session, job_id, others),
            task_rows.replaced_unmeasured(session, job_id),
        )


def _belief(session: Session, job_id: str) -> dict[str, dict[str, float | None]]:
    """The allocator's scores at its latest choice, and how unsure it was of each, by task."""
    latest = jobs.rounds(session, job_id, limit=1, descending=True)
    reason: dict[str, Any] = (latest[0][0].reason or {}) if latest else {}
    unsure = reason.get("deviations", {})
    return {
        task: {"expected_gain": _finite(score), "uncertainty": _finite(unsure.get(task))}
        for task, score in reason.get("scores", {}).items()
    }


def _task(row: tuple[JobTask, WorkloadRow, str | None], totals: _Totals, around: _TaskContext) -> TaskBody:
    task, workload, family = row
    best = totals.current[task.id]
    tuned = totals.is_tuned(task)
    record = (around.champions if tuned else around.baselines).get(task.id)
    return TaskBody.of(
        task,
        workload=task.workload_hash,
        family=family or workload.family,
        in_use=_in_use(task, totals, around),
        flops=workload.flops,
        known_latency=task.known_seconds,
        rough_latency=task.rough_seconds,
        untuned_latency=task.untuned_seconds,
        best_latency=best,
        best_interval=intervals.around(best, record) if best is not None and record is not None else None,
        speedup=task.untuned_seconds / best if task.untuned_seconds and best else None,
        gflops=workload.flops / best / 1e9 if best and workload.flops else None,
        share=totals.share(task),
        budget_share=task.trials / totals.trials if totals.trials else 0.0,
        belief=around.belief.get(str(task.id)),
        verified=verified.of_schedule(record.confirmation) if tuned and record is not None else None,
        answer=UnmeasuredBody.read(task.answer) if task.answer is not None else None,
    )


def _in_use(task: JobTask, totals: _Totals, around: _TaskContext) -> bool:
    """Whether the model runs it: an alternative that has an answer replaces its direct task."""
    answered = task.alternative_of is not None and task.answer is not None
    return answered or (task.id in totals.used and task.workload_hash not in around.replaced)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _visible_models(context: Context, caller: Caller, found: set[str]) -> set[str]:
    """Cost models that the caller may see: a first round may use one that another user's job left."""
    if caller.filter is None or not found:
        return found
    with context.reading() as session:
        return cost_models.owned(session, found, caller.filter)


def _saved(row: Round, weight: int) -> float | None:
    """Seconds of the model's latency that a round brought; None before its end, and of a task's first latency."""
    if row.best_before is None or row.best_after is None:
        return None
    return weight * max(0.0, row.best_before - row.best_after)


def _rounds(
    context: Context, caller: Caller, job_id: str, limit: int, cursor: str | None, descending: bool = False
) -> tuple[list[Any], str | None]:
    after = decode_number(cursor, 0)
    with context.reading() as session:
        visible(session, caller, job_id)
        found = list(jobs.rounds(session, job_id, after=after, limit=limit + 1, descending=descending))
    return found[:limit], str(found[limit - 1][0].number) if len(found) > limit else None
