"""Targets, devices, workers, queues, cost models, champions."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy.orm import Session

from db import clock
from db.models import CostModelRow, TargetRow
from db.queries import by_key, device_times, fleet
from db.queries import devices as device_rows
from db.queries.dataset import targets_named
from db.queries.jobs import owner_of as owner_of_job
from db.queries.totals import total
from db.transactions import training
from services.coordinator.answer_headers import LOCATION
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.cursors import Limit, PlaceCursor, decode_time, encode_place
from services.coordinator.requests import TrainRequest
from services.coordinator.usecases import best_of_workload, workers
from tunesmith.answers.base import Page
from tunesmith.answers.fleet import (
    CostModelBody,
    DeviceBody,
    DeviceTimeBody,
    QueueBody,
    TargetBody,
    WorkloadBest,
)
from tunesmith.errors import InvalidInput, NotFound
from tunesmith.messages import measure_queue
from tunesmith.targets import Target

SHOWN_QUEUES = 1000
"""Queues without work are left out of the list beyond these."""
SHOWN_CLASSES = 32
"""The same of one device."""
router = APIRouter(prefix="/v1", tags=["fleet"])


@router.get("/targets")
def list_targets(context: InContext, caller: InCaller) -> Page[TargetBody]:
    """Targets of live devices, those that have champions, and those of the caller's jobs."""
    with context.reading() as session:
        rows = fleet.targets(session, owner=caller.filter)
        live = device_rows.live(session, context.settings.device_timeout)
    found = {
        row.hash: TargetBody(hash=row.hash, json_=row.json, device_class=row.device_class, live_devices=0)
        for row in rows
    }
    for device in live:
        target = Target(device.target)
        known = target.kind and "kind" in device.target
        if known and target.hash not in found:
            found[target.hash] = TargetBody(
                hash=target.hash, json_=dict(device.target), device_class=target.device_class, live_devices=0
            )
    for body in found.values():
        body.live_devices = sum(body.device_class in device.device_classes for device in live)
    return Page(items=list(found.values()))


@router.get("/devices")
def list_devices(context: InContext, _: InCaller) -> Page[DeviceBody]:
    """Every known device."""
    timeout = context.settings.device_timeout
    with context.reading() as session:
        now, rows = clock.now(session), fleet.devices(session)
        used = device_times.utilisation(session, now)
    items = [
        DeviceBody.of(row, alive=device_rows.is_live(row, timeout, now), utilisation=used.get(row.name)) for row in rows
    ]
    return Page(items=items, total=len(items))


@router.get("/devices/history")
def device_history(
    context: InContext,
    _: InCaller,
    device: Annotated[str, Query(max_length=200, description="A device's name.")],
    hours: Annotated[int, Query(ge=1, le=14 * 24, description="How far back.")] = 24,
) -> Page[DeviceTimeBody]:
    """Noise, drift, health and use of a device over time, in steps of ten minutes, oldest first."""
    with context.reading() as session:
        since = clock.now(session) - dt.timedelta(hours=hours)
        rows = device_times.of_device(session, device, since)
    return Page(items=[DeviceTimeBody.of(row) for row in rows], total=len(rows))


_WORKERS = "Workers that serve a device, that serve core queues, or that hold work."
router.get("/workers", name="list_workers", description=_WORKERS)(workers.page)
router.get("/workers/log", name="worker_log")(workers.log)


@router.get("/queues")
def list_queues(context: InContext, _: InCaller) -> Page[QueueBody]:
    """Queues with their messages and rows."""
    with context.reading() as session:
        backlogs = fleet.backlogs(session)
        for device in device_rows.live(session, context.settings.device_timeout):
            for device_class in device.device_classes[:SHOWN_CLASSES]:
                if len(backlogs) < SHOWN_QUEUES:
                    backlogs.setdefault(measure_queue(device_class), fleet.Backlog())
    depths = context.publisher.depths(sorted(backlogs))
    return Page(
        items=[
            QueueBody(name=name, messages=depths.get(name), waiting=rows.waiting, running=rows.running)
            for name, rows in sorted(backlogs.items())
        ]
    )


@router.get("/workloads/{workload}/best")
def workload_best(
    context: InContext,
    caller: InCaller,
    workload: str,
    target: Annotated[
        str | None, Query(max_length=200, description="Target hash, device class, tag or short name such as cpu.")
    ] = None,
) -> WorkloadBest:
    """The fastest known schedule of a workload on a target, else that of its nearest relative."""
    return best_of_workload.best(context, caller, workload, target)


@router.get("/costmodels")
def list_cost_models(
    context: InContext, caller: InCaller, job: str | None = None, limit: Limit = 50, cursor: PlaceCursor = None
) -> Page[CostModelBody]:
    """Cost models of the caller's jobs, newest first."""
    before = decode_time(cursor)
    with context.reading() as session:
        wanted = fleet.cost_models_of(caller.filter, job)
        rows, count = fleet.cost_models(session, wanted, before=before, limit=limit + 1), total(session, wanted)
    more = encode_place(rows[limit - 1].created_at, rows[limit - 1].id) if len(rows) > limit else None
    items = [CostModelBody.of(row, target=row.target_hash) for row in rows[:limit]]
    return Page(items=items, next_cursor=more, total=count)


@router.post("/costmodels/train", status_code=202, responses={202: {"headers": LOCATION}})
def train_cost_model(request: TrainRequest, response: Response, context: InContext, caller: InCaller) -> CostModelBody:
    """Queue a ranker that learns from every record of a target and a precision, whoever measured them."""
    caller.require("operator")

    def work(session: Session) -> CostModelBody:
        row = training.enqueue_for_target(session, _cpu(session, request.target), request.precision)
        return CostModelBody.of(row, target=row.target_hash)

    body = context.write(work)
    response.headers["Location"] = f"/v1/costmodels/{body.id}"
    return body


def _cpu(session: Session, name: str) -> str:
    """The hash of the one CPU target that a name stands for. Raises NotFound, and InvalidInput for several or a GPU."""
    found = targets_named(session, name)
    if not found:
        raise NotFound(f"there is no target {name}", field="target", value=name)
    if len(found) > 1:
        raise InvalidInput(
            f"{name} stands for several targets: give one of {', '.join(found)}", field="target", value=name
        )
    if by_key.existing(session, TargetRow, found[0]).json["kind"] != "llvm":
        raise InvalidInput(
            f"the ranker corrects the static model of CPUs, and {name} is none", field="target", value=name
        )
    return found[0]


@router.get("/costmodels/{key}")
def show_cost_model(context: InContext, caller: InCaller, key: str) -> CostModelBody:
    """One cost model."""
    with context.reading() as session:
        row = by_key.find(session, CostModelRow, key)
        if row is None or not caller.sees(owner_of_job(session, row.job_id)):
            raise NotFound(f"there is no cost model {key}", field="id", value=key)
        return CostModelBody.of(row, target=row.target_hash)
