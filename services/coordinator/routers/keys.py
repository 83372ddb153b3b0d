"""API keys, and the audit log of what was done with them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy.orm import Session

from db.models import ApiKey
from db.queries import audit, by_key, fleet
from db.transactions.keys import create
from db.transactions.locks import lock_operators
from services.coordinator.answer_headers import LOCATION
from services.coordinator.auth import InCaller, digest, new_key
from services.coordinator.context import InContext
from services.coordinator.cursors import Cursor, Limit, decode_number
from services.coordinator.requests import KeyRequest
from tunesmith.answers.base import Page
from tunesmith.answers.fleet import AuditBody, KeyBody, NewKeyBody
from tunesmith.errors import Conflict, NotFound

router = APIRouter(prefix="/v1", tags=["keys"])


@router.post("/keys", status_code=201, responses={201: {"headers": LOCATION}})
def create_key(request: KeyRequest, response: Response, context: InContext, caller: InCaller) -> NewKeyBody:
    """Create an API key; it is shown only once."""
    caller.require("operator")
    key_id, key = new_key()

    def work(session: Session) -> NewKeyBody:
        row = create(session, key_id, digest(key), request.owner, request.scopes)
        return NewKeyBody.of(row, key=key)

    body = context.write(work)
    response.headers["Location"] = f"/v1/keys/{body.id}"
    return body


@router.get("/keys")
def list_keys(context: InContext, caller: InCaller) -> Page[KeyBody]:
    """API keys without their secrets."""
    caller.require("operator")
    with context.reading() as session:
        return Page(items=[KeyBody.of(row) for row in fleet.keys(session)])


@router.delete("/keys/{key_id}", status_code=204)
def revoke_key(context: InContext, caller: InCaller, key_id: str) -> None:
    """Revoke a key."""
    caller.require("operator")

    def work(session: Session) -> None:
        operators = [row.id for row in lock_operators(session)]
        row = by_key.find(session, ApiKey, key_id)
        if row is None:
            raise NotFound(f"there is no key {key_id}", field="id", value=key_id)
        if operators == [row.id]:
            raise Conflict(
                f"{key_id} is the last key with the scope operator, and nobody could create another without it: "
                "create a new one first, or set another TUNESMITH_ADMIN_KEY and restart",
                field="id",
                value=key_id,
            )
        row.revoked = True

    context.write(work)


@router.get("/audit")
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
