"""Imports of records from dataset files."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base, Created, Leased
from tunesmith.states import WorkState


class RecordImport(Base, Created, Leased):
    """A file of records that a user sent: what it says of itself, and what became of its rows."""

    __tablename__ = "record_imports"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    owner: Mapped[str] = mapped_column(String(100), default="local")
    name: Mapped[str] = mapped_column(String(200))  # file name, as sent
    file_hash: Mapped[str] = mapped_column(String(64))  # SHA-256
    blob: Mapped[str | None] = mapped_column(String(64))  # the file, until the import has ended
    size: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[WorkState] = mapped_column(default=WorkState.QUEUED, index=True)
    manifest: Mapped[dict[str, Any] | None]  # as the file has it
    result: Mapped[dict[str, Any] | None]  # counts of rows
    finished_at: Mapped[dt.datetime | None]
    __table_args__ = (Index("ix_record_imports_owner_created_at", "owner", "created_at"),)
