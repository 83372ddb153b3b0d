"""Models as the API lists them, their tasks, and what their runs read anew."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Job, Model, ModelTask, TargetRow, WorkloadRow
from tunesmith.messages import ModelWeights
from tunesmith.names import OPERATOR, OPERATORS
from tunesmith.types import CacheState


def tasks(
    session: Session, model_id: str, after: int = -1, limit: int | None = None
) -> Sequence[tuple[ModelTask, WorkloadRow]]:
    """A model's tasks with a position greater than ``after`` with their workloads, in the model's order."""
    query = sa.select(ModelTask, WorkloadRow).join(WorkloadRow, ModelTask.workload_hash == WorkloadRow.hash)
    query = query.where(ModelTask.model_id == model_id, ModelTask.position > after)
    return [(task, workload) for task, workload in session.execute(query.order_by(ModelTask.position).limit(limit))]


def weights(session: Session, job: Job, workload: str) -> ModelWeights | None:
    """What the job's model reads anew at each run of a workload; None: nothing that matters, or its target is no CPU.

    A GPU's kernels are timed warm: they find what the run before left in its cache.
    """
    task = session.get(ModelTask, (job.model_id, workload))
    if task is None or not task.weights or not _streams(session, job):
        return None
    size = session.get_one(Model, job.model_id).params_size
    return ModelWeights(arguments=tuple(task.weights), size=size)


def cache_of(session: Session, job: Job, workload: str) -> CacheState:
    """Where the runs of a workload of the job find their arguments, on a device that can see to it."""
    return CacheState.WARM if weights(session, job, workload) is None else CacheState.STREAMED


def caches_of(session: Session, job: Job) -> dict[str, CacheState]:
    """:func:`cache_of` every workload of the job's model."""
    streams = _streams(session, job)
    rows = session.execute(
        sa.select(ModelTask.workload_hash, ModelTask.weights).where(ModelTask.model_id == job.model_id)
    )
    return {workload: CacheState.STREAMED if streams and arguments else CacheState.WARM for workload, arguments in rows}


def _streams(session: Session, job: Job) -> bool:
    """Whether the job's target is one whose kernels are timed with their weights where the model has them."""
    target = session.get(TargetRow, job.target_hash) if job.target_hash else None
    return target is not None and target.json.get("kind") == "llvm"


def find(session: Session, sha256: str, inputs_key: str, owner: str) -> Model | None:
    """The model with that content and those fixed shapes, if it is there; never a variant."""
    query = sa.select(Model).where(Model.sha256 == sha256, Model.inputs_key == inputs_key, Model.owner == owner)
    return session.scalars(query.where(Model.variant_of.is_(None))).first()


def usage(session: Session, owner: str) -> tuple[int, int]:
    """How many uploaded models an owner keeps, and the bytes of their files and, variants' included, parameters."""
    file = sa.case((Model.variant_of.is_(None), Model.size), else_=0)
    uploaded = sa.case((sa.and_(Model.variant_of.is_(None), Model.source.not_in((OPERATOR, OPERATORS))), 1), else_=0)
    query = sa.select(sa.func.sum(uploaded), sa.func.sum(file + Model.params_size)).where(Model.owner == owner)
    number, size = session.execute(query).one()
    return int(number or 0), int(size or 0)


def variants(session: Session, model_id: str) -> Sequence[Model]:
    """Every variant of a model."""
    return session.scalars(sa.select(Model).where(Model.variant_of == model_id).order_by(Model.id)).all()


def variant(session: Session, model_id: str, preparation: str) -> Model | None:
    """The variant of a model with a preparation's key, if it is there."""
    query = sa.select(Model).where(Model.variant_of == model_id, Model.preparation == preparation)
    return session.scalars(query).first()


def page(session: Session, *, owner: str | None, before: tuple[dt.datetime, str] | None, limit: int) -> Sequence[Model]:
    """Models without their variants, newest first. ``before``: creation time and id of the last of the page before."""
    query = sa.select(Model).where(Model.variant_of.is_(None))
    query = query.order_by(Model.created_at.desc(), Model.id.desc()).limit(limit)
    if owner is not None:
        query = query.where(Model.owner == owner)
    if before is not None:
        query = query.where(sa.tuple_(Model.created_at, Model.id) < before)
    return session.scalars(query).all()


def task_counts(session: Session, model_ids: Sequence[str]) -> dict[str, int]:
    """Number of tasks by model."""
    query = sa.select(ModelTask.model_id, sa.func.count()).where(ModelTask.model_id.in_(model_ids))
    found = session.execute(query.group_by(ModelTask.model_id))
    return {str(model): int(number) for model, number in found}


def jobs_of(session: Session, model_id: str, limit: int = 5) -> Sequence[tuple[str, str]]:
    """Ids and owners of some jobs that use a model or a variant of it, those of its owner and the oldest first."""
    query = sa.select(Job.id, Job.owner).join(Model, Job.model_id == Model.id)
    query = query.where(sa.or_(Model.id == model_id, Model.variant_of == model_id))
    found = session.execute(query.order_by(Job.owner != Model.owner, Job.created_at, Job.id).limit(limit))
    return [(job, owner) for job, owner in found]
