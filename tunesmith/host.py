"""What every process of a host has to agree on."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def default_lease_path() -> Path:
    """``TUNESMITH_LEASE_FILE``, else one file per user in the temporary folder."""
    given = os.environ.get("TUNESMITH_LEASE_FILE")
    return Path(given) if given else Path(tempfile.gettempdir()) / f"tunesmith-{os.getuid()}.lease"
