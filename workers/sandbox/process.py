"""One forked process that answers requests: its pipes, its end, and what can go wrong with it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from dataclasses import dataclass
from typing import Any

from workers.sandbox import limits
from workers.sandbox.box.base import Confinement
from workers.sandbox.frames import CLAIMS, PICKLE, Channel, Closed, Expired, Garbled
from workers.sandbox.template import Ended, Template

START_SECONDS = 30.0
"""What a forked child may take until it answers."""


@dataclass(frozen=True)
class End:
    """How a process ended.

    Attributes:
        code: exit code, or a signal as a negative one.
        peak: bytes in memory at most.
        limit: bytes allowed.
        cpu: seconds of processor time.
    """

    code: int
    peak: int
    limit: int
    cpu: float = 0.0


class ChildError(Exception):
    """Base of what can go wrong with a request."""


class ChildCrashed(ChildError):
    """The process died while it worked on the request.

    Attributes:
        end: how it ended.
        signal: the signal that ended it, 0 when it ended by itself.
    """

    def __init__(self, end: End) -> None:
        self.end = end
        self.signal = max(0, -end.code)
        super().__init__(f"the process {limits.exit_reason(end.code, end.peak, end.limit)}")


class ChildTimeout(ChildError):
    """The request took longer than its timeout; its process was killed."""


class ChildGarbled(ChildError):
    """A boxed process gave an answer that is none; it was killed."""


class ChildRaised(ChildError):
    """The call raised an ordinary exception; the process lives on.

    Attributes:
        kind: the exception's qualified name.
        detail: text of the exception.
        trace: the last frames of the traceback.
    """

    def __init__(self, kind: str, detail: str, trace: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail, self.trace = kind, detail, trace


class Child:
    """One process and its pipes, driven by one thread (``kill`` and ``pid`` by any).

    Args:
        template: what it is forked from.
        memory: bytes that the template restricts it to.
        confinement: a box to put it in before its first request; what it answers are claims in JSON then.
    """

    def __init__(self, template: Template, memory: int, confinement: Confinement | None = None) -> None:
        self._template, self._confinement = template, confinement
        self._memory = confinement.limits.memory if confinement else memory
        self._pid = 0
        self._alive = -1  # a descriptor of the process, readable when that has ended
        self._channel: Channel | None = None
        self._guard = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        with self._guard:
            return self._pid if self._running() else None

    def call(self, method: str, arguments: tuple[Any, ...], timeout: float) -> Any:
        """Have the process, started where there is none, call a method. Raises ChildError."""
        if self.pid is None:
            begun, end = self._pid != 0, self.stop()
            if begun and self._confinement is not None:  # a box is entered once
                raise ChildCrashed(end)
            self._start()
        return self._exchange((method, arguments), timeout)

    def kill(self) -> None:
        """Kill the process, and what it started."""
        with self._guard:
            if self._running():
                # The child leads a session of its own: its compilers and linkers go with it. Before that it has none.
                try:
                    os.killpg(self._pid, signal.SIGKILL)
                except ProcessLookupError:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._pid, signal.SIGKILL)

    def stop(self) -> End:
        """Kill and reap the process, close the pipes."""
        self.kill()
        end = End(0, 0, self._memory)
        if self._pid:
            try:
                code, peak, cpu = self._template.reap(self._pid)
            except (Closed, Expired):
                code, peak, cpu = -signal.SIGKILL, 0, 0.0  # it went with its template
            end = End(code, peak, self._memory, cpu)
            with self._guard:
                os.close(self._alive)
                self._pid, self._alive = 0, -1
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        return end

    def _running(self) -> bool:
        return self._pid != 0 and not select.select([self._alive], [], [], 0)[0]

    def _start(self) -> None:
        child_read, write = os.pipe()
        read, child_write = os.pipe()
        self._channel = Channel(read, write, reads=CLAIMS if self._confinement else PICKLE)
        try:
            pid, failure = self._template.fork(child_read, child_write, self._confinement)
            if failure is not None:
                raise ChildRaised(*failure)
            alive = os.pidfd_open(pid)
            with self._guard:
                self._pid, self._alive = pid, alive
        except Ended as error:
            raise ChildCrashed(End(error.code, 0, 0)) from None
        except Expired:
            raise ChildTimeout(f"not ready within {self._template.start_timeout:g} s") from None
        finally:
            os.close(child_read)
            os.close(child_write)
        self._receive(START_SECONDS)

    def _exchange(self, message: Any, timeout: float) -> Any:
        assert self._channel is not None
        try:
            self._channel.send(message)
        except Closed:
            raise ChildCrashed(self.stop()) from None
        return self._receive(timeout)

    def _receive(self, timeout: float) -> Any:
        assert self._channel is not None
        try:
            reply = self._channel.receive(time.monotonic() + timeout)
        except Closed:
            raise ChildCrashed(self.stop()) from None
        except Expired:
            self.stop()
            raise ChildTimeout(f"no answer within {timeout:g} s") from None
        except Garbled as error:
            self.stop()
            raise ChildGarbled(f"an answer that is none: {error}") from None
        match reply:
            case ["ok", _]:
                return reply[1]
            case [_, str(kind), str(detail), str(trace)]:
                raise ChildRaised(kind, detail, trace)
        self.stop()
        raise ChildGarbled("an answer that is none")
