"""The dataset as a file: Parquet, made while it is sent, or its best schedules as a MetaSchedule database."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

from sqlalchemy.orm import Session

from db.models.base import utcnow
from db.queries import exchange
from db.queries.dataset import RecordFilter
from db.queries.exchange import BestSchedule, ExportedRecord
from services.coordinator.context import Context
from services.coordinator.sink import Sink
from tunesmith import metaschedule as files
from tunesmith.dataset.parquet import DatasetWriter
from tunesmith.dataset.rows import Definition, Kind
from tunesmith.errors import InvalidInput, NotFound
from tunesmith.types import TensorSpec

RECORDS = 2000
"""Records of a row group, which are read in one transaction."""


def parquet(context: Context, wanted: RecordFilter, licence: str) -> Iterator[bytes]:
    """The records that are there now and meet the filter, and the manifest; none where the filter is None.

    The database is asked before the first byte is: once an answer has begun, nobody can be told that it is away.
    """
    with context.reading() as session:
        last = exchange.last_id(session)
    return _chunks(context, wanted, licence, last)


def _chunks(context: Context, wanted: RecordFilter, licence: str, last: int) -> Iterator[bytes]:
    """The file of the records with ids up to ``last``."""
    sink = Sink()
    writer = DatasetWriter(cast("IO[bytes]", sink))
    known: set[tuple[Kind, str]] = set()
    after = 0
    while True:
        with context.reading() as session:
            found = exchange.records(session, wanted, after=after, last=last, limit=RECORDS)
            for definition in _definitions(context, session, found, known):
                writer.define(definition)
        if not found:
            break
        for each in found:
            writer.record(each.row, each.device_class, each.about)
        writer.flush()
        after = found[-1].id
        yield sink.take()
    writer.close(utcnow(), licence)
    yield sink.take()


def _definitions(
    context: Context, session: Session, found: Sequence[ExportedRecord], known: set[tuple[Kind, str]]
) -> Iterator[Definition]:
    """What the records name and no record before them did."""

    def fresh(kind: Kind, hashes: set[str]) -> list[str]:
        new = sorted(hash_ for hash_ in hashes if (kind, hash_) not in known)
        known.update((kind, hash_) for hash_ in new)
        return new

    for target in exchange.targets(session, fresh(Kind.TARGET, {each.row.target for each in found})):
        yield Definition(Kind.TARGET, target.hash, target.json)
    for workload in exchange.workloads(session, fresh(Kind.WORKLOAD, {each.row.workload for each in found})):
        body: dict[str, Any] = {
            "name": workload.name,
            "family": workload.family,
            "args": workload.args,
            "flops": workload.flops,
            "module": context.blobs.get_bytes(workload.module_blob).decode(),
        }
        yield Definition(Kind.WORKLOAD, workload.hash, body)
    # Equal sketches of several workloads are one: what a file says of it is what its own records say.
    named = {each.row.sketch: each.row.workload for each in reversed(found) if each.row.sketch is not None}
    for sketch in exchange.sketches(session, fresh(Kind.SKETCH, set(named))):
        yield Definition(Kind.SKETCH, sketch.hash, {"workload": named[sketch.hash], "body": sketch.body})
    environments = {each.row.environment: each.environment for each in found}
    for hash_ in fresh(Kind.ENVIRONMENT, set(environments)):
        yield Definition(Kind.ENVIRONMENT, hash_, environments[hash_])


def metaschedule(context: Context, wanted: RecordFilter) -> bytes:
    """A zip with a MetaSchedule database of the best schedules that meet the filter.

    Raises:
        NotFound: there are none.
        InvalidInput: they are of several targets, which no such database tells apart.
    """
    with context.reading() as session:
        found = exchange.best_schedules(session, wanted)
    if not found:
        raise NotFound("no best schedule is known that meets the filter", field="format", value="metaschedule")
    classes = sorted({best.target.device_class for best in found})
    if len({best.target.hash for best in found}) > 1:
        raise InvalidInput(
            f"a MetaSchedule database holds schedules of one target: name one of {', '.join(classes[:20])}",
            field="target",
            value=wanted.target,
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.database_files([_database_record(context, best) for best in found]).items():
            archive.writestr(name, text)
    return buffer.getvalue()


def _database_record(context: Context, best: BestSchedule) -> files.DatabaseRecord:
    workload = json.loads(context.blobs.get_bytes(best.workload.metaschedule_blob))
    return files.DatabaseRecord(
        workload=(str(workload[0]), str(workload[1])),
        trace=best.schedule.trace,
        run_seconds=tuple(best.samples),
        target=best.target.json,
        args=tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in best.workload.args),
    )
