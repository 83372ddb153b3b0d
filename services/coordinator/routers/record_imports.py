"""Files of records on their way into the dataset."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session

from db.models import RecordImport
from db.queries import by_key, record_imports
from db.transactions import record_import
from services.coordinator.answer_headers import LOCATION
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.cursors import Limit, PlaceCursor, decode_time, encode_place
from services.coordinator.uploads import Upload, form, receive
from tunesmith.answers.base import Page
from tunesmith.answers.records import RecordImportBody, RecordImportResult
from tunesmith.errors import InvalidInput, NotFound

router = APIRouter(prefix="/v1/records", tags=["dataset"])
FORM = form("A dataset file, as `POST /v1/records/export` answers.")


@router.post("/import", status_code=202, openapi_extra=FORM, responses={202: {"headers": LOCATION}})
async def import_records(
    request: Request, response: Response, context: InContext, caller: InCaller
) -> RecordImportBody:
    """Send a dataset file. A worker reads it; its records are claims until they are measured here."""
    upload = await receive(request, context.blobs, context.settings.max_upload_bytes, check=_check)

    def work(session: Session) -> RecordImportBody:
        name = upload.filename.rsplit("/", 1)[-1][:200]
        row = record_import.enqueue(session, upload.sha256, upload.size, name, caller.owner)
        return _body(row)

    body = await run_in_threadpool(context.write, work)
    response.headers["Location"] = f"/v1/records/imports/{body.id}"
    return body


def _check(upload: Upload) -> None:
    if upload.fields:
        name = sorted(upload.fields)[0][:100]
        raise InvalidInput(f"the form has no field {name!r}; known is file", field=name)


@router.get("/imports")
def list_imports(
    context: InContext, caller: InCaller, limit: Limit = 50, cursor: PlaceCursor = None
) -> Page[RecordImportBody]:
    """The caller's imports, newest first."""
    before = decode_time(cursor)
    with context.reading() as session:
        rows = record_imports.page(session, owner=caller.filter, before=before, limit=limit + 1)
    more = encode_place(rows[limit - 1].created_at, rows[limit - 1].id) if len(rows) > limit else None
    return Page(items=[_body(row) for row in rows[:limit]], next_cursor=more)


@router.get("/imports/{import_id}")
def show_import(context: InContext, caller: InCaller, import_id: str) -> RecordImportBody:
    """One import: its state, and what became of its rows."""
    with context.reading() as session:
        row = by_key.get(session, RecordImport, import_id)
        if row is None or not caller.sees(row.owner):
            raise NotFound(f"there is no import {import_id}", field="id", value=import_id)
        return _body(row)


def _body(row: RecordImport) -> RecordImportBody:
    result = None if row.result is None else RecordImportResult.model_validate(row.result)
    return RecordImportBody.of(row, sha256=row.file_hash, result=result)
