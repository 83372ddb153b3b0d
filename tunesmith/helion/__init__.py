"""A remote cache of Helion's autotuner: what one machine tuned, the others of a user find.

Set ``HELION_REMOTE_CACHE_BACKEND=tunesmith.helion.CacheBackend`` and ``HELION_AUTOTUNE_CACHE=RemoteAutotuneCache``, and
``TUNESMITH_SERVER`` (and ``TUNESMITH_KEY``) to the coordinator.
"""

from __future__ import annotations

from tunesmith.errors import MissingDependency
from tunesmith.extras import here

if not here("helion"):
    raise MissingDependency(
        "tunesmith.helion is for Helion, which is not installed here: pip install helion", extra="helion"
    )

from tunesmith.helion.backend import CacheBackend

__all__ = ["CacheBackend"]
