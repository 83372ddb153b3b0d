"""Imports of records, and what of their rows is there."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import Device, Record, RecordImport, SketchRow, TargetRow, WorkloadRow
from db.queries import devices
from db.queries.by_time import last_before
from tunesmith.messages import Calibration
from tunesmith.types import Origin

IMPORTED = Record.origin == sa.literal_column(f"'{Origin.IMPORTED.value}'")
MEASURED = Record.origin != sa.literal_column(f"'{Origin.IMPORTED.value}'")
"""Written as the indexes' conditions are: with a parameter in it, neither database would know which index serves."""
LONGEST_TRANSACTION = dt.timedelta(hours=1)
"""By so much may a record be older than others with smaller ids."""
SEPARATOR = ","
"""Stands between hashes, which are hexadecimal."""


def page(
    session: Session, *, owner: str | None, before: tuple[dt.datetime, str] | None, limit: int
) -> Sequence[RecordImport]:
    """Imports, newest first; with ``owner`` only those that it sent."""
    row = RecordImport
    query = sa.select(row).order_by(row.created_at.desc(), row.id.desc()).limit(limit)
    if owner is not None:
        query = query.where(row.owner == owner)
    if before is not None:
        query = query.where(sa.tuple_(row.created_at, row.id) < before)
    return session.scalars(query).all()


def quarantined(session: Session, owner: str | None) -> dict[str, int]:
    """Rows that imports refused, by reason; with ``owner`` only those of its imports."""
    query = sa.select(RecordImport.result).where(RecordImport.result.is_not(None))
    if owner is not None:
        query = query.where(RecordImport.owner == owner)
    found: Counter[str] = Counter()
    for result in session.scalars(query):
        found.update((result or {}).get("quarantined", {}))
    return dict(sorted(found.items()))


def measured_contents(session: Session, contents: Collection[str]) -> set[str]:
    """Which of some records were measured here, by the hashes of their contents.

    Whether an import brought one is not asked before it is stored: its unique index refuses it.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.text("SET LOCAL enable_seqscan = off"))
        return set(session.scalars(looked_up(contents)))
    return set(session.scalars(sa.select(Record.content).where(MEASURED, Record.content.in_(contents))))


def imported_contents(session: Session, contents: Collection[str]) -> set[str]:
    """Which of some records an import brought, by the hashes of their contents, on PostgreSQL."""
    return set(session.scalars(sa.select(Record.content).where(IMPORTED, Record.content == sa.any_(_array(contents)))))


def looked_up(contents: Collection[str]) -> sa.Select[tuple[str]]:
    """PostgreSQL's query for :func:`measured_contents`: a look for each hash.

    While an import fills the table, the server's statistics are older than its rows: asked for all hashes at once, it
    reads the whole table for every few thousand records.
    """
    wanted = sa.func.unnest(_array(contents)).table_valued("hash", name="wanted").render_derived()
    found = sa.select(Record.content).where(MEASURED, Record.content == wanted.c.hash).limit(1).lateral("found")
    return sa.select(found.c.content).select_from(wanted.join(found, sa.true()))


def _array(contents: Collection[str]) -> sa.ColumnElement[Any]:
    """One text, however many there are: a list takes ten times as long."""
    return sa.func.string_to_array(sa.literal(SEPARATOR.join(contents)), SEPARATOR, type_=sa.ARRAY(sa.String))


def added(session: Session, import_id: str, queued: dt.datetime) -> tuple[int, int]:
    """How many records an import brought since it was queued, and how many of them are failures.

    Each import asks this once, so there is no index of imports, which each of its records would have to be put into.
    """
    first = last_before(session, Record, queued - LONGEST_TRANSACTION)
    query = sa.select(sa.func.count(), sa.func.count(Record.failure)).where(
        IMPORTED, Record.id > first, Record.import_id == import_id
    )
    total, failed = session.execute(query).one()
    return total, failed


def known_targets(session: Session, hashes: Collection[str]) -> set[str]:
    """Which targets are there."""
    return set(session.scalars(sa.select(TargetRow.hash).where(TargetRow.hash.in_(hashes))))


def known_sketches(session: Session, hashes: Collection[str]) -> set[str]:
    """Which sketches are there."""
    return set(session.scalars(sa.select(SketchRow.hash).where(SketchRow.hash.in_(hashes))))


def known_workloads(session: Session, hashes: Collection[str]) -> dict[str, WorkloadRow]:
    """The workloads that are there, by hash."""
    return {row.hash: row for row in session.scalars(sa.select(WorkloadRow).where(WorkloadRow.hash.in_(hashes)))}


def calibrations(session: Session) -> dict[tuple[str, str], Calibration]:
    """What calibration found of this service's devices, by device class and processor."""
    found: dict[tuple[str, str], Calibration] = {}
    for device in session.scalars(sa.select(Device).where(~Device.simulated).order_by(Device.seen_at)):
        for device_class in device.calibrations:
            known = devices.calibration_of(device, device_class)
            if known is not None:
                found[device_class, str(device.environment.get("cpu", ""))] = known
    return found
