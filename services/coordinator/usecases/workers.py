"""Workers: who is there, idle or not, what they broke on lately, and what they log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from db import clock
from db.models import Device
from db.queries import devices, fleet, worker_failures
from services.coordinator.auth import InCaller
from services.coordinator.broker import Node
from services.coordinator.context import Context, InContext
from tunesmith.answers.base import Page
from tunesmith.answers.fleet import LogLineBody, WorkerBody, WorkerFailureBody
from tunesmith.errors import NotFound, Unavailable
from tunesmith.messages import measure_queue
from tunesmith.worker_logs import KEPT_LINES, LEVELS, Level, of_device, of_node

SHOWN_FAILURES = 5
"""Newest failures of each worker."""
SHOWN_CLASSES = 32
"""Classes of one device whose queues are listed."""


def page(context: InContext, caller: InCaller) -> Page[WorkerBody]:
    """Workers that serve a device, that serve core queues, or that hold work; those said so themselves."""
    timeout = context.settings.device_timeout
    with context.reading() as session:
        now, rows, held = clock.now(session), fleet.devices(session), fleet.holders(session)
        broken = worker_failures.newest(session) if caller.filter is None else []
    found = [_measuring(row, devices.is_live(row, timeout, now), held.pop(row.worker, 0)) for row in rows]
    nodes = context.publisher.nodes(within=timeout)
    for node in nodes:
        found.append(_core(node, [held.pop(name) for name in sorted(held) if _is_of(node, name)], now))
    found += [
        WorkerBody(name=name, roles=["core"], alive=True, holds=number, seen_at=None)
        for name, number in sorted(held.items())
    ]
    for failure in broken:
        name = next((node.name for node in nodes if _is_of(node, failure.worker)), failure.worker)
        owner = next((each for each in found if each.name == name), None)
        if owner is None:
            owner = WorkerBody(name=name, roles=["gone"], alive=False, holds=0, seen_at=None)
            found.append(owner)
        if len(owner.failures) < SHOWN_FAILURES:
            told = failure._asdict()
            del told["worker"]
            owner.failures.append(WorkerFailureBody(**told))
    return Page(items=found, total=len(found))


def log(
    context: InContext,
    caller: InCaller,
    worker: Annotated[str, Query(max_length=300, description="A worker's name, as in the list of workers.")],
    level: Annotated[Level, Query(description="The lowest level.")] = "debug",
    find: Annotated[str | None, Query(alias="q", max_length=200, description="Part of a line.")] = None,
    limit: Annotated[int, Query(ge=1, le=sum(KEPT_LINES.values()), description="Lines.")] = 200,
) -> Page[LogLineBody]:
    """What a worker logged lately, newest line first; ``total`` counts the lines that are kept.

    The worker's host hides secrets, but lines may name jobs, models and files.
    """
    caller.require("operator")
    lines = context.publisher.log(_log_name(context, worker))
    if lines is None:
        raise Unavailable("the broker does not answer, and it keeps the logs: try again soon")
    lowest, part = LEVELS.index(level), (find or "").casefold()
    found = [
        line for line in lines if LEVELS.index(line.level) >= lowest and part in f"{line.logger} {line.text}".casefold()
    ]
    items = [LogLineBody.of(line, at=dt.datetime.fromtimestamp(line.at, dt.timezone.utc)) for line in found[:limit]]
    return Page(items=items, total=len(found))


def _log_name(context: Context, worker: str) -> str:
    """Raises NotFound."""
    with context.reading() as session:
        device = next((row.name for row in fleet.devices(session) if row.worker == worker), None)
    name = of_device(device) if device is not None else of_node(worker)
    if name is None:
        raise NotFound(f"there is no worker {worker}, or it keeps no log", field="worker", value=worker)
    return name


def _measuring(row: Device, alive: bool, holds: int) -> WorkerBody:
    return WorkerBody(
        name=row.worker,
        roles=["measure"],
        version=str(row.environment.get("tunesmith", "")),
        queues=[measure_queue(each) for each in row.device_classes[:SHOWN_CLASSES]],
        alive=alive,
        holds=holds,
        seen_at=row.seen_at,
    )


def _core(node: Node, holds: Sequence[int], now: dt.datetime) -> WorkerBody:
    return WorkerBody(
        name=node.name,
        roles=["core"],
        version=node.report.version,
        queues=list(node.report.queues),
        alive=True,
        holds=sum(holds),
        seen_at=now - dt.timedelta(seconds=node.age),
    )


def _is_of(node: Node, holder: str) -> bool:
    """Whether a process that holds work is one of a worker's; see :func:`tunesmith.resources.process_name`."""
    return any(holder.startswith(f"{node.report.host}-{process}-") for process in node.report.processes)
