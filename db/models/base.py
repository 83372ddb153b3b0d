"""Declarative base, naming conventions and the columns that leased work shares."""

from __future__ import annotations

import datetime as dt
import enum
import secrets
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, DateTime, Enum, MetaData, String, TypeDecorator, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tunesmith.states import JobState, ModelState, RoundState, WorkState

Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
PlainJson = JSON(none_as_null=True)
"""For what hardly any query looks into: PostgreSQL keeps the text, which is stored sooner and is smaller than JSONB."""


def utcnow() -> dt.datetime:
    """The time, to the microsecond, with its timezone."""
    return dt.datetime.now(dt.timezone.utc)


class UtcDateTime(TypeDecorator[dt.datetime]):
    """Timezone-aware UTC on every database (SQLite stores naive text)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Any) -> dt.datetime | None:
        """Refuse naive times, store UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a timezone")
        return value.astimezone(dt.timezone.utc)

    def process_result_value(self, value: dt.datetime | None, dialect: Any) -> dt.datetime | None:
        """Attach UTC to what SQLite returns without it."""
        if value is not None and value.tzinfo is None:
            return value.replace(tzinfo=dt.timezone.utc)
        return value


def state_type(kind: type[enum.Enum]) -> Enum:
    """A state column: the values as plain text, so that a new state needs no change of a database type."""
    return Enum(kind, native_enum=False, length=20, values_callable=lambda states: [s.value for s in states])


class Base(DeclarativeBase):
    """Every table's base."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        dict[str, Any]: Json,
        list[Any]: Json,
        dt.datetime: UtcDateTime,
        **{kind: state_type(kind) for kind in (JobState, ModelState, RoundState, WorkState)},
    }


class Created:
    """When a row was made."""

    created_at: Mapped[dt.datetime] = mapped_column(default=utcnow, server_default=func.now())


class Leased:
    """Work that a worker does under a lease.

    The row is its own outbox: it is due for publishing while ``dispatched < attempt``. A worker's heartbeat
    moves ``deadline``; the reconciler raises ``attempt`` of what is overdue, up to a limit.
    """

    attempt: Mapped[int] = mapped_column(default=1)
    dispatched: Mapped[int] = mapped_column(default=0)
    deadline: Mapped[dt.datetime | None]
    worker: Mapped[str | None] = mapped_column(String(200))
    error: Mapped[dict[str, Any] | None]


class Held:
    """Work that is handed to measure workers, which must prove that they hold it.

    ``secret`` makes the ticket of each attempt; ``holders`` names the enrolled worker of each attempt, from its first
    report on; ``reported`` is the number of the last heartbeat that moved the deadline.
    """

    secret: Mapped[str] = mapped_column(String(32), default=lambda: secrets.token_hex(16))
    holders: Mapped[dict[str, Any]] = mapped_column(default=dict)
    reported: Mapped[int] = mapped_column(BigInteger, default=0)
