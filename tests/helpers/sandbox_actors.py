"""Objects that the pool's tests host in child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time


class Worker:
    """Answers, crashes, hangs or raises on request."""

    def __init__(self, factor: int = 2) -> None:
        self._factor = factor
        self._calls = 0

    def pid(self) -> int:
        return os.getpid()

    def double(self, value: int) -> int:
        self._calls += 1
        return value * self._factor

    def calls(self) -> int:
        return self._calls

    def echo(self, data: bytes) -> bytes:
        return data

    def crash(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def leave(self) -> None:
        os._exit(7)

    def hang(self) -> None:
        time.sleep(600)

    def hang_with_child(self, path: str) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(child.pid))
        child.wait()

    def refuse(self) -> None:
        raise ValueError("not today")

    def unsendable(self) -> object:
        return lambda: None


class Broken:
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("broken on purpose")
