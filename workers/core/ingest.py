"""Import a model: TVM module, parameters and tasks."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy.orm import Session

from db.models import Model
from db.queries import by_key
from db.transactions import model_import
from db.transactions.model_import import Imported
from tunesmith.errors import ModelRejected
from tunesmith.messages import IngestModel
from tunesmith.names import OPERATOR
from tunesmith.preparation import Preparation
from workers.core.context import Context
from workers.core.importing import Upload
from workers.core.leased import Lease, run_leased


def import_model(context: Context, message: IngestModel) -> bool:
    """The task ``tunesmith.ingest``.

    An import does not hold the host lease: that of a large model would keep kernels waiting for too long.
    """

    def work(lease: Lease) -> None:
        with context.readers() as session:
            model = by_key.existing(session, Model, message.model_id)
        imported = context.importing.run(upload(context, model), context.blobs)
        context.write(lambda session: _store(session, lease, imported))

    timeout = context.settings.ingest_timeout
    return run_leased(context, Model, message.model_id, message.attempt, timeout, work)


def upload(context: Context, model: Model) -> Upload:
    """What a row asks for. Raises ModelRejected, NotFound."""
    try:
        preparation = Preparation.parse(model.preparation)
    except ValueError as error:  # the row is older than the passes
        raise ModelRejected(f"{error}; upload the model again", field="file") from error
    path: Path | None = None
    if model.source != OPERATOR:
        context.blobs.size(model.sha256)  # NotFound rather than whatever an importer says of a missing file
        path = context.blobs.path(model.sha256)
    shapes = json.loads(model.inputs_key) if model.inputs_key else {}
    return Upload(
        model.source,
        path,
        str(model.operator or ""),
        {name: tuple(shape) for name, shape in shapes.items()},
        preparation,
    )


def _store(session: Session, lease: Lease, imported: Imported) -> None:
    model_import.store_import(session, lease.hold(session), imported)
