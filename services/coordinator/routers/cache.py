"""A small store of texts by namespace and key. Each user has entries of their own; nobody reads those of others."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from db.queries import cache_entries as rows
from db.transactions import cache_entries
from services.coordinator.auth import InCaller
from services.coordinator.context import InContext
from services.coordinator.cursors import Cursor, Limit, decode_number
from tunesmith.answers.base import Page
from tunesmith.answers.cache import CacheEntryBody, CacheValue
from tunesmith.cache_limits import KEY_PATTERN, NAMESPACE_PATTERN
from tunesmith.errors import NotFound

router = APIRouter(prefix="/v1/cache/{namespace}", tags=["cache"])
Namespace = Annotated[str, Path(pattern=NAMESPACE_PATTERN, description="Such as the name of a program.")]
Key = Annotated[str, Path(pattern=KEY_PATTERN, description="Such as a hash.")]


@router.get("", name="list_cache")
def list_cache(
    context: InContext, caller: InCaller, namespace: Namespace, limit: Limit = 50, cursor: Cursor = None
) -> Page[CacheEntryBody]:
    """The caller's texts in a namespace, the newest first. Large texts make pages of fewer items than `limit`."""
    before = None if cursor is None else decode_number(cursor, 0)
    with context.reading() as session:
        found = rows.page(session, caller.owner, namespace, before=before, limit=limit)
        total = rows.count(session, caller.owner, namespace)
        more = bool(found) and rows.follows(session, caller.owner, namespace, found[-1].id)
        items = [CacheEntryBody.of(row) for row in found]
    return Page(items=items, next_cursor=str(found[-1].id) if more else None, total=total)


@router.get("/{key}", name="get_cached")
def get(context: InContext, caller: InCaller, namespace: Namespace, key: Key) -> CacheEntryBody:
    """The caller's text under a key."""
    with context.reading() as session:
        found = rows.find(session, caller.owner, namespace, key)
        if found is None:
            raise _missing(namespace, key)
        return CacheEntryBody.of(found)


@router.put("/{key}", name="put_cached")
def put(context: InContext, caller: InCaller, namespace: Namespace, key: Key, request: CacheValue) -> CacheEntryBody:
    """Keep a text, in the place of what is under the key. A user's oldest texts give way where there are too many."""
    most = context.settings.max_cache_entries

    def work(session: Session) -> CacheEntryBody:
        return CacheEntryBody.of(cache_entries.put(session, caller.owner, namespace, key, request.value, most))

    try:
        return context.write(work)
    except IntegrityError:  # the key was written twice at once; the other text is stored by now, and is replaced
        return context.write(work)


@router.delete("/{key}", name="delete_cached", status_code=204)
def delete(context: InContext, caller: InCaller, namespace: Namespace, key: Key) -> None:
    """Forget a text."""
    if not context.write(lambda session: cache_entries.delete(session, caller.owner, namespace, key)):
        raise _missing(namespace, key)


def _missing(namespace: str, key: str) -> NotFound:
    return NotFound(f"nothing is kept under {key} in {namespace}", field="key", value=key)
