"""What an import writes: the model's blobs, its workloads and its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from db import clock
from db.models import Model, ModelTask, WorkloadRow
from db.queries import models
from db.transactions import events
from db.transactions.transitions import transition
from db.transactions.upsert import insert_missing
from tunesmith.events import ModelDeleted, ModelImporting
from tunesmith.preparation import Preparation
from tunesmith.resources import MODEL, new_id
from tunesmith.states import ModelState
from tunesmith.types import TensorSpec, Workload


@dataclass(frozen=True)
class ImportedTask:
    """A workload of a model: how often it runs, and the blobs of its module and of MetaSchedule's form of it.

    Attributes:
        alternative_of: the workload that it may replace; None for a direct task.
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
    """A prepared model, its big parts already in the blob store.

    Attributes:
        params_size: bytes of its parameters.
        note: what was asked for and could not be had; empty where there is no such thing.
    """

    module_blob: str
    params_blob: str
    inputs: tuple[TensorSpec, ...]
    tasks: tuple[ImportedTask, ...]
    params_size: int = 0
    note: str = ""


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
        data={"tasks": len(imported.tasks)} | ({"note": imported.note} if imported.note else {}),
        error=None,
        inputs=[[spec.name, spec.dtype, list(spec.shape)] for spec in imported.inputs],
        module_blob=imported.module_blob,
        params_blob=imported.params_blob,
        params_size=imported.params_size,
        note=imported.note or None,
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


def find_or_add(session: Session, new: Model) -> tuple[Model, bool]:
    """The row that a new model would double, or the new one, which is to be imported; True when it is new."""
    found = _double(session, new)
    if found is not None:
        return found, False
    try:
        with session.begin_nested():
            session.add(new)
    except IntegrityError:  # another request was first
        found = _double(session, new)
        if found is None:
            raise
        return found, False
    events.append(session, ModelImporting(new.public_id, new.preparation, new.name))
    return new, True


def prepared(session: Session, model: Model, preparation: Preparation) -> Model:
    """The model itself where it is prepared that way, else its variant, which is made and imported when it is new."""
    if model.preparation == preparation.key:
        return model
    new = Model(
        id=new_id(MODEL),
        name=model.name,
        source=model.source,
        operator=model.operator,
        sha256=model.sha256,
        inputs_key=model.inputs_key,
        size=model.size,
        owner=model.owner,
        state=ModelState.IMPORTING,
        preparation=preparation.key,
        variant_of=model.id,
    )
    return find_or_add(session, new)[0]


def _double(session: Session, new: Model) -> Model | None:
    if new.variant_of is not None:
        return models.variant(session, new.variant_of, new.preparation)
    return models.find(session, new.sha256, new.inputs_key, new.owner)


def delete(session: Session, model: Model) -> None:
    """Remove a model and its variants."""
    session.delete(model)
    events.append(session, ModelDeleted(model.id, model.name))
