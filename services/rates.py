"""How often something may happen: sliding windows of the library ``limits``, counted in this process."""

from __future__ import annotations

import ipaddress
import math
import time

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter


class Rate:
    """A limit for each of many.

    Args:
        text: such as ``1200/minute``; empty for no limit.

    Raises:
        ValueError: the text is no rate.
    """

    def __init__(self, text: str) -> None:
        self._item: RateLimitItem | None = parse(text) if text else None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def hit(self, who: str) -> int:
        """Count one; 0, or whole seconds to wait when it is one too many, which then does not count."""
        if self._item is None or self._limiter.hit(self._item, who):
            return 0
        return self._wait(self._item, who)

    def full(self, who: str) -> int:
        """Whole seconds to wait when another one would be too many, else 0; counts nothing."""
        if self._item is None or self._limiter.test(self._item, who):
            return 0
        return self._wait(self._item, who)

    def _wait(self, item: RateLimitItem, who: str) -> int:
        return max(1, math.ceil(self._limiter.get_window_stats(item, who).reset_time - time.time()))


def network_of(address: str) -> str:
    """What a limit by address counts: the address itself, and the /64 that one user of IPv6 has all of."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return address
