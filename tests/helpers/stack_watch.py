"""Watches an embedded stack while it works: every message that Redis is sent, the peak memory of every process."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import redis
from stack_probe import children, processes

from services.embedded.redis_server import find_server

EVERY = 0.5
SANDBOXED = "workers.sandbox.child"
USER, PASSWORD = "watch", "only-for-tests"
SERVER = """#!{python}
import os, sys
config = os.memfd_create("config")
os.write(config, sys.stdin.buffer.read() + b"user {user} on >{password} ~* &* +@all\\n")
os.lseek(config, 0, os.SEEK_SET)
os.dup2(config, 0)
os.execv({server!r}, [{server!r}, *sys.argv[1:]])
"""


def with_watcher(env: dict[str, str], folder: Path) -> dict[str, str]:
    """``env`` of a stack whose Redis lets us watch it: none of the stack's own users may."""
    folder.mkdir()
    server = folder / "redis-server"
    server.write_text(SERVER.format(python=sys.executable, user=USER, password=PASSWORD, server=find_server()))
    server.chmod(0o700)
    return env | {"PATH": f"{folder}:{env['PATH']}"}


class StackWatch:
    """Within ``with`` it watches.

    Args:
        data_dir: of the stack, which runs with the environment of ``with_watcher``.

    Attributes:
        largest: bytes of the largest element that was pushed, by Redis key.
        peaks: bytes of resident memory at most, by process id.
        commands: command lines by process id.
        redis_peak: bytes that Redis used at most, known at the end.
    """

    redis_peak: int

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        broker = urlsplit(setting(children(data_dir, "coordinator")[0], "TUNESMITH_BROKER_URL"))
        self._redis = redis.Redis(str(broker.hostname), broker.port or 0, username=USER, password=PASSWORD)
        self._monitor = self._redis.monitor()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._sample)]
        self.largest: Counter[str] = Counter()
        self.peaks: Counter[int] = Counter()
        self.commands: dict[int, str] = {}

    def __enter__(self) -> StackWatch:
        self._monitor.__enter__()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._look()
        self.redis_peak = int(self._redis.info("memory")["used_memory_peak"])
        self._end.set()
        self._redis.echo("end")  # wakes the listener
        for thread in self._threads:
            thread.join(10.0)
        self._monitor.__exit__(kind, error, trace)
        self._redis.close()

    def _listen(self) -> None:
        for entry in self._monitor.listen():
            if self._end.is_set():
                return
            command, _, rest = entry["command"].partition(" ")
            key, _, element = rest.partition(" ")
            if command in ("LPUSH", "RPUSH"):
                self.largest[key] = max(self.largest[key], len(element))

    def _sample(self) -> None:
        while not self._end.wait(EVERY):
            self._look()

    def _look(self) -> None:
        found = processes(self._data_dir)
        self.commands.update(found)
        for pid in found:
            self.peaks[pid] = max(self.peaks[pid], peak(pid))

    def peak_of(self, words: str) -> int:
        """The highest peak among the processes whose command line holds ``words``."""
        return max(self.peaks[pid] for pid, command in self.commands.items() if words in command)

    def children_of(self, words: str) -> int:
        """The highest peak among the sandbox's children of such processes, whom their command lines name."""
        parents = {pid for pid, command in self.commands.items() if words in command}
        started = {pid: int(command.split()[-2]) for pid, command in self.commands.items() if SANDBOXED in command}
        return max(self.peaks[pid] for pid, parent in started.items() if parent in parents)


def setting(pid: int, name: str) -> str:
    """A variable of a process's environment."""
    pairs = (entry.partition("=") for entry in Path(f"/proc/{pid}/environ").read_text().split("\0"))
    return next(value for key, _, value in pairs if key == name)


def peak(pid: int) -> int:
    """Bytes of resident memory that a process had at most; 0 when it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
