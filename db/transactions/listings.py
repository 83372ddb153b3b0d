"""Asking for a program as text, and its end."""

from __future__ import annotations

from sqlalchemy.orm import Session

from db.models import Listing
from db.queries import listings
from db.transactions.transitions import transition
from db.transactions.upsert import insert_missing
from tunesmith.states import WorkState


def request(session: Session, record_id: int) -> Listing:
    """The listing of a record, made where there is none; two who ask at once get the same."""
    found = listings.of_record(session, record_id)
    if found is None:
        insert_missing(session, Listing, [{"record_id": record_id}])
        found = listings.of_record(session, record_id)
        assert found is not None
    return found


def finish(session: Session, row: Listing, blob: str) -> None:
    """The text is there."""
    transition(session, row, WorkState.DONE, blob=blob)
