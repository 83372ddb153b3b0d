"""What comes off the queue of reports: read with suspicion, and refused with only an event and a count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
from pydantic import ValidationError
from sqlalchemy.orm import Session

from db.models import Batch, EnrolledWorker, Evaluation
from db.queries import by_key, work_parts
from db.transactions import refusals
from tunesmith.measuring.claims import REPORT_BYTES, Reason, Refused
from tunesmith.messages import BatchReport, DeviceReport, EvaluationReport, SignedReport
from tunesmith.signing import verified
from workers.core.context import Context
from workers.gate import oversized

log = structlog.get_logger(__name__)
Report = TypeVar("Report", BatchReport, EvaluationReport, DeviceReport)
Result = TypeVar("Result")
PATIENCE_SECONDS = 60.0
"""How long one report waits for a database that is away; then it goes back to the end of its queue."""


@dataclass(frozen=True)
class Claim(Generic[Report]):
    """A report that its worker signed.

    Attributes:
        worker: that is enrolled.
        sequence: grows with each report of the worker.
    """

    report: Report
    worker: EnrolledWorker
    sequence: int


def read(context: Context, kind: type[Report], body: Any) -> Claim[Report] | None:
    """The report that a message's body holds, with its author; None when it was refused.

    Args:
        kind: kind of the work that the message names.
        body: as it came off the wire: a :class:`SignedReport`.
    """
    author = None
    try:
        signed = _envelope(body)
        author = signed.worker
        worker = context.write(lambda session: _author(session, signed, kind), PATIENCE_SECONDS)
        return Claim(_parsed(kind.model_validate_json, signed.body), worker, signed.sequence)
    except Refused as refusal:
        refused = refusal  # the name of an exception ends with its block
    log.warning("message refused", task=kind.task, reason=refused.reason.value, detail=refused.detail, worker=author)
    context.write(
        lambda session: refusals.note(session, refused.reason.value, refused.detail, message=kind.task, worker=author),
        PATIENCE_SECONDS,
    )
    return None


def _envelope(body: Any) -> SignedReport:
    size = oversized(body)
    if size is None and isinstance(body, dict) and isinstance(body.get("body"), str):
        size = len(body["body"]) if len(body["body"]) > REPORT_BYTES else None
    if size is not None:
        raise Refused(Reason.TOO_LARGE, f"a message of {size} bytes")
    return _parsed(SignedReport.model_validate, body)


def _author(session: Session, signed: SignedReport, kind: type[Report]) -> EnrolledWorker:
    """The enrolled worker that signed a report."""
    worker = by_key.get(session, EnrolledWorker, signed.worker)
    if worker is None:
        raise Refused(Reason.UNKNOWN_WORKER, f"no worker {signed.worker} is enrolled")
    if not verified(signed, kind.task, worker.public_key):
        raise Refused(Reason.SIGNATURE, f"the signature is not that of worker {worker.name}")
    if worker.revoked_at is not None:
        raise Refused(Reason.REVOKED_WORKER, f"the key of worker {worker.name} was revoked")
    return worker


def _parsed(parse: Callable[[Any], Result], value: Any) -> Result:
    try:
        return parse(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise Refused(Reason.UNREADABLE, detail) from error


def believing(
    context: Context, claim: Claim[Report], row: int | str, work: Callable[[Session], Result]
) -> Result | None:
    """Do ``work`` in one transaction; of what cannot be true, only the note that it was refused remains.

    Args:
        row: what the report is about: the id of a batch or of an evaluation, or a device's name.
        work: raises ``Refused``.
    """
    report, worker = claim.report, claim.worker
    try:
        return context.write(work, PATIENCE_SECONDS)
    except Refused as refusal:
        log.warning("report refused", reason=refusal.reason.value, detail=refusal.detail, worker=worker.id, row=row)
        refused = refusal

    def note(session: Session) -> None:
        job_id = None
        if isinstance(report, BatchReport):
            job_id = work_parts.job_id_of(session, Batch, report.batch_id)
        elif isinstance(report, EvaluationReport):
            job_id = work_parts.job_id_of(session, Evaluation, report.evaluation_id)
        refusals.note(
            session,
            refused.reason.value,
            refused.detail,
            job_id=job_id,
            worker=worker.id,
            message=report.task,
            row=row,
        )

    context.write(note, PATIENCE_SECONDS)
    return None
