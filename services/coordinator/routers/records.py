"""The dataset: records of all jobs, and the workloads that they are of."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.orm import Session

from db.models import WorkloadRow
from db.queries import by_key, champions, dataset, record_imports
from db.queries.dataset import RecordFilter, RecordPart
from db.queries.jobs import owner_of
from db.queries.totals import total
from db.queries.trial_counts import Group
from services.coordinator import exports
from services.coordinator.answer_headers import ATTACHMENT
from services.coordinator.auth import Caller, InCaller
from services.coordinator.context import InContext
from services.coordinator.cursors import Limit, PlaceCursor, decode_number, decode_time, encode_place
from services.coordinator.record_query import FAMILY, TARGET, RecordExport, RecordPage, RecordQuery
from tunesmith.answers.base import Page
from tunesmith.answers.models import TensorBody
from tunesmith.answers.records import RecordBody, RecordStats, TargetBest, WorkloadBody, WorkloadDetail, WorkloadGroup
from tunesmith.errors import InvalidInput, NotFound
from tunesmith.types import CacheState

router = APIRouter(prefix="/v1", tags=["dataset"])
PARQUET, ZIP = "application/vnd.apache.parquet", "application/zip"


@router.get("/records")
def list_records(context: InContext, caller: InCaller, query: Annotated[RecordPage, Query()]) -> Page[RecordBody]:
    """Measured candidates of all jobs, newest first. Jobs of other users are not named."""
    if query.sort == "latency" and query.workload is None:
        raise InvalidInput(
            "sort=latency compares the records of one workload: name it with workload=HASH, or use sort=-id",
            field="sort",
            value=query.sort,
        )
    wanted, limit = query.wanted(), query.limit
    with context.reading() as session:
        found = []
        if _visible(session, caller, wanted):
            found = _page(session, wanted, query.sort, query.cursor, limit + 1)
    more = str(found[limit - 1].record.id) if len(found) > limit else None
    return Page(items=[_record(part, caller) for part in found[:limit]], next_cursor=more)


@router.get("/records/stats")
def records_stats(context: InContext, caller: InCaller, query: Annotated[RecordQuery, Query()]) -> RecordStats:
    """Counts of records by operator, target, processor, precision and failure. Reads every record that is meant."""
    wanted = query.wanted(revoked=False)
    with context.reading() as session:
        if not _visible(session, caller, wanted):
            return RecordStats()
        found = dataset.summary(session, wanted)
        return RecordStats(**dict(found), quarantined=record_imports.quarantined(session, caller.filter))


@router.post(
    "/records/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {PARQUET: {}, ZIP: {}},
            "description": "A dataset file, as it is made, or a zip.",
            "headers": ATTACHMENT,
        }
    },
)
def export_records(context: InContext, caller: InCaller, request: RecordExport) -> Response:
    """Records of all jobs as a dataset file (Parquet), with all that rebuilds their schedules; or the best schedules as
    a MetaSchedule database."""
    wanted = request.wanted(revoked=False)
    if request.format == "metaschedule":
        _check_metaschedule(request)
        headers = {"Content-Disposition": 'attachment; filename="database.zip"'}
        return Response(exports.metaschedule(context, wanted), media_type=ZIP, headers=headers)
    with context.reading() as session:
        if not _visible(session, caller, wanted):
            raise NotFound(f"there is no job {wanted.job}", field="job", value=wanted.job)
    headers = {"Content-Disposition": 'attachment; filename="records.parquet"'}
    return StreamingResponse(exports.parquet(context, wanted, request.licence), media_type=PARQUET, headers=headers)


def _check_metaschedule(request: RecordExport) -> None:
    """Raises InvalidInput for a filter that says nothing about best schedules."""
    odd = request.model_fields_set - {"format", "licence", "workload", "family", "target", "cache"}
    odd = {name for name in odd if getattr(request, name) is not None}
    if odd:
        name = sorted(odd)[0]
        raise InvalidInput(
            f"format=metaschedule takes workload, family, target and cache, not {name}: best schedules are of all jobs",
            field=name,
        )


def _visible(session: Session, caller: Caller, wanted: RecordFilter) -> bool:
    """False where records of another user's job are meant."""
    return wanted.job is None or caller.sees(owner_of(session, wanted.job))


def _page(session: Session, wanted: RecordFilter, sort: str, cursor: str | None, limit: int) -> list[RecordPart]:
    place = None if cursor is None else decode_number(cursor, 0)
    if sort == "-id":
        return dataset.newest(session, wanted, before=place, limit=limit)
    if sort == "id":
        return dataset.oldest(session, wanted, after=place, limit=limit)
    try:
        return dataset.fastest(session, wanted, after=place, limit=limit)
    except LookupError as error:
        raise InvalidInput(
            f"the record {cursor} of the cursor is gone: begin with the first page again", field="cursor", value=cursor
        ) from error


def _record(part: RecordPart, caller: Caller) -> RecordBody:
    row = part.record
    return RecordBody.of(
        row,
        workload=row.workload_hash,
        target=row.target_hash,
        device_class=part.device_class,
        sketch=row.sketch_hash,
        revoked=row.revoked_at is not None,
        job=row.job_id if caller.sees(part.owner) else None,
    )


@router.get("/workloads")
def list_workloads(
    context: InContext,
    caller: InCaller,
    family: Annotated[str | None, Query(max_length=100, description=FAMILY)] = None,
    target: Annotated[str | None, Query(max_length=200, description=TARGET)] = None,
    q: Annotated[str | None, Query(max_length=100, description="Part of a name, or the beginning of a hash.")] = None,
    limit: Limit = 50,
    cursor: PlaceCursor = None,
) -> Page[WorkloadBody]:
    """Tensor programs that have records, newest first."""
    before = decode_time(cursor)
    with context.reading() as session:
        wanted = dataset.measured_workloads(session, family=family, target=target, text=q)
        rows = dataset.workloads(session, wanted, before=before, limit=limit + 1)
        counts = context.workloads.of(session, [row.hash for row in rows[:limit]])
        count = total(session, wanted)
    more = encode_place(rows[limit - 1].created_at, rows[limit - 1].hash) if len(rows) > limit else None
    items = [WorkloadBody.of(row, **_about(row, counts)) for row in rows[:limit]]
    return Page(items=items, next_cursor=more, total=count)


@router.get("/workloads/{workload}")
def show_workload(
    context: InContext, caller: InCaller, workload: Annotated[str, Path(max_length=64)]
) -> WorkloadDetail:
    """One tensor program: what it computes, its records by target and precision, and the best on each target."""
    with context.reading() as session:
        row = by_key.find(session, WorkloadRow, workload)
        if row is None or not dataset.has_records(session, workload):
            raise NotFound(f"no record of a workload {workload} is known", field="hash", value=workload)
        counts = context.workloads.of(session, [workload])
        best = champions.measured(session, workload)
        return WorkloadDetail.of(
            row,
            **_about(row, counts),
            groups=[WorkloadGroup.of(group) for group in counts],
            best=[
                TargetBest(
                    target=target.hash,
                    device_class=target.device_class,
                    cache=CacheState(schedule.cache),
                    latency=schedule.latency,
                )
                for schedule, target, _, _ in best
            ],
        )


def _about(row: WorkloadRow, counts: list[Group]) -> dict[str, object]:
    mine = [group for group in counts if group.workload == row.hash]
    return {
        "args": [TensorBody(name="", dtype=dtype, shape=shape) for dtype, shape in row.args],
        "records": sum(group.records for group in mine),
        "failures": sum(group.failures for group in mine),
    }
