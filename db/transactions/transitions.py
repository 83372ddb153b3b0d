"""The only way a state column changes: compare-and-set, with an event row in the same transaction."""

from __future__ import annotations

import enum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session

from db.models import Job, Model
from db.models.work import NOUNS, Work
from db.transactions import events
from tunesmith.errors import IllegalTransition
from tunesmith.event_kinds import EventKind
from tunesmith.events import StateChanged, kind_of
from tunesmith.states import can_move


def transition(
    session: Session,
    row: Work,
    new: enum.Enum,
    *,
    event: EventKind | None = None,
    data: dict[str, Any] | None = None,
    **values: Any,
) -> None:
    """Move ``row`` from the state that it was read with to ``new``, and set ``values`` with it.

    Args:
        event: the event's kind, by default that of noun and state, such as ``job_running``.
        data: more for the event than id and states.
        **values: further columns of the row.

    Raises:
        IllegalTransition: the state machine forbids it, or another transaction moved the row first.
    """
    old, noun = row.state, NOUNS[type(row)]
    if not can_move(old, new):
        raise IllegalTransition(f"{noun} {row.id} is {old.value} and cannot become {new.value}", value=old.value)
    changed = changed_rows(
        session, sa.update(type(row)).where(type(row).id == row.id, type(row).state == old).values(state=new, **values)
    )
    session.refresh(row)
    if not changed:
        raise IllegalTransition(
            f"{noun} {row.id} became {row.state.value} before it could become {new.value}", value=row.state.value
        )
    kind = event or kind_of(noun, new.value)
    said = StateChanged(kind, **identity(row), old=old.value, to=new.value, more=data or {})
    events.append(session, said, job_of(row))


def job_of(row: Work) -> str | None:
    """Id of the job that a row belongs to."""
    return row.id if isinstance(row, Job) else getattr(row, "job_id", None)


def identity(row: Work) -> dict[str, Any]:
    """What an event says of which row it is about: of a variant, its model's id."""
    if isinstance(row, Model):
        return {"id": row.public_id, "preparation": row.preparation}
    return {"id": row.id, "preparation": None}


def changed_rows(session: Session, statement: sa.Update) -> int:
    """Execute an UPDATE; how many rows it changed. Objects in the session are not refreshed."""
    result = session.execute(statement.execution_options(synchronize_session=False))
    assert isinstance(result, CursorResult)
    return int(result.rowcount)
