"""What tests ask about processes that they started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

CHILD_ENV = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
"""Lets a child import what the tests can import."""


def gone(pid: int, within: float = 20.0) -> bool:
    """True once the process has ended (a zombie counts), False when it still runs after ``within`` seconds."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False
