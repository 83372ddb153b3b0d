"""How further workers of this machine join a running stack: its settings, in a file for this user only."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tunesmith.names import CONNECTION_FILE, MEASURING

PREFIX = "TUNESMITH_"
SHARED = (
    "BROKER_URL",
    "TRACKER",
    "DATABASE_URL",
    "BLOB_DIR",
    "LEASE_FILE",
    "WORK_TIMEOUT",
    "INGEST_TIMEOUT",
    "MAX_ATTEMPTS",
    "DEVICE_TIMEOUT",
)
"""What every worker of a stack must agree on, as far as it is set; the data directory is the file's own."""

URLS = ("BROKER_URL", "REPORTS_URL")
"""What a measure worker gets instead of the broker's URL."""


@contextlib.contextmanager
def connection_file(data_dir: Path, env: Mapping[str, str], measuring: Mapping[str, str]) -> Iterator[Path]:
    """Keep the file while the stack runs. It holds the broker's passwords, so nobody else may read it.

    ``env`` and ``measuring``: the environments of a core worker and of a measure worker, who are two to the broker.
    """
    path = data_dir / CONNECTION_FILE
    facts = {
        **{name.lower(): env[PREFIX + name] for name in SHARED if env.get(PREFIX + name)},
        MEASURING: {name.lower(): measuring[PREFIX + name] for name in URLS},
    }
    fresh = path.with_name(f".{CONNECTION_FILE}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(facts, file)
        fresh.replace(path)
        yield path
    finally:
        fresh.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
