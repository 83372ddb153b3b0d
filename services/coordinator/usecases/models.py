"""Models: register an upload, list, show, delete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from db.models import Model
from db.queries import blob_references, by_key
from db.queries import models as model_rows
from db.transactions import model_import
from db.transactions.model_import import find_or_add
from db.transactions.transitions import transition
from services.coordinator.auth import Caller, InCaller
from services.coordinator.context import Context, InContext
from services.coordinator.cursors import Cursor, Limit, PlaceCursor, decode_number, decode_time, encode_place
from services.coordinator.housekeeping import free
from services.coordinator.settings import Settings
from services.coordinator.uploads import Upload
from services.coordinator.usecases.shapes import inputs_key, parse_inputs
from tunesmith.answers.base import Page
from tunesmith.answers.models import ModelBody, ModelTaskBody, TensorBody
from tunesmith.dataset.workloads import content_hash, list_text
from tunesmith.errors import Conflict, InvalidInput, NotFound, StorageQuotaExceeded
from tunesmith.model_files import source_of
from tunesmith.names import OPERATOR, OPERATORS
from tunesmith.operators import OperatorSpec, parse_operator
from tunesmith.preparation import for_target, of_operator
from tunesmith.resources import MODEL, new_id
from tunesmith.states import ModelState

FORM_FIELDS = frozenset({"name", "inputs"})
DEFAULT_KIND = "llvm"
"""The kind of target that a model is prepared for before anybody has named one."""


def register(context: Context, upload: Upload, owner: str) -> tuple[ModelBody, bool]:
    """A row for an uploaded file; the same file with the same shapes is the same model. True when it is new.

    A model that was rejected is imported once more, and so are its rejected variants: the worker may since have learned
    the operators.
    """
    shapes = parse_inputs(upload.fields.get("inputs", []))
    name = (upload.first("name") or upload.filename.rsplit("/", 1)[-1] or "model")[:200]
    kind = source_of(upload.filename)  # the import looks closer

    def work(session: Session) -> tuple[ModelBody, bool]:
        _check_quotas(context.settings, session, upload, owner)  # once more: others of the owner may have come first
        new = Model(
            id=new_id(MODEL),
            name=name,
            source=kind,
            sha256=upload.sha256,
            inputs_key=inputs_key(shapes),
            size=upload.size,
            owner=owner,
            state=ModelState.IMPORTING,
            preparation=for_target(DEFAULT_KIND, operator=False).key,
        )
        model, fresh = find_or_add(session, new)
        _import_again(session, model, new.preparation)
        return describe(session, [model])[0], fresh

    return context.write(work)


def check_upload(context: Context, upload: Upload, owner: str) -> None:
    """Refuse an upload before its file is kept. Raises InvalidInput, StorageQuotaExceeded."""
    check_form(upload)
    with context.reading() as session:
        _check_quotas(context.settings, session, upload, owner)


def _check_quotas(settings: Settings, session: Session, upload: Upload, owner: str) -> None:
    """A model that is there already costs nothing more. Raises StorageQuotaExceeded."""
    key = inputs_key(parse_inputs(upload.fields.get("inputs", [])))
    if settings.admin_key is None or model_rows.find(session, upload.sha256, key, owner) is not None:
        return
    models, used = model_rows.usage(session, owner)
    remedy = "delete models that you do not need, or ask an operator for more"
    if settings.max_models and models >= settings.max_models:
        raise StorageQuotaExceeded(
            f"{owner} keeps {models} models, as many as TUNESMITH_MAX_MODELS allows: {remedy}",
            field="file",
            quota="max_models",
            limit=settings.max_models,
            used=models,
        )
    if settings.max_stored_bytes and used + upload.size > settings.max_stored_bytes:
        raise StorageQuotaExceeded(
            f"with {upload.size} bytes more than its {used} {owner} would exceed the {settings.max_stored_bytes} that "
            f"TUNESMITH_MAX_STORED_BYTES allows: {remedy}",
            field="file",
            value=upload.size,
            quota="max_stored_bytes",
            limit=settings.max_stored_bytes,
            used=used,
        )


def check_form(upload: Upload) -> None:
    """Refuse a form before its file is kept. Raises InvalidInput."""
    unknown = sorted(set(upload.fields) - FORM_FIELDS)
    if unknown:
        name = unknown[0][:100]
        raise InvalidInput(f"the form has no field {name!r}; known are file, name, inputs", field=name)
    parse_inputs(upload.fields.get("inputs", []))


def operator_model(session: Session, operator: str, owner: str) -> Model:
    """The model row of an operator spec. Raises InvalidOperator."""
    spec = parse_operator(operator)
    sha = hashlib.sha256(spec.canonical.encode()).hexdigest()
    return _of_specs(session, spec, owner, name=spec.canonical, source=OPERATOR, operator=spec.canonical, sha256=sha)


def operators_model(session: Session, specs: Sequence[OperatorSpec], owner: str) -> Model:
    """The model row of a list of operators of one precision, whose text is a blob."""
    size, name = len(list_text(specs)), specs[0].canonical if len(specs) == 1 else f"{len(specs)} operators"
    return _of_specs(session, specs[0], owner, name=name, source=OPERATORS, sha256=content_hash(specs), size=size)


def _of_specs(session: Session, first: OperatorSpec, owner: str, **values: Any) -> Model:
    new = Model(
        id=new_id(MODEL),
        owner=owner,
        state=ModelState.IMPORTING,
        preparation=of_operator(DEFAULT_KIND, first).key,
        **{"inputs_key": "", "size": 0, **values},
    )
    model, _ = find_or_add(session, new)
    _import_again(session, model, new.preparation)
    return model


def _import_again(session: Session, model: Model, preparation: str) -> None:
    """Import what was rejected once more: the model by today's ``preparation``, unless a variant has it already."""
    variants = model_rows.variants(session, model.id)
    own = model.preparation if preparation in {row.preparation for row in variants} else preparation
    for row, key in ((model, own), *((row, row.preparation) for row in variants)):
        if row.state is ModelState.REJECTED:
            transition(
                session,
                row,
                ModelState.IMPORTING,
                attempt=1,
                dispatched=0,
                worker=None,
                deadline=None,
                error=None,
                preparation=key,
            )


