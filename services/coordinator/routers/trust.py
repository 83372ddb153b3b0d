"""Who is believed: enrolment of measure workers, and revocation of workers and champions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.schemas.common import Page
from services.coordinator.schemas.trust import EnrolledBody, EnrolRequest, RevokedBody, RevokeRequest
from services.coordinator.usecases import trust

router = APIRouter(prefix="/v1", tags=["trust"])


@router.post("/workers", status_code=201, responses={200: {"model": EnrolledBody, "description": "It was enrolled."}})
def enrol_worker(request: EnrolRequest, context: InContext, caller: InCaller, response: Response) -> EnrolledBody:
    """Enrol a measure worker by its public key; the same key gives the same worker."""
    body, fresh = trust.enrol(context, caller, request)
    response.status_code = 201 if fresh else 200
    return body


@router.get("/workers/enrolled")
def list_enrolled(context: InContext, _: InCaller) -> Page[EnrolledBody]:
    """Every enrolled worker, including revoked ones."""
    return trust.enrolled(context)


@router.delete("/workers/enrolled/{worker_id}")
def revoke_worker(
    context: InContext,
    caller: InCaller,
    worker_id: Annotated[str, Path(max_length=100)],
    results: Annotated[bool, Query(description="Believe nothing that it ever reported, either.")] = False,
) -> RevokedBody:
    """Revoke a worker; with ``results``, also everything it reported."""
    return trust.revoke_worker(context, caller, worker_id, results=results)


@router.post("/workloads/{workload}/revoke")
def revoke_champion(
    context: InContext, caller: InCaller, workload: Annotated[str, Path(max_length=100)], request: RevokeRequest
) -> RevokedBody:
    """Revoke the champion of a workload on a target, and everything derived from it."""
    return trust.revoke_champion(context, caller, workload, request)
