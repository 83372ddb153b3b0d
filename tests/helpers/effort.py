"""How much work the slow properties do."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("TUNESMITH_TESTS") == "thorough"


def examples(thorough: int) -> int:
    """How many examples a slow property gets: half of ``thorough``, or all with ``TUNESMITH_TESTS=thorough``."""
    return thorough if THOROUGH else thorough // 2
