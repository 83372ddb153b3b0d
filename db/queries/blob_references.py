"""Which blobs the rows name: what no row names may go."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from db.chunks import chunks
from db.models import Batch, CostModelRow, Listing, Model, RecordImport, WorkloadRow

COLUMNS: tuple[InstrumentedAttribute[str] | InstrumentedAttribute[str | None], ...] = (
    Model.sha256,
    Model.module_blob,
    Model.params_blob,
    WorkloadRow.module_blob,
    WorkloadRow.metaschedule_blob,
    Batch.features_blob,
    CostModelRow.blob,
    RecordImport.blob,
    Listing.blob,
)
"""Every column that names a blob; a test compares them with the schema."""


def named(session: Session, blobs: Collection[str] | None = None) -> set[str]:
    """The blobs that rows name; of ``blobs`` those, or all of them."""
    if blobs is None:
        return set(session.scalars(_union(None)))
    found: set[str] = set()
    for some in chunks(sorted(blobs)):
        found.update(session.scalars(_union(some)))
    return found


def _union(blobs: Collection[str] | None) -> sa.CompoundSelect[tuple[str]]:
    parts = []
    for column in COLUMNS:
        query = sa.select(column).where(column.is_not(None))
        if column is Model.sha256:
            query = query.where(Model.operator.is_(None))  # an operator has the hash of its spec
        parts.append(query if blobs is None else query.where(column.in_(blobs)))
    return sa.union(*parts)


def of_model(session: Session, model_id: str) -> set[str]:
    """The blobs that a model and its variants name."""
    mine = sa.or_(Model.id == model_id, Model.variant_of == model_id)
    rows = session.execute(sa.select(Model.sha256, Model.module_blob, Model.params_blob).where(mine))
    return {sha for row in rows for sha in row if sha is not None}
