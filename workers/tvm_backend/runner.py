"""The two runners: a device behind an RPC tracker, and none at all."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tunesmith.errors import DeviceLost
from tunesmith.targets import Target
from tunesmith.types import FailureKind
from workers.sandbox.pool import Actor, ChildCrashed, ChildError, ChildRaised, ChildTimeout, Pool
from workers.tvm_backend.measuring import ModelOutcome, ModelRequest, RunOutcome, RunRequest

SLACK_SECONDS = 30.0
"""What a request may take beyond its own limit (waiting for the host lease, upload) before its process is killed."""
CONFIRM_ATTEMPTS = 2


class RpcRunner:
    """Runs candidates over TVM RPC, one session per batch.

    Each candidate has its own time limit, enforced by the device (``tunesmith.rpc.alarm``) and, should that be out of
    reach, by killing the client's process, whose hang-up frees the device. A crash costs a new session and the
    candidate's second chance: it may have been a neighbour's doing.

    Args:
        tracker: ``host:port``.
        key: the device's key at the tracker.
        lease: path of the host lease.
        wait: seconds to wait for the device; it may be serving somebody else or restarting.
        lifetime: seconds after which the device ends a session.
    """

    def __init__(self, tracker: str, key: str, lease: Path, wait: float = 30.0, lifetime: float = 900.0) -> None:
        actor = Actor("workers.tvm_backend.device_session:DeviceSession", (tracker, key, str(lease)))
        self._pool = Pool(actor, 1)
        self._pool.submit("close", timeout=SLACK_SECONDS)  # the process is warm when the first batch comes
        self._wait, self._lifetime = wait, lifetime
        self._target: Target | None = None
        self._open = False
        self.threads = 0

    def open(self, target: Mapping[str, Any]) -> None:
        """Take the device; see ``Runner``."""
        self._target = Target(dict(target))
        self._reopen()

    def run(self, request: RunRequest) -> RunOutcome:
        """Time one candidate; see ``Runner``."""
        limit = 3 * request.limits.run_timeout + SLACK_SECONDS
        outcome = RunOutcome()
        for _ in range(CONFIRM_ATTEMPTS):
            outcome = self._with_session("run", request, limit=limit)
            if outcome.failure is not FailureKind.CRASH:
                break
        return outcome

    def compare(self, request: ModelRequest) -> ModelOutcome:
        """Time two models; see ``Runner``."""
        outcome: ModelOutcome = self._with_session("compare", request, limit=request.timeout + SLACK_SECONDS)
        return outcome

    def release(self) -> None:
        """Give the device back."""
        if self._open:
            self._open = False
            with contextlib.suppress(ChildError):
                self._pool.call("close", timeout=5.0)

    def close(self) -> None:
        """End the client's process."""
        self._pool.close()

    def _with_session(self, method: str, request: Any, *, limit: float) -> Any:
        if not self._open:
            self._reopen()
        future: Future[Any] = self._pool.submit(method, request, timeout=limit)
        try:
            outcome = future.result()
        except ChildTimeout as error:
            self._open = False
            raise DeviceLost(f"the device did not answer: {error}") from error
        except ChildCrashed as error:
            self._open = False
            raise DeviceLost(f"the client of the device died: {error}") from error
        if outcome.failure in (FailureKind.CRASH, FailureKind.RUN_TIMEOUT):
            self._open = False
        return outcome

    def _reopen(self) -> None:
        if self._target is None:
            raise RuntimeError("open a target first")
        try:
            facts = self._pool.call(
                "open", self._target.kind, self._target.num_cores, self._wait, self._lifetime,
                timeout=self._wait + SLACK_SECONDS,
            )
        except (ChildRaised, ChildCrashed, ChildTimeout) as error:
            raise DeviceLost(getattr(error, "detail", str(error))) from error
        self._open, self.threads = True, facts.threads


class SimulatedRunner:
    """Invented, repeatable latencies for devices that this host lacks; builds are real, numbers are not.

    A candidate's speed is drawn from the hash of its code, between 1 % and 50 % of ``peak``; everything that
    comes of it carries ``simulated`` in its environment.

    Args:
        peak: FLOP/s of the pretended device.
    """

    def __init__(self, peak: float = 2e13) -> None:
        self._peak = peak
        self.threads = 0

    def open(self, target: Mapping[str, Any]) -> None:
        """Nothing to take."""

    def run(self, request: RunRequest) -> RunOutcome:
        """The candidate's invented latency with one per cent of noise."""
        rng = _random(request.code_hash)
        share = 0.01 * 50 ** rng.random()
        latency = max(request.flops, 1e5) / (self._peak * share)
        count = request.limits.repeats
        return RunOutcome(tuple(latency * (1 + 0.01 * rng.gauss(0, 1)) for _ in range(count)))

    def compare(self, request: ModelRequest) -> ModelOutcome:
        """Invented latencies; the outputs are not computed, so there is no error to tell."""
        rng = _random(hashlib.sha256(request.tuned.read_bytes()).hexdigest())
        untuned = 0.01
        tuned = untuned * (0.1 + 0.4 * rng.random())
        return ModelOutcome((untuned,) * 3, (tuned,) * 10, None)

    def release(self) -> None:
        """Nothing to give back."""

    def close(self) -> None:
        """Nothing to end."""


def _random(text: str) -> random.Random:
    return random.Random(int(hashlib.sha256(text.encode()).hexdigest()[:16], 16))
