"""The best schedule that is known of a workload on a target, or that of its nearest relative."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy.orm import Session

from db.models import TargetRow
from db.queries import champions, devices
from db.queries.champions import MeasuredChampion
from db.queries.jobs import owner_of
from services.coordinator.auth import Caller
from services.coordinator.context import Context
from tunesmith.answers.fleet import WorkloadBest
from tunesmith.errors import NotFound, UnknownTarget
from tunesmith.targets import choose, parse_target
from tunesmith.types import CacheState
from tunesmith.unmeasured import CONFIDENCE, Source


def best(context: Context, caller: Caller, workload: str, target: str | None) -> WorkloadBest:
    """The answer for a caller. Raises NotFound when neither the workload nor a relative has a schedule there."""
    with context.reading() as session:
        fits = _meant(session, target, context.settings.device_timeout)
        found = next((each for each in champions.measured(session, workload) if fits(each.target)), None)
        if found is not None:
            body = _body(session, caller, found, Source.MEASURED, workload)
            return body.model_copy(update={"program": champions.program_of(context.blobs, found.workload)})
        for relative, ratio in champions.relatives(session, workload):
            if fits(relative.target):
                return _body(session, caller, relative, Source.RESCALED, workload, ratio)
    where = f" on {target}" if target else ""
    raise NotFound(f"no schedule of workload {workload} or of a relative is known{where}", field="hash", value=workload)


def _meant(session: Session, name: str | None, timeout: float) -> Callable[[TargetRow], bool]:
    """Whether a target is the one that a hash, a device class, a tag or a short name means; None means every one."""
    if name is None:
        return lambda row: True
    try:
        spec = parse_target(name)
    except UnknownTarget:
        spec = None
    if spec is None or not spec.is_local:
        return lambda row: name in (row.hash, row.device_class, row.json.get("tag"))
    known = devices.targets_of_kind(session, timeout, spec.kind)
    if not known:  # whatever was a device of that kind
        return lambda row: row.json.get("kind") == spec.kind and spec.cores in (None, row.json.get("num-cores"))
    chosen = choose(spec, known).hash
    return lambda row: row.hash == chosen


def _body(
    session: Session, caller: Caller, found: MeasuredChampion, source: Source, workload: str, ratio: float = 1.0
) -> WorkloadBest:
    """``ratio``: FLOPs of the workload over those of the one that was measured."""
    schedule, about = found.schedule, found.workload
    known = caller.sees(owner_of(session, found.job))
    return WorkloadBest(
        workload=workload,
        name=about.name,
        target=found.target.json,
        latency=schedule.latency * ratio,
        cache=CacheState(schedule.cache),
        trace=schedule.trace,
        source=source,
        confidence=CONFIDENCE[source],
        relative=about.hash if source is Source.RESCALED else None,
        record=schedule.record_id if known else None,
        job=found.job if known else None,
        updated_at=schedule.updated_at,
    )
