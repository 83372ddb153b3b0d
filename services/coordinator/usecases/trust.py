"""Who is believed: enrolment of measure workers, and revocation of workers and champions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from sqlalchemy.orm import Session

from db.queries import champions, enrolled_workers
from db.transactions import enrolment, revocations
from services.coordinator.auth import Caller
from services.coordinator.context import Context
from services.coordinator.schemas.common import Page
from services.coordinator.schemas.trust import EnrolledBody, EnrolRequest, RevokedBody, RevokeRequest
from tunesmith.errors import NotFound
from tunesmith.signing import worker_id


def enrol(context: Context, caller: Caller, request: EnrolRequest) -> tuple[EnrolledBody, bool]:
    """The worker, and whether it is new. Raises InvalidInput for no key, Conflict for a revoked one."""
    identity = worker_id(request.public_key)

    def work(session: Session) -> tuple[EnrolledBody, bool]:
        row, fresh = enrolment.enrol(
            session, identity, request.public_key, request.name, request.device_classes, caller.owner
        )
        return EnrolledBody.of(row), fresh

    return context.write(work)


def enrol_known(session: Session, public_keys: Iterable[str]) -> None:
    """Let in the workers that the settings name, unless they were revoked. Raises InvalidInput for no key."""
    for key in public_keys:
        if enrolled_workers.get(session, worker_id(key)) is None:
            enrolment.enrol(session, worker_id(key), key, "settings", (), "settings")


def enrolled(context: Context) -> Page[EnrolledBody]:
    """Every worker that was let in."""
    with context.reading() as session:
        return Page(items=[EnrolledBody.of(row) for row in enrolled_workers.everyone(session)])


def revoke_worker(context: Context, caller: Caller, identity: str, *, results: bool) -> RevokedBody:
    """Believe a worker no longer, and with ``results`` nothing that it reported. Raises NotFound."""

    def work(session: Session) -> RevokedBody:
        row = enrolment.revoke(session, identity, caller.owner)
        if not results:
            return RevokedBody(records=0, champions=0, tasks=0)
        why = f"the key of worker {row.name} was revoked"
        return RevokedBody(**asdict(revocations.revoke_worker(session, identity, why)))

    return context.write(work)


def revoke_champion(context: Context, caller: Caller, workload: str, request: RevokeRequest) -> RevokedBody:
    """Believe the champions of a workload on a target no longer. Raises NotFound where there is none."""

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
