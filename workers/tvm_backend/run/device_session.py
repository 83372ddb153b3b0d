"""The client's end of an RPC session, hosted by a pool child so that whatever hangs can be killed."""

from __future__ import annotations

import contextlib
import itertools
import math
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tunesmith.types import FailureKind, Isolation, TensorSpec
from workers.protocol import Begun, Confirmed, ConfirmRequest, ModelOutcome, ModelRequest, RunOutcome, RunRequest
from workers.sandbox.lease import HostLease
from workers.sandbox.limits import about_memory
from workers.tvm_backend.run.cold_weights import STREAM, stream_of
from workers.tvm_backend.run.device_arrays import DeviceArrays
from workers.tvm_backend.run.device_functions import host_identity, offered
from workers.tvm_backend.run.race import Entry, Kernel, Race, references_first, running
from workers.tvm_backend.run.references import References
from workers.tvm_backend.run.timing_windows import Windows, isolation_of
from workers.tvm_backend.run.tracker import prompt
from workers.tvm_backend.warm import visible_cores, warm

MODEL_WINDOW_SECONDS = 2.5
"""A window for one run of a whole model, which cannot be cut."""
RETRY_SECONDS = 0.1
INPUT_SEED = 0
"""Seed of the arguments that candidates are timed with and finalists are verified with."""
EPITAPH_SECONDS = 3.0
"""How long the device may take to report a crash; somebody else may have it by then."""


@dataclass(frozen=True)
class SessionFacts:
    """What the session found.

    Attributes:
        threads: threads of its kernels.
        binding: cores that they are bound to.
        isolation: what may run on this host meanwhile.
        bounded: the device can bound a single call in time.
        streams: it can read weights from where a model has them.
    """

    threads: int
    binding: str
    isolation: Isolation
    bounded: bool
    streams: bool


