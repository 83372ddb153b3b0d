"""Commands that are run to their end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def run_to_end(command: Sequence[str], timeout: float, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command that reads nothing and finds the modules that this process finds; keeps what it prints.

    Raises:
        subprocess.TimeoutExpired: it has not ended after ``timeout`` seconds, and was killed.
    """
    path = os.pathsep.join(path for path in sys.path if path)
    env = {**os.environ, "PYTHONPATH": path, **settings}
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout, env=env)
