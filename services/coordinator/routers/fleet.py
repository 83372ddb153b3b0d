"""Targets, devices, workers, queues, cost models, champions, keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.schemas.common import Limit, Page, PlaceCursor
from services.coordinator.schemas.fleet import (
    CostModelBody,
    DeviceBody,
    KeyBody,
    KeyRequest,
    NewKeyBody,
    QueueBody,
    TargetBody,
    WorkerBody,
    WorkloadBest,
)
from services.coordinator.usecases import fleet

router = APIRouter(prefix="/v1", tags=["fleet"])


@router.get("/targets")
def list_targets(context: InContext, caller: InCaller) -> Page[TargetBody]:
    """Targets of live devices, those that have champions, and those of the caller's jobs."""
    return fleet.targets(context, caller)


@router.get("/devices")
def list_devices(context: InContext, _: InCaller) -> Page[DeviceBody]:
    """Every known device."""
    return fleet.devices(context)


@router.get("/workers")
def list_workers(context: InContext, _: InCaller) -> Page[WorkerBody]:
    """Processes that serve a device or hold work."""
    return fleet.workers(context)


@router.get("/queues")
def list_queues(context: InContext, _: InCaller) -> Page[QueueBody]:
    """Queues with their messages and rows."""
    return fleet.queues(context)


@router.get("/workloads/{workload}/best")
def workload_best(
    context: InContext,
    caller: InCaller,
    workload: str,
    target: Annotated[str | None, Query(max_length=200, description="Target hash, device class or tag.")] = None,
) -> WorkloadBest:
    """The fastest known schedule of a workload on a target."""
    return fleet.workload_best(context, caller, workload, target)


@router.get("/costmodels")
def list_cost_models(
    context: InContext, caller: InCaller, job: str | None = None, limit: Limit = 50, cursor: PlaceCursor = None
) -> Page[CostModelBody]:
    """Cost models of the caller's jobs, newest first."""
    return fleet.cost_models(context, caller, job, limit, cursor)


@router.get("/costmodels/{key}")
def show_cost_model(context: InContext, caller: InCaller, key: str) -> CostModelBody:
    """One cost model."""
    return fleet.cost_model(context, caller, key)


@router.post("/keys", status_code=201)
def create_key(request: KeyRequest, response: Response, context: InContext, caller: InCaller) -> NewKeyBody:
    """Create an API key; it is shown only once."""
    body = fleet.create_key(context, caller, request)
    response.headers["Location"] = f"/v1/keys/{body.id}"
    return body


@router.get("/keys")
def list_keys(context: InContext, caller: InCaller) -> Page[KeyBody]:
    """API keys without their secrets."""
    return fleet.keys(context, caller)


@router.delete("/keys/{key_id}", status_code=204)
def revoke_key(context: InContext, caller: InCaller, key_id: str) -> None:
    """Revoke a key."""
    fleet.revoke_key(context, caller, key_id)
