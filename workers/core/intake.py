"""What comes off the queue of reports: read with suspicion, and refused without a trace but an event and a count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Union

import structlog
from pydantic import ValidationError
from sqlalchemy.orm import Session

from db.models import Batch, Evaluation
from db.repositories import refusals
from tunesmith.measuring.claims import Reason, Refused
from tunesmith.messages import BatchReport, DeviceReport, EvaluationReport
from workers.core.context import Context
from workers.gate import oversized

log = structlog.get_logger(__name__)
Report = Union[BatchReport, EvaluationReport, DeviceReport]
Result = TypeVar("Result")
PATIENCE_SECONDS = 60.0
"""How long one report waits for a database that is away; then it goes back to the end of its queue."""


def read(context: Context, kind: type[Report], body: Any) -> Report | None:
    """The report that a message's body holds; None when it was refused.

    Args:
        kind: whose task the message names.
        body: as it came off the wire.
    """
    size = oversized(body)
    if size is not None:
        refusal = Refused(Reason.TOO_LARGE, f"a message of {size} bytes")
    else:
        try:
            return kind.model_validate(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            refusal = Refused(Reason.UNREADABLE, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    _turn_away(context, kind, refusal)
    return None


def _turn_away(context: Context, kind: type[Report], refusal: Refused) -> None:
    log.warning("message refused", task=kind.task, reason=refusal.reason.value, detail=refusal.detail)
    context.write(
        lambda session: refusals.note(session, refusal.reason.value, refusal.detail, message=kind.task),
        PATIENCE_SECONDS,
    )


def believing(context: Context, report: Report, row: int | str, work: Callable[[Session], Result]) -> Result | None:
    """Do ``work`` in one transaction; what cannot be true leaves nothing but the word that it was refused.

    Args:
        row: what the report is about: the id of a batch or of an evaluation, or a device's name.
        work: raises ``Refused``.
    """
    try:
        return context.write(work, PATIENCE_SECONDS)
    except Refused as refusal:
        log.warning(
            "report refused", reason=refusal.reason.value, detail=refusal.detail, worker=report.worker, row=row
        )
        refused = refusal  # the name of an exception ends with its block

    def note(session: Session) -> None:
        found: Batch | Evaluation | None = None
        if isinstance(report, BatchReport):
            found = session.get(Batch, report.batch_id)
        elif isinstance(report, EvaluationReport):
            found = session.get(Evaluation, report.evaluation_id)
        refusals.note(
            session, refused.reason.value, refused.detail, job_id=found.job_id if found is not None else None,
            worker=report.worker, message=report.task, row=row,
        )  # fmt: skip

    context.write(note, PATIENCE_SECONDS)
    return None
