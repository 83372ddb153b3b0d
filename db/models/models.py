"""Models and what was found in them: workloads and the tasks that weigh them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base, Created, Leased
from tunesmith.states import ModelState


class Model(Base, Created, Leased):
    """A user's model (or a single operator), content-addressed; or a variant of one, prepared in another way."""

    __tablename__ = "models"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    source: Mapped[str] = mapped_column(String(20))  # onnx, pt2, tvm, operator, operators
    operator: Mapped[str | None] = mapped_column(String(500))
    sha256: Mapped[str] = mapped_column(String(64), index=True)  # hash of the file, or of the operator spec
    inputs_key: Mapped[str] = mapped_column(String(500), default="")  # canonical JSON of the fixed input shapes
    size: Mapped[int] = mapped_column(BigInteger, default=0)
    owner: Mapped[str] = mapped_column(String(100), default="local")
    state: Mapped[ModelState] = mapped_column(default=ModelState.IMPORTING, index=True)
    inputs: Mapped[list[Any] | None]  # [[name, dtype, shape], …] once imported
    module_blob: Mapped[str | None] = mapped_column(String(64))  # prepared Relax module, weights lifted
    params_blob: Mapped[str | None] = mapped_column(String(64))  # params.npz
    params_size: Mapped[int] = mapped_column(BigInteger, default=0)  # bytes of all parameters
    preparation: Mapped[str] = mapped_column(String(60))  # key of tunesmith.preparation.Preparation
    note: Mapped[str | None] = mapped_column(String(1000))  # what the preparation was to be and is not
    variant_of: Mapped[str | None] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), index=True)
    __table_args__ = (
        UniqueConstraint("sha256", "inputs_key", "owner", "preparation"),
        Index("ix_models_owner_created_at", "owner", "created_at"),
    )

    @property
    def public_id(self) -> str:
        """The id under which its owner knows it: that of the model which a variant is of."""
        return self.variant_of or self.id


class WorkloadRow(Base, Created):
    """One tensor program, shared by every model that contains it."""

    __tablename__ = "workloads"
    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    family: Mapped[str] = mapped_column(String(100))
    args: Mapped[list[Any]]  # [[dtype, shape], …], output last
    flops: Mapped[float]
    module_blob: Mapped[str] = mapped_column(String(64))  # JSON of the IRModule
    metaschedule_blob: Mapped[str] = mapped_column(String(64))  # JSON of MetaSchedule's Workload.as_json()

    __table_args__ = (Index("ix_workloads_created_at_hash", "created_at", "hash"),)


class ModelTask(Base):
    """How often a model runs a workload, and which one that may replace."""

    __tablename__ = "model_tasks"
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    workload_hash: Mapped[str] = mapped_column(ForeignKey("workloads.hash"), primary_key=True)
    position: Mapped[int]
    name: Mapped[str] = mapped_column(String(200))
    weight: Mapped[int]
    alternative_of: Mapped[str | None] = mapped_column(String(64))  # workload of the direct task at the same places
    weights: Mapped[list[Any]] = mapped_column(default=list)  # arguments that are parameters of the model
