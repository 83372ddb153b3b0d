"""The queue for importers: imports of models and records, and preparations of jobs, in turn between users.

An import may take minutes and a user may upload any number of models. So a user has at most ``per_owner`` pieces of
this work with the importers, and the others stay in the database until one of them is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Job, Model, RecordImport
from db.models.work import ACTIVE

KINDS: tuple[Any, ...] = (Model, Job, RecordImport)


def any_due(session: Session, per_owner: int) -> bool:
    """True when :func:`due` would find something."""
    return session.execute(ready(per_owner).limit(1)).first() is not None


def ready(per_owner: int) -> sa.Select[Any]:
    """Kind and id of the rows to publish, in the order in which their users take turns."""
    waiting = _rows(lambda kind: kind.dispatched < kind.attempt)
    sent = _rows(lambda kind: kind.dispatched >= kind.attempt)
    busy = sa.select(sent.c.owner, sa.func.count().label("number")).group_by(sent.c.owner).subquery()
    turn = sa.func.row_number().over(partition_by=waiting.c.owner, order_by=(waiting.c.created_at, waiting.c.id))
    ranked = sa.select(waiting, turn.label("turn")).subquery()
    place = ranked.c.turn + sa.func.coalesce(busy.c.number, 0)
    return (
        sa.select(ranked.c.kind, ranked.c.id)
        .outerjoin(busy, busy.c.owner == ranked.c.owner)
        .where(place <= per_owner)
        .order_by(place, ranked.c.created_at, ranked.c.id)
    )


def _rows(condition: Any) -> sa.Subquery:
    parts: Sequence[sa.Select[Any]] = [
        sa.select(
            sa.literal(kind.__tablename__).label("kind"),
            kind.id.label("id"),
            kind.owner.label("owner"),
            kind.created_at.label("created_at"),
        ).where(kind.state.in_(ACTIVE[kind]), condition(kind))
        for kind in KINDS
    ]
    return sa.union_all(*parts).subquery()
