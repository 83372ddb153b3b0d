"""The dataset as a Parquet file, made while it is sent: one short transaction for each row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

from sqlalchemy.orm import Session

from db.models.base import utcnow
from db.queries import exchange
from db.queries.dataset import RecordFilter
from db.queries.exchange import ExportedRecord
from services.coordinator.context import Context
from services.coordinator.sink import Sink
from tunesmith.dataset.parquet import DatasetWriter
from tunesmith.dataset.rows import Definition, Kind

RECORDS = 2000
"""Records of a row group, which are read in one transaction."""


def parquet(context: Context, wanted: RecordFilter, licence: str) -> Iterator[bytes]:
    """The records that are there now and meet the filter, and the manifest; none where the filter is None."""
    sink = Sink()
    writer = DatasetWriter(cast("IO[bytes]", sink))
    known: set[tuple[Kind, str]] = set()
    with context.reading() as session:
        last, after = exchange.last_id(session), 0
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
    for sketch in exchange.sketches(
        session, fresh(Kind.SKETCH, {each.row.sketch for each in found if each.row.sketch is not None})
    ):
        yield Definition(Kind.SKETCH, sketch.hash, {"workload": sketch.workload_hash, "body": sketch.body})
    environments = {each.row.environment: each.environment for each in found}
    for hash_ in fresh(Kind.ENVIRONMENT, set(environments)):
        yield Definition(Kind.ENVIRONMENT, hash_, environments[hash_])
