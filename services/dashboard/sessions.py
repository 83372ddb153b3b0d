"""Who is logged in: API keys stay in this process's memory, the browser only holds a signed, HttpOnly session id."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache, TTLCache

TICKET_SECONDS = 30.0


@dataclass(frozen=True)
class _Ticket:
    session: str
    key: str


class Sessions:
    """Keys by session id, the least recently used forgotten first.

    Args:
        capacity: how many sessions are remembered.
        clock: seconds that only grow.
    """

    def __init__(self, capacity: int = 1000, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys: LRUCache[str, str] = LRUCache(capacity)
        self._tickets: TTLCache[str, _Ticket] = TTLCache(capacity, TICKET_SECONDS, clock)

    def key(self, session: str) -> str | None:
        """The key to call the API with."""
        return self._keys.get(session)

    def known(self, session: str) -> bool:
        """True when this session logged in."""
        return session in self._keys

    def login(self, session: str, key: str) -> None:
        """Remember ``key``."""
        self._keys[session] = key

    def issue(self, session: str, key: str) -> str:
        """A ticket with which this session, and no other, gets ``key`` once within ``TICKET_SECONDS``."""
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = _Ticket(session, key)
        return ticket

    def redeem(self, ticket: str, session: str) -> str | None:
        """The ticket's key, and the end of the session that asked for it; None for a wrong, used or old ticket."""
        found = self._tickets.pop(ticket, None)
        if found is None or found.session != session:
            return None
        self.logout(session)
        return found.key

    def logout(self, session: str) -> None:
        """Forget the key."""
        self._keys.pop(session, None)
