"""Which worker holds a batch or an evaluation: the one that was handed it, and proves it with its first report."""

from __future__ import annotations

import hashlib
import hmac
from typing import Union

from sqlalchemy.orm import Session

from db.models import Batch, Evaluation
from tunesmith.measuring.claims import Reason, Refused

Held = Union[Batch, Evaluation]


def ticket(row: Held, attempt: int) -> str:
    """What the message of an attempt carries, and each report about it: nobody else knows it."""
    return hmac.new(row.secret.encode(), str(attempt).encode(), hashlib.sha256).hexdigest()[:32]


def hold(session: Session, row: Held, attempt: int, given: str, worker_id: str) -> None:
    """See that ``worker_id`` holds an attempt; the first that shows its ticket does.

    The row is locked. Results of an earlier attempt count, from its own holder.

    Raises:
        Refused: it does not.
    """
    if not 1 <= attempt <= row.attempt or not hmac.compare_digest(ticket(row, attempt).encode(), given.encode()):
        raise Refused(Reason.NOT_HOLDER, f"attempt {attempt} was not handed to this worker: its ticket is another")
    holder = row.holders.get(str(attempt))
    if holder is None:
        row.holders = {**row.holders, str(attempt): worker_id}
        row.reported = 0 if attempt == row.attempt else row.reported  # each worker counts for itself
        session.flush()
    elif holder != worker_id:
        raise Refused(Reason.NOT_HOLDER, f"attempt {attempt} is held by worker {holder}")


def newer(row: Held, attempt: int, sequence: int) -> bool:
    """True for a heartbeat of the present attempt that is newer than the last one.

    An old one that somebody sends again keeps nothing alive.
    """
    if attempt != row.attempt or sequence <= row.reported:
        return False
    row.reported = sequence
    return True
