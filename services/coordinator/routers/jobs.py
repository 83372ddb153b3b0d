"""Jobs: submit, list, show, steer, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response

from services.coordinator.answer_headers import LOCATION
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.requests import JobRequest
from services.coordinator.usecases import jobs, submit
from tunesmith.answers.jobs import JobBody

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.post("", status_code=202, responses={202: {"headers": LOCATION}})
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


_JOB = "/{job_id}"
_CHANGED = "Change name, tags or comment; of a job that is under way priority and budget, too."
router.get("", name="list_jobs", description="Jobs, newest first unless asked otherwise.")(jobs.page)
router.get(_JOB, name="show_job", description="One job.")(jobs.show)
router.post(f"{_JOB}/cancel", name="cancel_job", description="Cancel a job; its measurements are kept.")(jobs.cancel)
router.post(f"{_JOB}/pause", name="pause_job", description="Open no further rounds.")(jobs.pause)
router.post(f"{_JOB}/resume", name="resume_job", description="Resume a paused job.")(jobs.resume)
router.patch(_JOB, name="change_job", description=_CHANGED)(jobs.change)
_DELETED = "Delete a finished job. Its records stay in the dataset."
router.delete(_JOB, status_code=204, name="delete_job", description=_DELETED)(jobs.delete)
