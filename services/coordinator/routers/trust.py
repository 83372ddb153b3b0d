"""Who is believed: enrolment of measure workers, and revocation of workers and champions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from sqlalchemy.orm import Session

from db.models import EnrolledWorker
from db.queries import by_key, champions, enrolled_workers
from db.transactions import enrolment, revocations
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.requests import EnrolRequest, RevokeRequest
from tunesmith import signing
from tunesmith.answers.base import Page
from tunesmith.answers.fleet import EnrolledBody, RevokedBody
from tunesmith.errors import NotFound

router = APIRouter(prefix="/v1", tags=["trust"])


@router.post("/workers", status_code=201, responses={200: {"model": EnrolledBody, "description": "It was enrolled."}})
def enrol_worker(request: EnrolRequest, context: InContext, caller: InCaller, response: Response) -> EnrolledBody:
    """Enrol a measure worker by its public key; the same key gives the same worker."""
    identity = signing.worker_id(request.public_key)

    def work(session: Session) -> tuple[EnrolledBody, bool]:
        row, fresh = enrolment.enrol(
            session, identity, request.public_key, request.name, request.device_classes, caller.owner
        )
        return EnrolledBody.of(row), fresh

    body, fresh = context.write(work)
    response.status_code = 201 if fresh else 200
    return body


@router.get("/workers/enrolled")
def list_enrolled(context: InContext, _: InCaller) -> Page[EnrolledBody]:
    """Every enrolled worker, including revoked ones."""
    with context.reading() as session:
        return Page(items=[EnrolledBody.of(row) for row in enrolled_workers.everyone(session)])


@router.delete("/workers/enrolled/{worker_id}")
def revoke_worker(
    context: InContext,
    caller: InCaller,
    worker_id: Annotated[str, Path(max_length=100)],
    results: Annotated[bool, Query(description="Believe nothing that it ever reported, either.")] = False,
) -> RevokedBody:
    """Revoke a worker; with ``results``, also everything it reported."""

    def work(session: Session) -> RevokedBody:
        row = enrolment.revoke(session, worker_id, caller.owner)
        if not results:
            return RevokedBody(records=0, champions=0, tasks=0)
        why = f"the key of worker {row.name} was revoked"
        return RevokedBody(**asdict(revocations.revoke_worker(session, worker_id, why)))

    return context.write(work)


@router.post("/workloads/{workload}/revoke")
def revoke_champion(
    context: InContext, caller: InCaller, workload: Annotated[str, Path(max_length=100)], request: RevokeRequest
) -> RevokedBody:
    """Revoke the champion of a workload on a target, and everything derived from it."""

    def work(session: Session) -> RevokedBody:
        found = [
            schedule.record_id
            for schedule, row, _, _ in champions.measured(session, workload)
            if request.target in (row.hash, row.device_class, row.json.get("tag"))
        ]
        if not found:
            raise NotFound(
                f"no schedule of workload {workload} is known on {request.target}", field="hash", value=workload
            )
        why = request.reason or f"revoked by {caller.owner}"
        return RevokedBody(**asdict(revocations.revoke_records(session, found, why)))

    return context.write(work)


def enrol_known(session: Session, public_keys: Iterable[str]) -> None:
    """Let in the workers that the settings name, unless they were revoked. Raises InvalidInput for no key."""
    for key in public_keys:
        worker = signing.worker_id(key)
        if by_key.get(session, EnrolledWorker, worker) is None:
            enrolment.enrol(session, worker, key, "settings", (), "settings")
