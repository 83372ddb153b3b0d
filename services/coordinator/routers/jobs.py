"""Jobs: submit, list, show, steer, delete."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Response

from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.cursors import Limit, PlaceCursor
from services.coordinator.requests import JobChange, JobRequest
from services.coordinator.usecases import jobs, submit
from tunesmith.answers.base import Page
from tunesmith.answers.jobs import JobBody
from tunesmith.states import JobState

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.post("", status_code=202)
def submit_job(
    request: JobRequest,
    response: Response,
    context: InContext,
    caller: InCaller,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> JobBody:
    """Submit a job. The same Idempotency-Key with the same body, within a day, answers with the same job."""
    body, _ = submit.submit(context, caller, request, idempotency_key)
    response.headers["Location"] = f"/v1/jobs/{body.id}"
    return body


@router.get("")
def list_jobs(
    context: InContext,
    caller: InCaller,
    state: JobState | None = None,
    target: Annotated[str | None, Query(description="As submitted, or the resolved target's hash.")] = None,
    sort: Annotated[
        Literal["created_at", "-created_at", "priority", "-priority"], Query(description="A minus sign for descending.")
    ] = "-created_at",
    limit: Limit = 50,
    cursor: PlaceCursor = None,
) -> Page[JobBody]:
    """Jobs, newest first unless asked otherwise."""
    return jobs.page(context, caller, state=state, target=target, sort=sort, limit=limit, cursor=cursor)


@router.get("/{job_id}")
def show_job(context: InContext, caller: InCaller, job_id: str) -> JobBody:
    """One job."""
    return jobs.show(context, caller, job_id)


@router.post("/{job_id}/cancel")
def cancel_job(context: InContext, caller: InCaller, job_id: str) -> JobBody:
    """Cancel a job; its measurements are kept."""
    return jobs.cancel(context, caller, job_id)


@router.post("/{job_id}/pause")
def pause_job(context: InContext, caller: InCaller, job_id: str) -> JobBody:
    """Open no further rounds."""
    return jobs.pause(context, caller, job_id)


@router.post("/{job_id}/resume")
def resume_job(context: InContext, caller: InCaller, job_id: str) -> JobBody:
    """Resume a paused job."""
    return jobs.resume(context, caller, job_id)


@router.patch("/{job_id}")
def change_job(request: JobChange, context: InContext, caller: InCaller, job_id: str) -> JobBody:
    """Change priority, budget or name."""
    return jobs.change(context, caller, job_id, request)


@router.delete("/{job_id}", status_code=204)
def delete_job(context: InContext, caller: InCaller, job_id: str) -> None:
    """Delete a finished job. Its records stay in the dataset."""
    jobs.delete(context, caller, job_id)
