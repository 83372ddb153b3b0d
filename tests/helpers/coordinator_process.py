"""A coordinator as a process of its own, without broker and workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WAIT = 60.0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def coordinator(data_dir: Path, **settings: str) -> Iterator[str]:
    """Run ``python -m services.coordinator`` on ``data_dir``; its address once the dashboard answers."""
    with serving(data_dir, "/login", **settings) as (_, url):  # the dashboard is there a moment after the API
        yield url


@contextmanager
def serving(data_dir: Path, path: str = "/livez", **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process and its address, once it answers at ``path``."""
    port = free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith("TUNESMITH_")}
    env.update(
        {
            "TUNESMITH_DATA_DIR": str(data_dir),
            "TUNESMITH_PORT": str(port),
            "PYTHONUNBUFFERED": "1",
            "TUNESMITH_COORDINATOR_URL": f"http://127.0.0.1:{port}",
            "TUNESMITH_BROKER_URL": f"redis://127.0.0.1:{free_port()}/0",
            **{f"TUNESMITH_{name.upper()}": value for name, value in settings.items()},
        }
    )
    log = data_dir / "coordinator.log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "services.coordinator"]
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait(f"http://127.0.0.1:{port}{path}", process, log)
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + WAIT
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the coordinator did not come up:\n{log.read_text()}") from None
            time.sleep(0.05)
