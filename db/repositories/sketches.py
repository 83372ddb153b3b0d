"""Trace skeletons, stored once by hash."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db import clock
from db.models import SketchRow
from db.repositories.upsert import insert_missing


def ensure(session: Session, workload: str, bodies: Mapping[str, dict[str, Any]]) -> None:
    """Store the sketches of a workload, by hash, that are not there yet."""
    now = clock.now(session)
    rows = [{"hash": key, "workload_hash": workload, "body": bodies[key], "created_at": now} for key in sorted(bodies)]
    insert_missing(session, SketchRow, rows)


def get(session: Session, hashes: Collection[str]) -> dict[str, dict[str, Any]]:
    """The bodies of sketches by hash; unknown hashes are left out."""
    rows = session.execute(sa.select(SketchRow.hash, SketchRow.body).where(SketchRow.hash.in_(hashes)))
    return {row.hash: row.body for row in rows}
