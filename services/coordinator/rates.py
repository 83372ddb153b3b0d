"""Limits on requests by key, and on guesses of keys by address."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict

from services.rates import Rate, network_of
from tunesmith.errors import RateLimited

DASHBOARD_HEADER = "x-tunesmith-dashboard"
REMEMBERED_KEYS = 10_000


class KeyRates:
    """Counts of one coordinator. The dashboard's own client proves itself by ``token`` and is not counted: the
    dashboard counts the logins of its visitors itself.

    Args:
        requests: rate of one key.
        guesses: rate of wrong keys from one address.
    """

    def __init__(self, requests: str, guesses: str, token: str) -> None:
        self._requests, self._guesses, self._token = Rate(requests), Rate(guesses), token
        self._right: OrderedDict[str, None] = OrderedDict()

    def is_dashboard(self, given: str | None) -> bool:
        """True for the token itself."""
        return given is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def before(self, address: str, key: str) -> None:
        """Refuse to try a key from an address that sent too many wrong ones, unless it was right before. So whoever
        shares the address with a guesser goes on working. Raises RateLimited."""
        wait = self._guesses.full(network_of(address))
        if wait and _mark(key) not in self._right:
            raise RateLimited(
                f"too many wrong keys came from {address}: wait {wait} s, then send a valid one", retry_after=wait
            )

    def wrong(self, address: str, key: str) -> None:
        """Count a key that was refused."""
        self._right.pop(_mark(key), None)
        self._guesses.hit(network_of(address))

    def spend(self, key_id: str, key: str) -> None:
        """Count a request of a valid key. Raises RateLimited."""
        self._right[_mark(key)] = None
        while len(self._right) > REMEMBERED_KEYS:
            self._right.popitem(last=False)
        wait = self._requests.hit(key_id)
        if wait:
            raise RateLimited(
                f"this key sends more requests than TUNESMITH_RATE_LIMIT allows: wait {wait} s", retry_after=wait
            )


def _mark(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
