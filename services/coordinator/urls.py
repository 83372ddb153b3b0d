"""Blob URLs that are good without a key, until they expire."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable

from tunesmith.errors import Unauthorized


class BlobUrls:
    """Signs and checks ``/v1/blobs/{sha}?expires=&signature=`` with HMAC-SHA-256 over blob and expiry.

    Args:
        key: the secret.
        base: the coordinator's address as measure workers see it.
        seconds: how long a URL is good.
        clock: seconds since the epoch.
    """

    def __init__(self, key: bytes, base: str, seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._key, self._base, self._seconds, self._clock = key, base.rstrip("/"), seconds, clock

    def sign(self, sha: str) -> str:
        """A URL for the blob ``sha``."""
        expires = int(self._clock() + self._seconds)
        return f"{self._base}/v1/blobs/{sha}?expires={expires}&signature={self._signature(sha, expires)}"

    def check(self, sha: str, expires: int, signature: str) -> None:
        """Raises Unauthorized when the signature is wrong or the time is over."""
        if not hmac.compare_digest(self._signature(sha, expires).encode(), signature.encode()):
            raise Unauthorized("the blob URL's signature is not valid", field="signature", value=None)
        if expires < self._clock():
            raise Unauthorized("the blob URL has expired", field="expires", value=expires)

    def _signature(self, sha: str, expires: int) -> str:
        return hmac.new(self._key, f"blob\n{sha}\n{expires}".encode(), hashlib.sha256).hexdigest()
