"""The client's end of an RPC session, hosted by a pool child so that whatever hangs can be killed."""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tunesmith.types import FailureKind, TensorSpec
from workers.sandbox.lease import HostLease
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.measuring import ModelOutcome, ModelRequest, RunOutcome, RunRequest
from workers.tvm_backend.rpc_server import host_identity
from workers.tvm_backend.warm import warm

WINDOW_SECONDS = 0.2
"""The host lease is never held longer than this for one timing window."""
MODEL_WINDOW_SECONDS = 5.0
"""The same for one run of a whole model, which cannot be cut."""
CALIBRATE_SECONDS = 0.001
"""A first run that is shorter than this is repeated to know how long one run takes."""
RETRY_SECONDS = 0.1


@dataclass(frozen=True)
class SessionFacts:
    """What the session found: whether the device shares this host, and the threads its kernels use."""

    local: bool
    threads: int


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
        self._tracker, self._key, self._lease = (host or "127.0.0.1", int(port)), key, HostLease(lease)
        self._session: Any = None
        self._device: Any = None
        self._local = False
        self._alarm: Callable[[float], None] | None = None
        self._deadline = math.inf
        self._arguments: dict[tuple[TensorSpec, ...], list[Any]] = {}
        self._names = itertools.count()

    def open(self, kind: str, threads: int, wait: float, lifetime: float) -> SessionFacts:
        """Wait up to ``wait`` seconds for the device and open a session of at most ``lifetime`` seconds.

        Raises:
            TimeoutError: when no device of the key became free.
        """
        self.close()
        self._session = self._request(time.monotonic() + wait, lifetime)
        self._device = self._session.device("cpu" if kind == "llvm" else kind, 0)
        self._alarm = self._function("tunesmith.rpc.alarm")
        self._arm(lifetime)
        host = self._function("tunesmith.rpc.host")
        self._local = host is not None and str(host()) == host_identity()
        self._set_threads(threads)
        return SessionFacts(self._local, int(self._session.get_function("runtime.NumThreads")()))

    def close(self) -> None:
        """Release the device at once, whatever objects of the session are still alive."""
        session, self._session = self._session, None
        self._arguments.clear()
        if session is not None:
            # The connection may be gone already, which is what is wanted.
            with contextlib.suppress(Exception):
                session.get_function("CloseRPCConnection")()

    def run(self, request: RunRequest) -> RunOutcome:
        """Time one candidate; any failure of it is an outcome."""
        started = time.perf_counter()
        try:
            samples = self._measure(request)
        except Exception as error:
            failure, message = self._explain(error)
            return RunOutcome((), failure, message, time.perf_counter() - started)
        return RunOutcome(tuple(samples), None, "", time.perf_counter() - started)

    def compare(self, request: ModelRequest) -> ModelOutcome:
        """Time two models interleaved in this session and compare their outputs."""
        from workers.tvm_backend.evaluate import compare

        try:
            self._arm(request.timeout)
            outcome = compare(self._session, self._device, request, self.model_window)
            self._arm(0.0)
        except Exception as error:
            failure, message = self._explain(error)
            return ModelOutcome(failure=failure, message=message)
        return outcome

    @contextlib.contextmanager
    def window(self, limit: float = WINDOW_SECONDS) -> Iterator[None]:
        """A timing window: nothing builds or searches on this host meanwhile."""
        with self._lease.exclusive(limit) if self._local else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def _guarded_window(self, seconds: float) -> Iterator[None]:
        """A timing window in which the device may run for ``seconds``; the wait for the lease does not count."""
        self._arm(0.0)
        with self.window():
            self._arm(seconds)
            yield

    def model_window(self) -> contextlib.AbstractContextManager[None]:
        """A window for one run of a whole model."""
        return self.window(MODEL_WINDOW_SECONDS)

    def _measure(self, request: RunRequest) -> list[float]:
        limits = request.limits
        self._arm(limits.run_timeout)
        name = f"candidate{next(self._names)}.so"
        self._session.upload(str(request.path), target=name)
        module = self._session.load_module(name)
        try:
            arguments = self._arrays(request.args)
            return self._samples(module, request, arguments)
        finally:
            with contextlib.suppress(Exception):  # after a crash there is no session to clean
                self._arm(0.0)
                self._session.remove(name)

    def _samples(self, module: Any, request: RunRequest, arguments: list[Any]) -> list[float]:
        """One short run, and for a contender up to ``repeats`` samples more, in as few timing windows as hold them."""
        limits, samples = request.limits, list[float]()
        with self._guarded_window(limits.run_timeout):
            opened = time.perf_counter()
            first = self._first_run(module, request.function, arguments)
            hopeless = request.incumbent is not None and first > limits.cutoff * request.incumbent
            if hopeless or first >= limits.max_measure_seconds:
                return [first]
            number = max(1, math.ceil(limits.min_repeat_seconds / max(first, 1e-9)))
            each = first * number
            wanted = max(1, min(limits.repeats, int(limits.max_measure_seconds / each)))
            room = int((WINDOW_SECONDS - (time.perf_counter() - opened)) / each)
            if room > 1:
                samples = self._time(module, request.function, arguments, number, min(room, wanted))
        chunk = max(1, int(WINDOW_SECONDS / each) - 1)
        while len(samples) < wanted:
            with self._guarded_window(limits.run_timeout):
                samples += self._time(module, request.function, arguments, number, min(chunk, wanted - len(samples)))
        return samples

    def _first_run(self, module: Any, function: str, arguments: list[Any]) -> float:
        """Seconds of one short run."""
        first = self._time(module, function, arguments, 1, 1)[0]
        if first < CALIBRATE_SECONDS:
            number = max(1, math.ceil(CALIBRATE_SECONDS / max(first, 1e-8)))
            first = self._time(module, function, arguments, number, 1)[0]
        return first

    def _time(self, module: Any, function: str, arguments: list[Any], number: int, repeat: int) -> list[float]:
        evaluator = module.time_evaluator(function, self._device, number=number, repeat=repeat)
        return [float(value) for value in evaluator(*arguments).results]

    def _arrays(self, specs: tuple[TensorSpec, ...]) -> list[Any]:
        """Random arguments on the device, kept for the other candidates of the workload."""
        import tvm

        if specs not in self._arguments:
            self._arguments.clear()
            self._arguments[specs] = [
                tvm.runtime.tensor(random_array(spec, seed), device=self._device) for seed, spec in enumerate(specs)
            ]
        return self._arguments[specs]

    def _arm(self, seconds: float) -> None:
        """Have the device end the session ``seconds`` from now; 0 takes it back."""
        if self._alarm is not None:
            self._alarm(seconds)
            self._deadline = time.monotonic() + seconds if seconds else math.inf

    def _explain(self, error: Exception) -> tuple[FailureKind, str]:
        text = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        if self._alive():
            return FailureKind.RUN_ERROR, text[0][:500]
        late = time.monotonic() >= self._deadline - 0.05
        self._session = None
        self._arguments.clear()
        if late:
            return FailureKind.RUN_TIMEOUT, "killed by the device when its time was over"
        return FailureKind.CRASH, f"the session's process died: {text[0][:300]}"

    def _alive(self) -> bool:
        if self._session is None:
            return False
        try:
            self._session.get_function("runtime.NumThreads")()
        except Exception:
            return False
        return True

    def _function(self, name: str) -> Any:
        """A function of the device, None on a server that does not offer it."""
        try:
            return self._session.get_function(name)
        except Exception:
            return None

    def _set_threads(self, count: int) -> None:
        threads = self._function("tunesmith.rpc.threads")
        if threads is not None:
            threads(count)
        else:
            self._session.get_function("runtime.config_threadpool")(1, count)

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
