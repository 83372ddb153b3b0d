"""Candidates that people, scripts and agents propose, next to the searchers' own."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base, Created, Leased
from db.models.jobs import BigId
from tunesmith.proposals import MAX_AUTHOR, MAX_REASON
from tunesmith.states import WorkState

WAITING, WAITING_SQLITE = (f"measure IS {true} AND valid IS {true} AND batch_id IS NULL" for true in ("true", "1"))


class ProposalSet(Base, Created, Leased):
    """What one request proposes for a task. The lease columns are those of judging it: a worker replays each."""

    __tablename__ = "proposal_sets"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    job_task_id: Mapped[int] = mapped_column(ForeignKey("job_tasks.id", ondelete="CASCADE"))
    source: Mapped[str] = mapped_column(String(20))  # ProposalSource
    author: Mapped[str] = mapped_column(String(MAX_AUTHOR), default="")  # who says to have proposed it
    state: Mapped[WorkState] = mapped_column(default=WorkState.QUEUED, index=True)
    __table_args__ = ({"sqlite_autoincrement": True},)


class Proposal(Base):
    """One proposed candidate. ``(batch_id, index)`` is the place at which it was measured, once it was handed out."""

    __tablename__ = "proposals"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    set_id: Mapped[int] = mapped_column(ForeignKey("proposal_sets.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    job_task_id: Mapped[int] = mapped_column(ForeignKey("job_tasks.id", ondelete="CASCADE"))
    sketch_hash: Mapped[str] = mapped_column(ForeignKey("sketches.hash"))
    decisions: Mapped[list[Any]]  # in canonical form once it was judged
    given: Mapped[str] = mapped_column(String(64))  # hash of sketch and decisions as they were proposed
    measure: Mapped[bool] = mapped_column(default=True)  # False: only judged
    valid: Mapped[bool | None]  # None until it was judged
    reason: Mapped[str | None] = mapped_column(String(MAX_REASON))
    estimate: Mapped[float | None]  # seconds, by the static model
    score: Mapped[float | None]  # by the job's cost model, higher is faster
    batch_id: Mapped[int | None] = mapped_column(ForeignKey("batches.id", ondelete="SET NULL"), index=True)
    index: Mapped[int | None]
    __table_args__ = (
        UniqueConstraint("job_task_id", "given", "measure"),
        Index("ix_proposals_job_task_id_id", "job_task_id", "id"),
        Index(
            "ix_proposals_waiting",
            "job_id",
            "job_task_id",
            sqlite_where=text(WAITING_SQLITE),
            postgresql_where=text(WAITING),
        ),
        {"sqlite_autoincrement": True},
    )
