"""What an import writes: the model's blobs, its workloads and its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Job, Model, ModelTask, TargetRow, WorkloadRow
from db.repositories.transitions import transition
from db.repositories.upsert import insert_missing
from tunesmith.messages import ModelWeights
from tunesmith.states import ModelState
from tunesmith.types import CacheState, TensorSpec, Workload


@dataclass(frozen=True)
class ImportedTask:
    """A workload of a model: how often it runs, and the blobs of its module and of MetaSchedule's form of it.

    Attributes:
        alternative_of: the workload for which it may stand in; None for a direct task.
        weights: which of its arguments are weights of the model.
    """

    workload: Workload
    weight: int
    module_blob: str
    metaschedule_blob: str
    alternative_of: str | None = None
    weights: tuple[int, ...] = ()


@dataclass(frozen=True)
class Imported:
    """A prepared model, its big parts already in the blob store; ``params_size``: bytes of its parameters."""

    module_blob: str
    params_blob: str
    inputs: tuple[TensorSpec, ...]
    tasks: tuple[ImportedTask, ...]
    params_size: int = 0


def store_import(session: Session, model: Model, imported: Imported) -> None:
    """Everything that an import found, and the model's state ``ready``, in the session's one transaction."""
    now = clock.now(session)
    workloads = sorted(imported.tasks, key=lambda task: task.workload.hash)
    insert_missing(session, WorkloadRow, [_workload_row(task) | {"created_at": now} for task in workloads])
    session.execute(sa.delete(ModelTask).where(ModelTask.model_id == model.id))
    for position, task in enumerate(imported.tasks):
        session.add(
            ModelTask(
                model_id=model.id,
                workload_hash=task.workload.hash,
                position=position,
                name=task.workload.name[:200],
                weight=task.weight,
                alternative_of=task.alternative_of,
                weights=list(task.weights),
            )
        )
    transition(
        session,
        model,
        ModelState.READY,
        data={"tasks": len(imported.tasks)},
        error=None,
        inputs=[[spec.name, spec.dtype, list(spec.shape)] for spec in imported.inputs],
        module_blob=imported.module_blob,
        params_blob=imported.params_blob,
        params_size=imported.params_size,
    )


def _workload_row(task: ImportedTask) -> dict[str, Any]:
    workload = task.workload
    return {
        "hash": workload.hash,
        "name": workload.name[:200],
        "family": workload.family,
        "args": [[spec.dtype, list(spec.shape)] for spec in workload.args],
        "flops": workload.flops,
        "module_blob": task.module_blob,
        "metaschedule_blob": task.metaschedule_blob,
    }


def tasks(session: Session, model_id: str) -> Sequence[tuple[ModelTask, WorkloadRow]]:
    """A model's tasks with their workloads, in the model's order."""
    query = sa.select(ModelTask, WorkloadRow).join(WorkloadRow, ModelTask.workload_hash == WorkloadRow.hash)
    rows = session.execute(query.where(ModelTask.model_id == model_id).order_by(ModelTask.position))
    return [(task, workload) for task, workload in rows]


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
