"""Programs as text, made for whoever wants to read one."""

from __future__ import annotations

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base, Created, Leased
from db.models.jobs import BigId
from tunesmith.states import WorkState


class Listing(Base, Created, Leased):
    """A trial's program in TVMScript, beside its workload as it is without a schedule. A worker writes it once."""

    __tablename__ = "listings"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    record_id: Mapped[int] = mapped_column(ForeignKey("records.id", ondelete="CASCADE"), unique=True)
    state: Mapped[WorkState] = mapped_column(default=WorkState.QUEUED, index=True)
    blob: Mapped[str | None] = mapped_column(String(64))  # JSON of both texts
    __table_args__ = ({"sqlite_autoincrement": True},)
