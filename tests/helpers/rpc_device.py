"""A tracker and a device as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from process_probe import CHILD_ENV


@dataclass
class RpcDevice:
    """Starts both on free ports; ``kill`` and ``start_…`` play a device that dies and returns."""

    folder: Path
    key: str = "test-device"
    env: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start_tracker()
        self.start_server()

    def start_tracker(self, port: int = 0) -> None:
        self.tracker_port = self._start("tracker", "--port", str(port))
        self.tracker = f"127.0.0.1:{self.tracker_port}"

    def start_server(self) -> None:
        self.port = self._start("rpc_server", "--tracker", self.tracker, "--key", self.key)

    def kill(self, module: str) -> None:
        process = self.processes.pop(module)
        process.kill()
        process.communicate(timeout=30)

    @contextmanager
    def dying_at(self, name: str) -> Iterator[None]:
        """Kill the server when its session leaves a file ``name``, and start it again afterwards."""
        left = self.folder / f"tunesmith-device-{os.getuid()}-{self.port}" / name
        over = threading.Event()
        killer = threading.Thread(target=self._kill_at, args=(left, over))
        killer.start()
        try:
            yield
        finally:
            over.set()
            killer.join()
        assert "rpc_server" not in self.processes, f"no session left {name}"
        self.start_server()

    def _kill_at(self, left: Path, over: threading.Event) -> None:
        while not over.wait(0.02):
            if left.exists():
                return self.kill("rpc_server")

    def stop(self) -> None:
        for module in list(self.processes):
            self.kill(module)

    def _start(self, module: str, *arguments: str) -> int:
        command = [
            sys.executable,
            "-m",
            "workers.sandbox.parent_death",
            "--parent",
            str(os.getpid()),
            "--",
            sys.executable,
            "-m",
            f"workers.tvm_backend.run.{module}",
            *arguments,
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                **CHILD_ENV,
                "TMPDIR": str(self.folder),
                "TUNESMITH_LEASE_FILE": str(self.lease),
                **self.env,
            },
        )
        self.processes[module] = process
        assert process.stdout is not None
        return int(json.loads(process.stdout.readline())["port"])

    @property
    def lease(self) -> Path:
        return self.folder / "host.lease"
