"""What an import of records writes: targets, workloads, sketches, and records that are claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import Record, RecordImport, SketchRow, TargetRow, WorkloadRow
from db.queries import exchange, record_imports
from db.transactions import events
from db.transactions.transitions import transition
from db.transactions.upsert import insert_many, insert_missing
from tunesmith.dataset.rows import About, RecordRow
from tunesmith.events import RecordImportQueued
from tunesmith.resources import RECORD_IMPORT, new_id
from tunesmith.states import WorkState
from tunesmith.types import Origin


@dataclass(frozen=True)
class Claim:
    """A record that an import brings, with its environment and what lists say of it."""

    row: RecordRow
    content: str
    environment: dict[str, Any]
    about: About


def enqueue(session: Session, sha256: str, size: int, name: str, owner: str) -> RecordImport:
    """A file to be imported."""
    row = RecordImport(id=new_id(RECORD_IMPORT), owner=owner, name=name, file_hash=sha256, blob=sha256, size=size)
    session.add(row)
    session.flush()
    events.append(session, RecordImportQueued(row.id, size))
    return row


def fill_contents(session: Session, limit: int) -> int:
    """Give records the hashes of their contents, up to ``limit`` of those without one; how many there were."""
    without = sa.select(Record).where(record_imports.MEASURED, Record.content.is_(None))
    rows = session.scalars(without.order_by(Record.id).limit(limit)).all()
    values = [{"key": row.id, "value": exchange.exported(row).row.content} for row in rows]
    if values:
        records = Record.__table__
        statement = sa.update(records).where(records.c.id == sa.bindparam("key"))  # type: ignore[arg-type]
        session.connection().execute(statement.values(content=sa.bindparam("value")), values)
    return len(values)


def add_targets(session: Session, targets: Sequence[TargetRow]) -> None:
    """Targets that are new."""
    now = clock.now(session)
    rows = [
        {"hash": row.hash, "json": row.json, "device_class": row.device_class, "created_at": now} for row in targets
    ]
    insert_missing(session, TargetRow, sorted(rows, key=lambda row: str(row["hash"])))


def add_workloads(session: Session, workloads: Sequence[dict[str, Any]]) -> None:
    """Workloads that are new, as the columns of their rows."""
    now = clock.now(session)
    rows = sorted(workloads, key=lambda row: str(row["hash"]))
    insert_missing(session, WorkloadRow, [row | {"created_at": now} for row in rows])


def add_sketches(session: Session, sketches: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
    """Sketches that are new: hash, workload and body of each."""
    now = clock.now(session)
    rows = [
        {"hash": hash_, "workload_hash": workload, "body": body, "created_at": now}
        for hash_, workload, body in sorted(sketches, key=lambda sketch: sketch[0])
    ]
    insert_missing(session, SketchRow, rows)


def add_records(session: Session, import_id: str, claims: Sequence[Claim]) -> None:
    """Records that no earlier import brought.

    PostgreSQL does not wait for the disk: an import of which a crash took the last records is not at its end, and its
    next attempt brings them again.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.text("SET LOCAL synchronous_commit = off"))
    now = clock.now(session)

    def missing() -> list[Claim]:
        known = record_imports.imported_contents(session, [claim.content for claim in claims])
        return [claim for claim in claims if claim.content not in known]

    insert_many(session, Record, claims, lambda claim: {**_values(claim, import_id), "created_at": now}, missing)


def _values(claim: Claim, import_id: str) -> dict[str, Any]:
    row, about = claim.row, claim.about
    return {
        "index": 0,
        "workload_hash": row.workload,
        "target_hash": row.target,
        "sketch_hash": row.sketch,
        "decisions": list(row.decisions),
        "samples": list(row.samples),
        "latency": row.latency,
        "failure": row.failure,
        "message": "",
        "build_seconds": row.build_seconds,
        "run_seconds": row.run_seconds,
        "device_seconds": row.device_seconds,
        "stopped": row.stopped,
        "duplicate": row.duplicate,
        "environment": claim.environment,
        "simulated": about.simulated,
        "cache": about.cache,
        "family": about.family,
        "precision": row.precision,
        "processor": about.processor,
        "build": about.build,
        "origin": Origin.IMPORTED.value,
        "content": claim.content,
        "measured_at": row.measured_at,
        "import_id": import_id,
    }


def finish(session: Session, row: RecordImport, manifest: dict[str, Any], result: dict[str, Any]) -> None:
    """The end of an import."""
    transition(
        session,
        row,
        WorkState.DONE,
        data={"added": result["added"], "known": result["known"], "quarantined": sum(result["quarantined"].values())},
        manifest=manifest,
        result=result,
        blob=None,
        finished_at=clock.now(session),
    )
