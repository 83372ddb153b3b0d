"""Trace skeletons, stored once by hash."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from db.models import SketchRow


def get(session: Session, hashes: Collection[str]) -> dict[str, dict[str, Any]]:
    """The bodies of sketches by hash; unknown hashes are left out."""
    rows = session.execute(sa.select(SketchRow.hash, SketchRow.body).where(SketchRow.hash.in_(hashes)))
    return {row.hash: row.body for row in rows}
