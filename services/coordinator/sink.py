"""Where archives and tables are written while they are sent."""

from __future__ import annotations


class Sink:
    """A file that cannot seek and forgets what was taken from it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep ``data``."""
        self._parts.append(bytes(data))
        return len(data)

    @property
    def closed(self) -> bool:
        """Never."""
        return False

    def close(self) -> None:
        """Nothing is open."""

    def flush(self) -> None:
        """Nothing waits."""

    def take(self) -> bytes:
        """Everything written since the last time."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data
