"""What happened inside a job."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.curve import MAX_POINTS
from services.coordinator.schemas.common import MAX_ID, MAX_LIMIT, Cursor, Limit, Page, PairCursor
from services.coordinator.schemas.jobs import (
    CurveBody,
    DecisionBody,
    FamilyBody,
    ForecastBody,
    RoundBody,
    TaskBody,
    TrialBody,
)
from services.coordinator.usecases import curve, forecast, progress

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"])


@router.get("/tasks")
def job_tasks(
    context: InContext, caller: InCaller, job_id: str, limit: Limit = MAX_LIMIT, cursor: PairCursor = None
) -> Page[TaskBody]:
    """Tasks in the model's order: where the budget went and what it found."""
    return progress.tasks(context, caller, job_id, limit, cursor)


@router.get("/families")
def job_families(context: InContext, caller: InCaller, job_id: str) -> Page[FamilyBody]:
    """Tasks of similar computation, summed up."""
    return progress.families(context, caller, job_id)


@router.get("/curve")
def job_curve(
    context: InContext, caller: InCaller, job_id: str, points: Annotated[int, Query(ge=2, le=2000)] = MAX_POINTS
) -> CurveBody:
    """Best-so-far latency of the model against trials, wall time and device time, down-sampled."""
    return curve.curve(context, caller, job_id, points)


@router.get("/forecast")
def job_forecast(context: InContext, caller: InCaller, job_id: str) -> ForecastBody:
    """Time left, and the latency that the model is expected to have by then, with an interval."""
    return forecast.forecast(context, caller, job_id)


@router.get("/rounds")
def job_rounds(
    context: InContext, caller: InCaller, job_id: str, limit: Limit = 50, cursor: Cursor = None
) -> Page[RoundBody]:
    """Rounds, oldest first."""
    return progress.rounds(context, caller, job_id, limit, cursor)


@router.get("/trials")
def job_trials(
    context: InContext,
    caller: InCaller,
    job_id: str,
    task: Annotated[int | None, Query(ge=0, le=MAX_ID, description="A task's id.")] = None,
    failure: Annotated[str | None, Query(max_length=30, description="A failure kind, or `none`.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[TrialBody]:
    """Measured candidates, oldest first."""
    return progress.trials(context, caller, job_id, task=task, failure=failure, limit=limit, cursor=cursor)


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
    return progress.decisions(context, caller, job_id, newest_first=sort.startswith("-"), limit=limit, cursor=cursor)
