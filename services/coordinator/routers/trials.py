"""One trial: its knobs by name, what was expected of it, and its program as text."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from sqlalchemy.orm import Session

from db.models import Listing
from db.queries import listings
from db.queries.listings import TrialParts
from db.transactions import listings as requests
from services.coordinator.answer_headers import RETRY_AFTER
from services.coordinator.auth import Caller, InCaller
from services.coordinator.context import Context, InContext
from services.coordinator.cursors import MAX_ID
from services.coordinator.usecases.jobs import visible
from services.coordinator.usecases.trials import renamed
from tunesmith.answers.trials import KnobBody, ProgramBody, TrialDetailBody
from tunesmith.errors import NotFound
from tunesmith.space.knob_names import described
from tunesmith.states import WorkState

router = APIRouter(prefix="/v1/jobs/{job_id}/trials/{trial_id}", tags=["jobs"])
TrialId = Annotated[int, Path(ge=0, le=MAX_ID, description="A trial's id.")]


@router.get("", name="show_trial")
def show(context: InContext, caller: InCaller, job_id: str, trial_id: TrialId) -> TrialDetailBody:
    """One measured candidate: its knobs by name, its place in its batch, and the task that it is of."""
    with context.reading() as session:
        parts = _trial(session, caller, job_id, trial_id)
        ran = listings.latencies_of_batch(session, parts.batch.id) if parts.batch is not None else {}
    return _detail(parts, ran)


@router.post(
    "/program",
    status_code=202,
    name="request_program",
    responses={200: {"model": ProgramBody, "description": "It is there"}, 202: {"headers": RETRY_AFTER}},
)
def request_program(
    context: InContext, caller: InCaller, response: Response, job_id: str, trial_id: TrialId
) -> ProgramBody:
    """Have a worker write the trial's program as text; 200 once it is there. Asking again costs nothing."""

    def work(session: Session) -> ProgramBody:
        _trial(session, caller, job_id, trial_id)
        return _program(context, requests.request(session, trial_id))

    body = context.write(work)
    if body.state is WorkState.DONE:
        response.status_code = 200
    else:
        response.headers["Retry-After"] = "1"
    return body


@router.get("/program", name="show_program")
def show_program(context: InContext, caller: InCaller, job_id: str, trial_id: TrialId) -> ProgramBody:
    """The trial's program in TVMScript, once it was asked for by POST and a worker wrote it."""
    with context.reading() as session:
        _trial(session, caller, job_id, trial_id)
        found = listings.of_record(session, trial_id)
        if found is None:
            detail = f"nobody asked for the program of trial {trial_id} yet: POST to this address"
            raise NotFound(detail, field="trial_id", value=trial_id)
        return _program(context, found)


def _trial(session: Session, caller: Caller, job_id: str, trial_id: int) -> TrialParts:
    visible(session, caller, job_id)
    found = listings.trial(session, job_id, trial_id)
    if found is None:
        raise NotFound(f"job {job_id} has no trial {trial_id}", field="trial_id", value=trial_id)
    return found


def _program(context: Context, row: Listing) -> ProgramBody:
    text = json.loads(context.blobs.get_bytes(row.blob)) if row.blob is not None else {}
    return ProgramBody.of(row, plain=text.get("plain"), scheduled=text.get("scheduled"))


def _detail(parts: TrialParts, ran: dict[int, float]) -> TrialDetailBody:
    row, task = parts.record, parts.task
    trace = parts.sketch.body["trace"] if parts.sketch is not None else []
    expected = (parts.batch.predictions or []) if parts.batch is not None else []
    apart = (parts.batch.deviations or []) if parts.batch is not None else []
    return TrialDetailBody.of(
        row,
        **renamed(row),
        knobs=[KnobBody(**knob) for knob in described(trace, row.decisions)],
        task_name=task.name if task is not None else "",
        untuned_latency=task.untuned_seconds if task is not None else None,
        best_latency=task.best_seconds if task is not None else None,
        gflops=parts.flops / row.latency / 1e9 if row.latency and parts.flops else None,
        batch_size=len(parts.batch.candidates) if parts.batch is not None else 0,
        predicted_place=_place({i: -score for i, score in enumerate(expected) if score is not None}, row.index),
        predicted_score=_at(expected, row.index),
        uncertainty=_at(apart, row.index),
        measured_place=_place(ran, row.index),
    )


def _at(values: list[float | None], index: int) -> float | None:
    return values[index] if index < len(values) else None


def _place(costs: dict[int, Any], index: int) -> int | None:
    """Where one stands among all, from 1, the lowest cost first; None where it has none."""
    return 1 + sum(cost < costs[index] for cost in costs.values()) if index in costs else None
