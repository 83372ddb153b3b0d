"""Who is logged in: API keys stay in this process's memory, the browser only holds a signed, HttpOnly session id."""

from __future__ import annotations

from collections import OrderedDict


class Sessions:
    """Keys by session id, the least recently used forgotten first.

    Args:
        capacity: how many sessions are remembered.
        default_key: the key of a session that has none of its own.
    """

    def __init__(self, capacity: int = 1000, default_key: str | None = None) -> None:
        self._keys: OrderedDict[str, str] = OrderedDict()
        self._capacity, self._default = capacity, default_key

    def key(self, session: str) -> str | None:
        """The key to call the API with."""
        if session in self._keys:
            self._keys.move_to_end(session)
            return self._keys[session]
        return self._default

    def known(self, session: str) -> bool:
        """True when this session logged in."""
        return session in self._keys

    def login(self, session: str, key: str) -> None:
        """Remember ``key``."""
        self._keys[session] = key
        self._keys.move_to_end(session)
        while len(self._keys) > self._capacity:
            self._keys.popitem(last=False)

    def logout(self, session: str) -> None:
        """Forget the key."""
        self._keys.pop(session, None)
