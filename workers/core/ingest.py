"""Import a model: TVM module, parameters and tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from db.models import Model
from db.repositories import models
from db.repositories.models import Imported, ImportedTask
from tunesmith.errors import ModelRejected
from tunesmith.messages import IngestModel
from tunesmith.operators import parse_operator
from tunesmith.preparation import Preparation
from workers.core.context import Context
from workers.core.leased import Lease, run_leased
from workers.tvm_backend import importing, prepare, tasks
from workers.tvm_backend.warm import warm


def run(context: Context, message: IngestModel) -> bool:
    """The task ``tunesmith.ingest``.

    An import does not hold the host lease: that of a large model would keep kernels waiting for too long.
    """

    def work(lease: Lease) -> None:
        warm()
        with context.readers() as session:
            model = session.get_one(Model, message.model_id)
        preparation = _preparation(model)
        mod = load(context, model)
        lease.check()
        imported = split(context, mod, preparation)
        context.write(lambda session: _store(session, lease, imported))

    timeout = context.settings.ingest_timeout
    return run_leased(context, Model, message.model_id, message.attempt, timeout, work)


def _preparation(model: Model) -> Preparation:
    try:
        return Preparation.parse(model.preparation)
    except ValueError as error:  # the row is older than the passes
        raise ModelRejected(f"{error}; upload the model again", field="file") from error


def load(context: Context, model: Model) -> Any:
    """The model as a Relax module. Raises the ModelRejected family, InvalidOperator, MissingDependency, NotFound."""
    if model.source == "operator":
        return importing.operator_module(parse_operator(str(model.operator)))
    shapes = json.loads(model.inputs_key) if model.inputs_key else {}
    context.blobs.size(model.sha256)  # NotFound rather than whatever an importer says of a missing file
    return importing.import_model(
        context.blobs.path(model.sha256), model.source, {name: tuple(shape) for name, shape in shapes.items()}
    )


def split(context: Context, mod: Any, preparation: Preparation) -> Imported:
    """Prepare a module, put its big parts into the blob store, find its tasks."""
    prepared = prepare.prepare(mod, preparation)
    with context.blobs.folder() as folder:
        path = Path(folder) / "params.npz"
        prepare.save_params(prepared.params, path)
        params_blob = context.blobs.adopt(path)
    found: dict[str, ImportedTask] = {}
    for task in tasks.extract_tasks(prepared.module):
        known = found.get(task.workload.hash)
        weight = task.weight + (known.weight if known else 0)
        found[task.workload.hash] = ImportedTask(
            known.workload if known else task.workload, weight, context.blobs.put_bytes(task.module),
            context.blobs.put_bytes(task.metaschedule), task.alternative_of,
            known.weights if known else task.weights,
        )
    return Imported(
        module_blob=context.blobs.put_bytes(prepared.module), params_blob=params_blob, inputs=prepared.inputs,
        tasks=tuple(found.values()), params_size=tasks.parameter_bytes(prepared.module),
    )


def _store(session: Session, lease: Lease, imported: Imported) -> None:
    models.store_import(session, lease.hold(session), imported)
