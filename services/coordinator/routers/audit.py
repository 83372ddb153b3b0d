"""The audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from db.queries import audit
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.cursors import Cursor, Limit, decode_number
from tunesmith.answers.base import Page
from tunesmith.answers.fleet import AuditBody

router = APIRouter(prefix="/v1/audit", tags=["keys"])


@router.get("")
def list_audit(
    context: InContext,
    caller: InCaller,
    owner: Annotated[str | None, Query(max_length=100, description="Only entries of this owner.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[AuditBody]:
    """Changes, refusals and uses of keys, newest first."""
    caller.require("operator")
    before = None if cursor is None else decode_number(cursor, 0)
    with context.reading() as session:
        found = audit.page(session, owner=owner, before=before, limit=limit + 1)
        total = audit.count(session, owner)
    items = [AuditBody.of(row) for row in found[:limit]]
    more = str(items[-1].id) if len(found) > limit else None
    return Page(items=items, next_cursor=more, total=total)
