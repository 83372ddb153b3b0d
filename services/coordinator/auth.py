"""Bearer keys. Without ``TUNESMITH_ADMIN_KEY`` everybody who reaches the coordinator is ``local`` and may do all."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import uuid
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from db.models import ApiKey
from db.queries import api_keys, by_key
from db.transactions import keys
from services.coordinator import access
from services.coordinator.access import SCOPES
from services.coordinator.context import InContext
from services.coordinator.rates import DASHBOARD_HEADER
from tunesmith.errors import TunesmithError, Unauthorized

log = logging.getLogger(__name__)
ADMIN_ID, ENROLMENT_ID = "admin", "enrolment"
LOCAL = "local"
bearer = HTTPBearer(auto_error=False, description="An API key: `Authorization: Bearer …`")


class Forbidden(TunesmithError, code="forbidden", status=403):
    """The key is valid but not allowed to do this."""


@dataclass(frozen=True)
class Caller:
    """Who asks. Operators see everything, others what they own."""

    owner: str
    scopes: frozenset[str]
    key_id: str | None = None

    def sees(self, owner: str | None) -> bool:
        """True when a thing of ``owner`` may be shown; what lost its owner is for operators."""
        return "operator" in self.scopes or (owner is not None and owner == self.owner)

    @property
    def filter(self) -> str | None:
        """Owner to narrow lists to, None for everything."""
        return None if "operator" in self.scopes else self.owner

    def require(self, *scopes: str) -> None:
        """Raises Forbidden unless the caller has one of ``scopes``."""
        if not self.scopes.intersection(scopes):
            raise Forbidden(f"this needs a key with the scope {' or '.join(scopes)}")


ANYBODY = Caller(LOCAL, frozenset(SCOPES))


def digest(key: str) -> str:
    """How a key is stored."""
    return hashlib.sha256(key.encode()).hexdigest()


def new_key() -> tuple[str, str]:
    """A fresh key's id and the key itself, ``tsm_<id>_<secret>``."""
    key_id = uuid.uuid4().hex[:16]
    return key_id, f"tsm_{key_id}_{secrets.token_urlsafe(32)}"


def key_id_of(key: str) -> str:
    """Id of the row that a key belongs to; anything that is not of our making can only be the admin's."""
    parts = key.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "tsm" else ADMIN_ID


def store_admin_key(session: Session, key: str) -> None:
    """Make ``key`` the first bearer key, in place of an earlier one.

    A key that was revoked stays so while another operator can act; without one the service would be locked for good.
    """
    row = by_key.find(session, ApiKey, ADMIN_ID)
    if row is None:
        keys.create(session, ADMIN_ID, digest(key), LOCAL, list(SCOPES))
        return
    same = hmac.compare_digest(row.sha256, digest(key))
    if same and row.revoked and api_keys.operators(session):
        log.warning(
            "the key in TUNESMITH_ADMIN_KEY was revoked and stays so: set another one, or unset it once other "
            "keys are made"
        )
        return
    if row.revoked:
        log.warning(
            "the admin key was revoked and is valid again: TUNESMITH_ADMIN_KEY %s",
            "is the only key of an operator" if same else "has a new value",
        )
    elif not same:
        log.info("TUNESMITH_ADMIN_KEY has a new value; the former admin key is not valid any more")
    row.sha256, row.revoked, row.scopes = digest(key), False, list(SCOPES)


def store_enrolment_key(session: Session, key: str) -> None:
    """Make ``key`` the first one of scope ``worker``, in place of an earlier one; a revoked one stays so."""
    row = by_key.find(session, ApiKey, ENROLMENT_ID)
    if row is None:
        keys.create(session, ENROLMENT_ID, digest(key), LOCAL, ["worker"])
    elif not hmac.compare_digest(row.sha256, digest(key)):
        row.sha256, row.revoked = digest(key), False


def verify(session: Session, key: str) -> Caller:
    """The caller behind ``key``. Raises Unauthorized."""
    for key_id in dict.fromkeys((key_id_of(key), ADMIN_ID, ENROLMENT_ID)):
        row = by_key.find(session, ApiKey, key_id)
        stored = row.sha256 if row is not None else "0" * 64
        if hmac.compare_digest(stored, digest(key)) and row is not None and not row.revoked:
            return Caller(row.owner, frozenset(row.scopes), row.id)
    raise Unauthorized("the key is not valid: send `Authorization: Bearer KEY`")


def still_valid(session: Session, caller: Caller) -> bool:
    """False once the key that ``caller`` came with is revoked or gone."""
    if caller.key_id is None:
        return True
    row = by_key.get(session, ApiKey, caller.key_id)
    return row is not None and not row.revoked


Given = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


def visitor(request: Request, context: InContext, given: Given) -> Caller | None:
    """Who asks, None for somebody without a key. Raises Unauthorized for a key that is not valid, RateLimited."""
    if context.settings.admin_key is None:
        request.state.caller = ANYBODY
        return ANYBODY
    if given is None:
        return None
    key, address = given.credentials, request.client.host if request.client else ""
    counted = not context.rates.is_dashboard(request.headers.get(DASHBOARD_HEADER))
    if counted:
        context.rates.before(address, key)
    try:
        with context.reading() as session:
            found = request.state.caller = verify(session, key)
    except Unauthorized:
        if counted:
            context.rates.wrong(address, key)
        raise
    if counted:
        context.rates.spend(str(found.key_id), key)
    return found


InVisitor = Annotated[Caller | None, Depends(visitor)]


def caller(request: Request, found: InVisitor) -> Caller:
    """Dependency of every route that asks for a key. Raises Unauthorized, Forbidden."""
    if found is None:
        raise Unauthorized("a key is required: send `Authorization: Bearer KEY`")
    if found is not ANYBODY:
        found.require(*sorted(access.scopes_of(request)))
    return found


InCaller = Annotated[Caller, Depends(caller)]
