"""A finalist that does not become champion leaves an event ``challenger_rejected``; it was ``crown_refused``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

EVENTS = sa.table("events", sa.column("kind", sa.String(60)))
OLD, NEW = "crown_refused", "challenger_rejected"


def upgrade() -> None:
    """Rename the stored events."""
    op.get_bind().execute(sa.update(EVENTS).where(EVENTS.c.kind == OLD).values(kind=NEW))