def show(context: InContext, caller: InCaller, model_id: str) -> ModelBody:
    """One model. Raises NotFound."""
    with context.reading() as session:
        return describe(session, [visible(session, caller, model_id)])[0]


def visible(session: Session, caller: Caller, model_id: str) -> Model:
    """The model's row. Raises NotFound, also for a variant and for what the caller may not see."""
    model = by_key.get(session, Model, model_id)
    if model is None or model.variant_of is not None or not caller.sees(model.owner):
        raise NotFound(f"there is no model {model_id}", field="model_id", value=model_id)
    return model


def page(context: InContext, caller: InCaller, limit: Limit = 50, cursor: PlaceCursor = None) -> Page[ModelBody]:
    """Models, newest first."""
    before = decode_time(cursor)
    with context.reading() as session:
        rows = model_rows.page(session, owner=caller.filter, before=before, limit=limit + 1)
        more = encode_place(rows[limit - 1].created_at, rows[limit - 1].id) if len(rows) > limit else None
        return Page(items=describe(session, rows[:limit]), next_cursor=more)


def tasks(
    context: InContext, caller: InCaller, model_id: str, limit: Limit = 200, cursor: Cursor = None
) -> Page[ModelTaskBody]:
    """A model's tasks in order."""
    after = decode_number(cursor, -1)
    with context.reading() as session:
        visible(session, caller, model_id)
        rows = model_rows.tasks(session, model_id, after, limit + 1)
        items = [
            ModelTaskBody.of(
                task,
                workload=task.workload_hash,
                family=workload.family,
                flops=workload.flops,
                args=[TensorBody(name="", dtype=dtype, shape=shape) for dtype, shape in workload.args],
            )
            for task, workload in rows[:limit]
        ]
        return Page(items=items, next_cursor=str(rows[limit - 1][0].position) if len(rows) > limit else None)


def delete(context: InContext, caller: InCaller, model_id: str) -> None:
    """Remove a model that no job uses, its variants, and those of their blobs that nothing else names.

    Raises:
        NotFound: there is none that the caller may see.
        Conflict: jobs use it.
    """

    def work(session: Session) -> set[str]:
        model = visible(session, caller, model_id)
        jobs = model_rows.jobs_of(session, model.id)
        if jobs:
            own = [job for job, owner in jobs if caller.sees(owner)]
            which = ", ".join(own) or "those of an operator; ask for their removal"
            raise Conflict(f"jobs use this model; delete them first: {which}", jobs=own)
        blobs = blob_references.of_model(session, model.id)
        model_import.delete(session, model)
        return blobs

    free(context.readers, context.blobs, context.write(work))


def describe(session: Session, models: Sequence[Model]) -> list[ModelBody]:
    """What the API says of models."""
    counts = model_rows.task_counts(session, [model.id for model in models])
    return [
        ModelBody.of(
            model,
            inputs=None
            if model.inputs is None
            else [TensorBody(name=name, dtype=dtype, shape=shape) for name, dtype, shape in model.inputs],
            input_shapes=json.loads(model.inputs_key) if model.inputs_key else {},
            tasks=counts.get(model.id, 0),
        )
        for model in models
    ]
