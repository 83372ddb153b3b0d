"""Candidates that people, scripts and agents propose for a task, next to its searcher's."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from db.queries import proposals as rows
from services.coordinator.answer_headers import RETRY_AFTER
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.cursors import MAX_ID, Cursor, Limit, decode_number
from services.coordinator.usecases import proposals
from services.coordinator.usecases.jobs import visible_task
from tunesmith.answers.base import Page
from tunesmith.answers.proposals import ProposalBody, ProposalRequest, TaskCurvesBody

router = APIRouter(prefix="/v1/jobs/{job_id}/tasks/{task_id}", tags=["jobs"])
TaskId = Annotated[int, Path(ge=0, le=MAX_ID, description="A task's id.")]


@router.post("/proposals", name="propose", status_code=202, responses={202: {"headers": RETRY_AFTER}})
def propose(
    context: InContext, caller: InCaller, response: Response, job_id: str, task_id: TaskId, request: ProposalRequest
) -> Page[ProposalBody]:
    """Propose candidates, 64 at most, by the names of knobs that `space` has.

    Everything that needs no compiler is refused here, by name, and then nothing is taken in. A worker says within
    moments which of the others are valid and what is expected of them; valid ones are measured in the next batches of
    the task, in the part of them that the job's `proposal_share` leaves them.
    """
    found = proposals.propose(context, caller, job_id, task_id, request)
    response.headers["Retry-After"] = "1"
    return Page(items=found, total=len(found))


@router.get("/proposals", name="list_proposals")
def list_proposals(
    context: InContext, caller: InCaller, job_id: str, task_id: TaskId, limit: Limit = 50, cursor: Cursor = None
) -> Page[ProposalBody]:
    """What was proposed for a task, oldest first: state, estimate, and latency once it was measured."""
    after = decode_number(cursor, 0)
    with context.reading() as session:
        visible_task(session, caller, job_id, task_id)
        found = rows.page(session, task_id, after=after, limit=limit + 1)
        items = proposals.described_rows(session, found[:limit])
        total = rows.count(session, task_id)
    return Page(items=items, next_cursor=str(items[-1].id) if len(found) > limit else None, total=total)


@router.get("/curve", name="task_curve")
def curve(context: InContext, caller: InCaller, job_id: str, task_id: TaskId) -> TaskCurvesBody:
    """What the task's searcher reached, and what those who proposed candidates did, each by their own trials."""
    return proposals.curves(context, caller, job_id, task_id)
