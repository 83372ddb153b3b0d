"""Rows by their keys."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy.orm import Session

from db.models.base import Base

Kind = TypeVar("Kind", bound=Base)


def get(session: Session, kind: type[Kind], key: Any) -> Kind | None:
    """A row as it is now; None where there is none."""
    return session.get(kind, key, populate_existing=True)


def find(session: Session, kind: type[Kind], key: Any) -> Kind | None:
    """A row as the session knows it; None where there is none."""
    return session.get(kind, key)


def existing(session: Session, kind: type[Kind], key: Any) -> Kind:
    """A row that is there. Raises NoResultFound when it was deleted."""
    return session.get_one(kind, key)
