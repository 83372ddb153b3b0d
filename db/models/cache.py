"""A small store of texts, for tuners of others that keep what they found here."""

from __future__ import annotations

from sqlalchemy import Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base, Created
from db.models.jobs import BigId
from tunesmith.cache_limits import MAX_KEY, MAX_NAMESPACE


class CacheEntry(Base, Created):
    """A text under a key in a namespace of its owner. Writing it anew makes a new row: ids are in order of writing."""

    __tablename__ = "cache_entries"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    owner: Mapped[str] = mapped_column(String(100))
    namespace: Mapped[str] = mapped_column(String(MAX_NAMESPACE))
    key: Mapped[str] = mapped_column(String(MAX_KEY))
    value: Mapped[str] = mapped_column(Text)
    __table_args__ = (
        UniqueConstraint("owner", "namespace", "key"),
        Index("ix_cache_entries_owner_namespace_id", "owner", "namespace", "id"),
        Index("ix_cache_entries_owner_id", "owner", "id"),
        {"sqlite_autoincrement": True},
    )
