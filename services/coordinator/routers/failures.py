"""Failed candidates of a job, by class."""

from __future__ import annotations

from fastapi import APIRouter

from db.queries import failures
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.usecases.jobs import visible
from tunesmith.answers.base import Page
from tunesmith.answers.jobs import FailureBody

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"])


@router.get("/failures")
def job_failures(context: InContext, caller: InCaller, job_id: str) -> Page[FailureBody]:
    """How many candidates failed, by class, most frequent first."""
    with context.reading() as session:
        visible(session, caller, job_id)
        found = failures.by_class(session, job_id)
        said = failures.messages(session, [last for _, _, last in found])
    return Page(items=[FailureBody(failure=f, count=n, message=said.get(last, "")) for f, n, last in found])