class DeviceSession:
    """At most one session with the device called ``key`` at the tracker.

    Args:
        tracker: ``host:port``.
        key: the device's key.
        lease: path of the host lease, taken during timing windows when the device is local.
    """

    def __init__(self, tracker: str, key: str, lease: str) -> None:
        warm("c")
        host, _, port = tracker.rpartition(":")
        self._tracker, self._key = (host or "127.0.0.1", int(port)), key
        self._windows = Windows(HostLease(lease))
        self._session: Any = None
        self._device: Any = None
        self._placing: DeviceArrays  # placement in the session
        self._alarm: Callable[[float], None] | None = None
        self._once: Callable[..., float] | None = None
        self._streaming: Callable[..., float] | None = None
        self._deadline = math.inf
        self._number = 0
        self._arguments: dict[tuple[TensorSpec, ...], list[Any]] = {}
        self._references = References()
        self._pristine = False  # no candidate ran on the arguments yet
        self._names = itertools.count()

    def open(self, kind: str, threads: int, wait: float, lifetime: float) -> SessionFacts:
        """Wait up to ``wait`` seconds for the device and open a session of at most ``lifetime`` seconds.

        Raises:
            TimeoutError: when no device of the key became free.
        """
        self.close()
        self._session = self._request(time.monotonic() + wait, lifetime)
        self._device = self._session.device("cpu" if kind == "llvm" else kind, 0)
        self._placing = DeviceArrays(self._session, self._device)
        self._alarm = offered(self._session, "tunesmith.rpc.alarm")
        self._once = offered(self._session, "tunesmith.rpc.once") if kind == "llvm" else None
        self._streaming = offered(self._session, STREAM) if kind == "llvm" else None
        self._arm(lifetime)
        number = offered(self._session, "tunesmith.rpc.session")
        self._number = 0 if number is None else int(number())
        host = offered(self._session, "tunesmith.rpc.host")
        local = host is not None and str(host()) == host_identity()
        binding = self._bind(threads) if kind == "llvm" else ""
        count = int(self._session.get_function("runtime.NumThreads")())
        isolation = isolation_of(kind, count, visible_cores(), local)
        self._windows.begin(isolation, frozenset(int(core) for core in binding.split(",") if core))
        return SessionFacts(count, binding, isolation, self._alarm is not None, self._streaming is not None)

    def close(self) -> None:
        """Release the device at once, whatever objects of the session are still alive."""
        session, self._session = self._session, None
        self._arguments.clear()
        self._windows.end()
        if session is not None:
            # The connection may be gone already, which is what is wanted.
            with contextlib.suppress(Exception):
                session.get_function("CloseRPCConnection")()

    def race(
        self, requests: Sequence[RunRequest], incumbent: float | None, begun: Sequence[Begun | None]
    ) -> list[RunOutcome | Begun | None]:
        """Time candidates of one workload.

        Args:
            begun: what is known of each from a session that another one took with it.

        Returns:
            An outcome for each; when one takes this session with it, what is known of those that were not done.
        """
        entries = [Entry.of(request, before) for request, before in zip(requests, begun, strict=True)]
        with self._windows.series() as series:
            for step, entry in self._steps(entries, Race(series, self._arm, incumbent)):
                started = time.perf_counter()
                try:
                    step(entry)
                except Exception as error:  # TVM's RPC raises several classes; see _explain
                    kind, message = self._explain(error)
                    spent = entry.seconds + time.perf_counter() - started
                    entry.failed = RunOutcome((), kind, message, spent, entry.device_seconds)
                if self._session is None:
                    return [entry.outcome() for entry in entries]
        self._arm(0.0)
        outcomes = [entry.outcome() for entry in entries]
        for entry in entries:
            self._unload(entry)
        return outcomes

    def _steps(self, entries: Sequence[Entry], race: Race) -> Iterator[tuple[Callable[[Entry], None], Entry]]:
        """What a race consists of. A stage is asked for only when the one before is over, and so knows who failed."""
        yield from ((self._load, entry) for entry in entries)
        yield from ((partial(self._heat, race), entry) for entry in references_first(running(entries)))
        yield from ((race.sample, entry) for entry in race.turns(running(entries)))

    def _heat(self, race: Race, entry: Entry) -> None:
        """First runs. The outputs of a default schedule's, which may take seconds, are kept for confirmations."""
        request = entry.request
        once = not request.updated and entry.before is None  # what a further run does not change
        noted = request.default and request.code_hash and self._pristine and once
        arrays = self._arrays(request.args) if noted else []
        before = self._placing.digests(arrays) if noted else []
        race.first_run(entry)
        if noted:
            outputs = self._placing.changed(arrays, before)
            self._references.put((request.code_hash, request.args, INPUT_SEED), outputs)
        self._pristine = self._pristine and request.default

    def confirm(self, request: ConfirmRequest) -> tuple[list[Confirmed], ConfirmRequest | None]:
        """Measure finalists next to the champion and compare their outputs with the reference's.

        Returns:
            Outcomes of the first finalists, and what is left to ask of a new session when one took this one with it.
        """
        from workers.tvm_backend.run.confirm import Interrupted, confirm, rest

        try:
            found = confirm(self._session, self._device, request, self._windows.window, self._arm, self._references)
            self._arm(0.0)
        except Interrupted as error:
            failure, message = self._explain(error)
            found = [*error.done]
            if error.part == "finalist":
                found.append(Confirmed(failure=failure, message=message))
            left = rest(request, error, failure, message)
            return found, left if left.finalists else None
        return found, None

    def compare(self, request: ModelRequest) -> ModelOutcome:
        """Time two models interleaved in this session and compare their outputs."""
        from workers.tvm_backend.run.compare_models import compare

        try:
            self._arm(request.timeout)
            outcome = compare(self._session, self._device, request, partial(self._windows.window, MODEL_WINDOW_SECONDS))
            self._arm(0.0)
        except Exception as error:  # the same
            failure, message = self._explain(error)
            return ModelOutcome(failure=failure, message=message)
        return outcome

    def _load(self, entry: Entry) -> None:
        request = entry.request
        self._arm(request.limits.run_timeout)
        name = f"candidate{next(self._names)}.so"
        started = time.perf_counter()
        self._session.upload(str(request.path), target=name)
        module = self._session.load_module(name)
        arrays, stream = self._arrays(request.args), stream_of(self._streaming, request.weights)
        restoring = self._placing.restoring(request.args, INPUT_SEED, request.updated)
        entry.kernel = Kernel(module, request.function, arrays, self._device, self._once, stream, restoring)
        entry.uploaded = name
        entry.seconds += time.perf_counter() - started

    def _unload(self, entry: Entry) -> None:
        entry.kernel = None
        if entry.uploaded:
            with contextlib.suppress(Exception):  # after a crash there is no session to clean
                self._session.remove(entry.uploaded)

    def _arrays(self, specs: tuple[TensorSpec, ...]) -> list[Any]:
        """Random arguments on the device, kept for the other candidates of the workload."""
        if specs not in self._arguments:
            self._arguments.clear()
            self._arguments[specs] = self._placing.place(specs, INPUT_SEED)
            self._pristine = True
        return self._arguments[specs]

    def _arm(self, seconds: float) -> None:
        """Have the device end the session ``seconds`` from now; 0 takes it back."""
        if self._alarm is not None:
            self._alarm(seconds)
            self._deadline = time.monotonic() + seconds if seconds else math.inf

    def _explain(self, error: Exception) -> tuple[FailureKind, str]:
        text = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        if self._alive():
            return FailureKind.RUN_ERROR, about_memory(text[0][:500])
        late = time.monotonic() >= self._deadline - 0.05
        self._session = None
        self._arguments.clear()
        end = "" if late else self._exit_reason()
        if late or signal.SIGALRM.name in end:
            return FailureKind.RUN_TIMEOUT, "killed by the device when its time was over"
        return FailureKind.CRASH, f"the session's process {end[:400] or f'died: {text[0][:300]}'}"

    def _exit_reason(self) -> str:
        """How the last session ended, asked of the device in a new one; empty when it does not tell."""
        if not self._number:
            return ""
        try:
            session = self._request(time.monotonic() + EPITAPH_SECONDS, EPITAPH_SECONDS)
            end = str(session.get_function("tunesmith.rpc.ended")(self._number))
            session.get_function("CloseRPCConnection")()
        except Exception:  # whatever it is, the crash is what is to be told
            return ""
        return end

    def _alive(self) -> bool:
        if self._session is None:
            return False
        try:
            self._session.get_function("runtime.NumThreads")()
        except Exception:  # any answer but one says that it is gone
            return False
        return True

    def _bind(self, count: int) -> str:
        """Set the number of threads, and on a device server of Tunesmith the cores; returns those."""
        bind = offered(self._session, "tunesmith.rpc.bind")
        if bind is not None:
            return str(bind(count))
        self._session.get_function("runtime.config_threadpool")(1, count)
        return ""

    def _request(self, deadline: float, lifetime: float) -> Any:
        """Ask the tracker until a device is there; it may be restarting."""
        from tvm import rpc

        last: Exception = TimeoutError("no answer")
        while time.monotonic() < deadline:
            try:
                url, port, match = self._ask_tracker(deadline)
                return rpc.connect(url, port, match, session_timeout=lifetime)
            except (OSError, RuntimeError) as error:
                last = error
            time.sleep(RETRY_SECONDS)
        raise TimeoutError(f"no device with the key {self._key!r} at the tracker {self._tracker}: {last}")

    def _ask_tracker(self, deadline: float) -> tuple[str, int, str]:
        from tvm.rpc import base

        with socket.create_connection(self._tracker, 5.0) as sock:
            prompt(sock)
            sock.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
            if struct.unpack("<i", base.recvall(sock, 4))[0] != base.RPC_TRACKER_MAGIC:
                raise OSError("this is not an RPC tracker")
            sock.settimeout(max(0.1, deadline - time.monotonic()))
            base.sendjson(sock, [base.TrackerCode.REQUEST, self._key, "", 1])
            code, value = base.recvjson(sock)
        if code != base.TrackerCode.SUCCESS:
            raise OSError(f"the tracker refused: {value}")
        url, port, match = value
        return str(url), int(port), str(match)
