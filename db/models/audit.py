"""Who did what over the API."""

from __future__ import annotations

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base, Created
from db.models.jobs import BigId


class AuditRow(Base, Created):
    """One change, one refusal, or the first use of a key from an address within an hour. It outlives what it names."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    owner: Mapped[str | None] = mapped_column(String(100))  # None: no valid key came
    key_id: Mapped[str | None] = mapped_column(String(40))
    address: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(120))  # method and route
    target: Mapped[str] = mapped_column(String(500))  # path without its query; of a new thing, the path to it
    status: Mapped[int]
    request_id: Mapped[str] = mapped_column(String(100))
    __table_args__ = (Index("ix_audit_owner_id", "owner", "id"), {"sqlite_autoincrement": True})
