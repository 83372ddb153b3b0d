"""Container health: the main process runs, and what it depends on accepts connections.

A worker is healthy when its broker can be reached, a tracker when its own port can. Nothing is asked of the
process itself: a worker that measures must not be disturbed, and one that is stuck loses its lease anyway.

Usage: ``python deploy/healthcheck.py [HOST:PORT]``; without an address the broker of ``TUNESMITH_BROKER_URL``.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

TIMEOUT = 3.0


def main_process_lives(proc: Path = Path("/proc")) -> bool:
    """True unless process 1 is a zombie."""
    try:
        fields = (proc / "1" / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return False
    return fields[0] not in ("Z", "X")


def address(argument: str | None, broker_url: str) -> tuple[str, int]:
    """What must accept a connection."""
    parts = urlsplit(f"//{argument}" if argument else broker_url)
    return parts.hostname or "127.0.0.1", parts.port or 6379


def reachable(host: str, port: int) -> bool:
    """True when a TCP connection comes about."""
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT):
            return True
    except OSError:
        return False


def main() -> int:
    """Exit status: 0 healthy, 1 not."""
    argument = sys.argv[1] if len(sys.argv) > 1 else None
    host, port = address(argument, os.environ.get("TUNESMITH_BROKER_URL", "redis://127.0.0.1:6379/0"))
    if not main_process_lives():
        print("the main process is dead")
        return 1
    if not reachable(host, port):
        print(f"{host}:{port} does not accept connections")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
