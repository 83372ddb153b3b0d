"""Objects that the pool's tests host in child processes."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time


class Worker:
    """Answers, crashes, hangs or raises on request."""

    def __init__(self, factor: int = 2) -> None:
        self._factor = factor
        self._calls = 0
        self._maker = os.getpid()

    def pid(self) -> int:
        return os.getpid()

    def maker(self) -> int:
        return self._maker

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


class Crashing:
    """Crashes while it is made."""

    def __init__(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


class Hungry:
    """Takes memory and does not give it back."""

    def python(self) -> int:
        return len(bytearray(1 << 30))

    def native(self) -> None:
        """As code does that does not ask whether it got what it wanted."""
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        while True:
            ctypes.memset(libc.malloc(16 << 20), 1, 16 << 20)

    def core_size(self) -> int:
        return resource.getrlimit(resource.RLIMIT_CORE)[0]
