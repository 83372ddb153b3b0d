"""The audit log."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from fastapi import APIRouter, Query

from db.queries import audit
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.schemas.common import Answer, Cursor, Limit, Page, decode_number

router = APIRouter(prefix="/v1/audit", tags=["keys"])


class AuditBody(Answer):
    """Who did what: the owner and the key, null without a valid one; the route, and the path of what it was done to."""

    id: int
    owner: str | None
    key_id: str | None
    address: str
    action: str
    target: str
    status: int
    request_id: str
    created_at: dt.datetime


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
    items = [AuditBody.of(row) for row in found[:limit]]
    return Page(items=items, next_cursor=str(items[-1].id) if len(found) > limit else None)
