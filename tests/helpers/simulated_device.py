"""A device that measures nothing, beside a stack."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tunesmith.client import EmbeddedStack


@contextmanager
def simulated_device(stack: EmbeddedStack, env: dict[str, str], device_class: str) -> Iterator[None]:
    """A measure worker of the stack, without a device."""
    own = {**env, "TUNESMITH_SIMULATE": "1", "TUNESMITH_DEVICE_CLASSES": device_class}
    command = [sys.executable, "-m", "tunesmith.cli", "worker", "--queues", "measure", "--join", str(stack.data_dir)]
    with (stack.data_dir / "logs" / "simulated.log").open("wb") as log:
        process = subprocess.Popen(command, env=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    with process:
        try:
            yield
            process.terminate()
            process.wait(30.0)
        finally:
            process.kill()
