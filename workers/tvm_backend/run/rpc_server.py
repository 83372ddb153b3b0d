"""A device behind an RPC tracker: ``python -m workers.tvm_backend.run.rpc_server --tracker H:P --key K``.

TVM's server ends its listen thread with the first candidate that crashes. This one serves each session in a forked
child, watches it, kills it when the client hangs up or the session's time is over, and never stops listening. A client
can also bound a single call: ``tunesmith.rpc.alarm(seconds)`` has the kernel kill the session's process. A session's
memory is limited; ``tunesmith.rpc.ended(number)`` of a later one says how it ended, and ``tunesmith.rpc.session()`` its
number.

A client runs arbitrary code in a session, which is in a box (``workers.sandbox.box``) and has no secret of the service.
It can still keep this host busy: bind to loopback or to a trusted network only.
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.sandbox.box import probe
from workers.sandbox.box.base import Confinement, Limits
from workers.sandbox.box.entering import enter
from workers.sandbox.box.installation import gpus
from workers.sandbox.boxed import captured_stderr, remove
from workers.sandbox.environment import exposed, scrubbed
from workers.sandbox.limits import allowance, exit_reason
from workers.sandbox.parent_death import die_with_parent
from workers.settings import Settings
from workers.tvm_backend.build.cuda_compiler import choose_compiler
from workers.tvm_backend.run.device_functions import register, tell_of_sessions
from workers.tvm_backend.run.tracker import announce, listen, prompt
from workers.tvm_backend.warm import visible_cores, warm

log = logging.getLogger("tunesmith.device")
PING_SECONDS = 2.0
HANDSHAKE_SECONDS = 5.0
RETRY_SECONDS = 0.25
GRACE_SECONDS = 0.5
"""Time that a session has to end by itself after its client hung up."""
DEVICE_SETTINGS = ("TUNESMITH_MEMORY_SHARE", "TUNESMITH_TRUST_MODELS")
"""Settings that a device needs; none of the others may be in a process that candidates are forked from."""
THREADS_PER_CORE = 4
KEPT_ENDS = 16
"""Sessions of which the server knows how they ended."""
STALE_PINGS = 3
"""Pings after which a key that a client took and never used is replaced."""


@dataclass(frozen=True)
class Connection:
    """A client that passed the handshake."""

    sock: socket.socket
    timeout: float | None


class DeviceServer:
    """Serves one session at a time, for ever.

    Args:
        sock: the listening socket.
        tracker: address of the tracker, which may come and go.
        key: the device's key at the tracker.
        address: the address that clients use; None for the one that the tracker sees.
        box: box of each session; its folder is emptied at the start.
    """

    def __init__(
        self, sock: socket.socket, tracker: tuple[str, int], key: str, address: str | None, box: Confinement
    ) -> None:
        self._sock, self._tracker_address, self._key, self._address = sock, tracker, key, address
        self._port = int(sock.getsockname()[1])
        self._box, self._folder = box, box.folder
        self._sessions = os.getpid() * 1_000_000  # numbers of an earlier server mean nothing to this one
        self._ends: dict[int, str] = {}
        self._tracker: socket.socket | None = None
        self._reported = False

    def serve(self) -> None:
        """Accept and serve sessions until the process is killed."""
        while True:
            try:
                connection = self._next()
            except (OSError, ValueError, struct.error) as error:
                if not self._reported:
                    log.warning("tracker %s:%s: %s; trying on", *self._tracker_address, error)
                    self._reported = True
                self._drop_tracker()
                time.sleep(RETRY_SECONDS)
                continue
            self._reported = False
            with connection.sock:
                self._session(connection)

    def _next(self) -> Connection:
        """The next client that knows the key handed out by the tracker."""
        from tvm.rpc import base

        tracker = self._tracker or self._register()
        match = self._offer(tracker, set())
        used, stale = {match}, 0
        while True:
            ready, _, _ = select.select([self._sock, tracker], [], [], PING_SECONDS)
            if self._sock in ready:
                connection = self._handshake(match)
                if connection is not None:
                    return connection
            elif tracker in ready:
                raise OSError("the tracker hung up")
            else:
                base.sendjson(tracker, [base.TrackerCode.GET_PENDING_MATCHKEYS])
                stale = 0 if match in base.recvjson(tracker) else stale + 1
                if stale > STALE_PINGS:
                    match, stale = self._offer(tracker, used), 0
                    used.add(match)

    def _register(self) -> socket.socket:
        from tvm.rpc import base

        tracker = socket.create_connection(self._tracker_address, HANDSHAKE_SECONDS)
        self._tracker = tracker
        prompt(tracker)
        tracker.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
        if struct.unpack("<i", base.recvall(tracker, 4))[0] != base.RPC_TRACKER_MAGIC:
            raise OSError("this is not an RPC tracker")
        info = {"key": f"server:{self._key}", "addr": (self._address, self._port)}
        base.sendjson(tracker, [base.TrackerCode.UPDATE_INFO, info])
        _expect_success(base.recvjson(tracker))
        log.info("device %s registered at %s:%s", self._key, *self._tracker_address)
        return tracker

    def _offer(self, tracker: socket.socket, used: set[str]) -> str:
        from tvm.rpc import base

        match = str(base.random_key(self._key, cmap=used))
        base.sendjson(tracker, [base.TrackerCode.PUT, self._key, (self._port, match), self._address])
        _expect_success(base.recvjson(tracker))
        return match

    def _handshake(self, match: str) -> Connection | None:
        """Accept a client; None for one that is not Tunesmith's, is too slow or has an old key."""
        from tvm.rpc import base

        sock, peer = self._sock.accept()
        sock.settimeout(HANDSHAKE_SECONDS)
        try:
            if struct.unpack("<i", base.recvall(sock, 4))[0] != base.RPC_MAGIC:
                raise ValueError("not an RPC client")
            (size,) = struct.unpack("<i", base.recvall(sock, 4))
            words = base.recvall(sock, size).decode().split()
            if not words or words[0] != f"client:{match}":
                sock.sendall(struct.pack("<i", base.RPC_CODE_MISMATCH))
                raise ValueError("an old key")
            name = f"server:{self._key}".encode()
            sock.sendall(struct.pack("<i", base.RPC_CODE_SUCCESS) + struct.pack("<i", len(name)) + name)
        except (OSError, ValueError, struct.error) as error:
            log.warning("refused %s: %s", peer, error)
            sock.close()
            return None
        sock.settimeout(None)
        timeouts = [float(word[9:]) for word in words[1:] if word.startswith("-timeout=")]
        return Connection(sock, timeouts[0] if timeouts and timeouts[0] > 0 else None)

    def _session(self, connection: Connection) -> None:
        remove(self._folder)
        self._folder.mkdir(parents=True)
        self._sessions += 1
        parent, (alive, held) = os.getpid(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(alive)
            self._child(connection, parent, held)
        os.close(held)  # the child's end closes when it ends, however it ends
        try:
            self._watch(connection, alive)
        finally:
            os.close(alive)
            _kill(pid)
            _, status, usage = os.wait4(pid, 0)
        code, peak = os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024
        said = captured_stderr(self._folder)
        sys.stderr.write(said)
        self._note(exit_reason(code, peak, self._box.limits.memory, said))
        remove(self._folder)

    def _note(self, end: str) -> None:
        log.info("session %d %s", self._sessions, end)
        self._ends[self._sessions] = end
        self._ends.pop(self._sessions - KEPT_ENDS, None)

    def _watch(self, connection: Connection, alive: int) -> None:
        """Until the child has ended, the session's time is over, or the client has hung up and the grace is over."""
        poll = select.poll()
        poll.register(alive, select.POLLIN)
        poll.register(connection.sock, select.POLLRDHUP)
        timeout = None if connection.timeout is None else connection.timeout * 1000
        events = dict(poll.poll(timeout))
        if events and alive not in events:
            poll.unregister(connection.sock)
            poll.poll(GRACE_SECONDS * 1000)

    def _child(self, connection: Connection, parent: int, held: int) -> None:
        """The session's process: serve the client, then end without any clean-up of the parent's."""
        code = 1
        try:
            for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            self._sock.close()
            self._drop_tracker()
            enter(self._box, keep=(connection.sock.fileno(), held))
            die_with_parent(parent)
            tell_of_sessions(self._sessions, self._ends)
            from tvm.rpc import server

            server._serve_loop(connection.sock, None, WorkFolder(self._folder))
            code = 0
        except Exception:  # the process ends with this session, and its log is all that is left
            log.exception("session failed")
        finally:
            os._exit(code)

    def _drop_tracker(self) -> None:
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None


def _kill(pid: int) -> None:
    """End a session and what it started; before it leads a session of its own it has started nothing."""
    for end in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            end(pid, signal.SIGKILL)


class WorkFolder:
    """What TVM's server functions expect of a working folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.libs: list[Any] = []

    def relpath(self, name: str) -> str:
        """The path of an uploaded file."""
        return str(self.path / name)


def _expect_success(answer: Any) -> None:
    if answer != 0:
        raise OSError(f"the tracker refused: {answer}")


def main(argv: list[str] | None = None) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="rpc_server", description="Offers this host's device to an RPC tracker")
    parser.add_argument("--tracker", required=True, metavar="HOST:PORT")
    parser.add_argument("--key", required=True, help="the device's key at the tracker")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--address", help="address that clients use, when it is not the one the tracker sees")
    options = parser.parse_args(argv)
    serve(options.tracker, options.key, options.host, options.port, options.address)


def serve(tracker: str, key: str, host: str = "127.0.0.1", port: int = 0, address: str | None = None) -> None:
    """Offer this host's device under ``key``; never returns. ``tracker`` is ``host:port``.

    A session may use the share of the host's memory that ``TUNESMITH_MEMORY_SHARE`` says. Where this process was
    started with more of an environment than candidates may see, it starts anew without that.

    Raises:
        MissingDependency: there is nothing to box candidates in, and ``TUNESMITH_TRUST_MODELS`` is not set.
    """
    if exposed(*DEVICE_SETTINGS):
        given = ["--tracker", tracker, "--key", key, "--host", host, "--port", str(port)]
        given += [] if address is None else ["--address", address]
        command = [sys.executable, "-m", "workers.tvm_backend.run.rpc_server", *given]
        os.execve(sys.executable, command, scrubbed(os.environ, *DEVICE_SETTINGS))
    walls = probe.choose(Settings().trust_models)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    os.environ["TVM_NUM_THREADS"] = str(visible_cores())
    warm("c")
    from tvm.rpc.server import logger

    logger.setLevel(logging.ERROR)
    compiler = choose_compiler()  # a library for CUDA may arrive as source
    register()
    tracker_host, _, tracker_port = tracker.rpartition(":")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt), listen(host, port) as sock:
        bound = announce(sock)
        folder = Path(tempfile.gettempdir()).resolve() / f"tunesmith-device-{os.getuid()}-{bound}"
        box = Confinement(folder, _limits(compiler), walls, devices=gpus())
        DeviceServer(sock, (tracker_host or "127.0.0.1", int(tracker_port)), key, address, box).serve()


def _limits(compiler: str | None) -> Limits:
    """What a session may use. Where it compiles with nvcc, a program, it may start some."""
    tasks = Limits().tasks + THREADS_PER_CORE * visible_cores()
    processes = compiler == "nvcc" and bool(gpus())
    return Limits(memory=allowance(Settings().memory_share), tasks=tasks, processes=processes)


if __name__ == "__main__":
    main()
