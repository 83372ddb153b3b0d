"""Helion's interface of a remote cache, on the cache of a coordinator."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterable

from helion.autotuner.remote_cache import RemoteCacheBackend

from tunesmith.client import Client
from tunesmith.names import DEFAULT_URL

NAMESPACE = "helion"
SECONDS = 10.0
"""How long Helion waits for an answer; without one it goes on with what is on its own disk."""


class CacheBackend(RemoteCacheBackend):  # type: ignore[misc]
    """Keeps configurations of Helion's kernels on a coordinator, which neither parses nor runs them.

    Helion makes it without arguments, where ``HELION_REMOTE_CACHE_BACKEND`` names it. Threads may share it.

    Args:
        server: address of a coordinator (default: ``TUNESMITH_SERVER``, else this machine's).
        key: API key (default: ``TUNESMITH_KEY``). Users do not see the entries of others.
        namespace: where entries are kept; a class of one's own keeps projects apart by it.
    """

    def __init__(self, server: str | None = None, key: str | None = None, namespace: str = NAMESPACE) -> None:
        found = server or os.environ.get("TUNESMITH_SERVER") or DEFAULT_URL
        self._client = Client(found, key or os.environ.get("TUNESMITH_KEY"), timeout=SECONDS)
        self._namespace = namespace
        self._turn = threading.Lock()

    def get(self, key: str) -> str | None:
        """The JSON text under Helion's key; None where there is none.

        Raises:
            TunesmithError: the server does not answer, or refuses; Helion logs it and looks on its own disk.
        """
        with self._turn:
            return self._client.cached(self._namespace, key)

    def put(self, key: str, data: str) -> None:
        """Keep a JSON text under Helion's key.

        Raises:
            TunesmithError: as :meth:`get`; Helion has the text on its own disk.
        """
        with self._turn:
            self._client.put_cached(self._namespace, key, data)

    def list(self, max_results: int | None = None) -> Iterable[str]:
        """JSON texts, the newest first, from which Helion starts the search of a similar kernel.

        Args:
            max_results: how many at most; None: all.

        Raises:
            TunesmithError: the server does not answer, or refuses.
        """
        with self._turn:
            found = itertools.islice(self._client.list_cached(self._namespace), max_results)
            return [entry.value for entry in found]
