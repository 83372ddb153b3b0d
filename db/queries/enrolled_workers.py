"""Measure workers that were let in, by their public keys."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import EnrolledWorker


def everyone(session: Session) -> Sequence[EnrolledWorker]:
    """All workers, oldest first, revoked ones too."""
    return session.scalars(sa.select(EnrolledWorker).order_by(EnrolledWorker.created_at, EnrolledWorker.id)).all()
