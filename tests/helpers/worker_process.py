"""A worker as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def worker_process(folder: Path, broker: str, *command: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``python -m COMMAND`` with ``folder`` as its data folder; it is killed at the end and its log printed.

    Args:
        folder: gets ``worker.log``, too.
        broker: URL.
        settings: further ones, ``simulate="1"`` for TUNESMITH_SIMULATE.
    """
    given = {"data_dir": str(folder), "broker_url": broker, "lease_file": str(folder / "host.lease"), **settings}
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        **{f"TUNESMITH_{name.upper()}": value for name, value in given.items()},
    }
    log = folder / "worker.log"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", *command], env=env, cwd=ROOT, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=20)
        sys.stdout.write(log.read_text()[-30_000:])
