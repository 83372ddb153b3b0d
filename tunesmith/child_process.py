"""Child processes: how many threads they take, and commands that are run to their end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Settings that say how many threads the numeric libraries take. A process reads them when it loads these."""


def run_to_end(command: Sequence[str], timeout: float, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command that reads nothing and finds the modules that this process finds; keeps what it prints.

    Raises:
        subprocess.TimeoutExpired: it has not ended after ``timeout`` seconds, and was killed.
    """
    path = os.pathsep.join(path for path in sys.path if path)
    env = {**os.environ, "PYTHONPATH": path, **settings}
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout, env=env)
