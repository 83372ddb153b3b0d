"""The two runners: a device behind an RPC tracker, and none at all."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tunesmith.errors import DeviceLost
from tunesmith.targets import Target
from tunesmith.types import FailureKind, Isolation, StopReason
from workers.protocol import Begun, Confirmed, ConfirmRequest, ModelOutcome, ModelRequest, RunOutcome, RunRequest
from workers.sandbox.pool import Actor, ChildCrashed, ChildError, ChildRaised, ChildTimeout, Pool
from workers.tvm_backend.run.device_session import SessionFacts

SLACK_SECONDS = 30.0
"""What a request may take beyond its own limit (waiting for the host lease, upload) before its process is killed."""
RUNS_OF_A_CANDIDATE = 3
"""A candidate's calls on the device that its time limit bounds: the first run, its repetition, the samples."""


class RpcRunner:
    """Runs candidates over TVM RPC, one session per batch.

    Each candidate has its own time limit, enforced by the device (``tunesmith.rpc.alarm``) and, should that be out of
    reach, by killing the client's process, whose hang-up frees the device. A crash costs a new session and the
    candidate's second chance: it may have been a neighbour's doing. Those that it interrupts go on in the new session
    with the samples that they have.

    Args:
        tracker: ``host:port``.
        key: the device's key at the tracker.
        lease: path of the host lease.
        wait: seconds to wait for the device; it may be serving somebody else or restarting.
        lifetime: seconds after which the device ends a session.
    """

    def __init__(self, tracker: str, key: str, lease: Path, wait: float = 30.0, lifetime: float = 900.0) -> None:
        actor = Actor("workers.tvm_backend.run.device_session:DeviceSession", (tracker, key, str(lease)))
        self._pool = Pool(actor, 1)
        self._pool.submit("close", timeout=SLACK_SECONDS)  # the process is warm when the first batch comes
        self._wait, self._lifetime = wait, lifetime
        self._target: Target | None = None
        self._open = False
        self._facts = SessionFacts(0, "", Isolation.SHARED, bounded=True, streams=False)

    @property
    def threads(self) -> int:
        """Threads of the kernels; 0 before the device was opened."""
        return self._facts.threads

    @property
    def binding(self) -> str:
        """Cores of the kernels' threads."""
        return self._facts.binding

    @property
    def isolation(self) -> Isolation:
        """What may run on this host meanwhile."""
        return self._facts.isolation

    @property
    def streams(self) -> bool:
        """The device can read weights from where a model has them."""
        return self._facts.streams

    def open(self, target: Mapping[str, Any]) -> None:
        """Take the device; see ``Runner``."""
        self._target = Target(dict(target))
        self._reopen()

    def race(self, requests: Sequence[RunRequest], incumbent: float | None) -> list[RunOutcome]:
        """Time candidates; see ``Runner``."""
        outcomes: dict[int, RunOutcome] = {}
        crashed: list[int] = []
        begun: dict[int, Begun] = {}
        left = list(range(len(requests)))
        while left:
            # What crashed is tried again at the end and alone: it may have been a neighbour's doing.
            fresh = [i for i in left if i not in crashed]
            wave = (fresh if self._facts.bounded else fresh[:1]) or left[:1]
            seconds = sum(requests[i].limits.run_timeout for i in wave) * RUNS_OF_A_CANDIDATE
            found: list[RunOutcome | Begun | None] = self._with_session(
                "race",
                [requests[i] for i in wave],
                incumbent,
                [begun.get(i) for i in wave],
                limit=seconds + SLACK_SECONDS,
            )
            for i, outcome in zip(wave, found, strict=True):
                if isinstance(outcome, Begun):
                    begun[i] = outcome
                elif outcome is None:
                    continue
                elif outcome.failure is FailureKind.CRASH and i not in crashed:
                    crashed.append(i)
                else:
                    outcomes[i] = outcome
            self._open = self._open and all(isinstance(o, RunOutcome) and not _broke(o) for o in found)
            left = [i for i in left if i not in outcomes]
        return [outcomes[i] for i in range(len(requests))]

    def confirm(self, request: ConfirmRequest) -> list[Confirmed]:
        """Measure finalists again in a session of their own; see ``Runner``."""
        runs = (len(request.finalists) + 2) * (request.limits.confirm_repeats + RUNS_OF_A_CANDIDATE)
        limit = runs * request.limits.run_timeout + SLACK_SECONDS
        outcomes: list[Confirmed] = []
        left: ConfirmRequest | None = request
        while left is not None:
            self.release()
            found, left = self._with_session("confirm", left, limit=limit)
            outcomes += found
            self._open = left is None and not any(_broke(outcome) for outcome in found)
        return outcomes

    def compare(self, request: ModelRequest) -> ModelOutcome:
        """Time two models; see ``Runner``."""
        outcome: ModelOutcome = self._with_session("compare", request, limit=request.timeout + SLACK_SECONDS)
        self._open = self._open and not _broke(outcome)
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

    def _with_session(self, method: str, *arguments: Any, limit: float) -> Any:
        if not self._open:
            self._reopen()
        future: Future[Any] = self._pool.submit(method, *arguments, timeout=limit)
        try:
            return future.result()
        except ChildTimeout as error:
            self._open = False
            raise DeviceLost(f"the device did not answer: {error}") from error
        except ChildCrashed as error:
            self._open = False
            raise DeviceLost(f"the client of the device died: {error}") from error

    def _reopen(self) -> None:
        if self._target is None:
            raise RuntimeError("open a target first")
        try:
            facts = self._pool.call(
                "open",
                self._target.kind,
                self._target.num_cores,
                self._wait,
                self._lifetime,
                timeout=self._wait + SLACK_SECONDS,
            )
        except (ChildRaised, ChildCrashed, ChildTimeout) as error:
            raise DeviceLost(getattr(error, "detail", str(error))) from error
        self._open, self._facts = True, facts


def _broke(outcome: RunOutcome | Confirmed | ModelOutcome) -> bool:
    """True when it took the session with it."""
    return outcome.failure in (FailureKind.CRASH, FailureKind.RUN_TIMEOUT)


SIMULATED_FLOPS = 2e13
"""FLOP/s of the pretended device."""


class SimulatedRunner:
    """Invented, repeatable latencies for devices that this host lacks; builds are real, numbers are not.

    A candidate's speed is drawn from the hash of its code, between 1 % and 50 % of ``SIMULATED_FLOPS``; everything that
    comes of it carries ``simulated`` in its environment.
    """

    def __init__(self) -> None:
        self.threads, self.binding, self.isolation, self.streams = 0, "", Isolation.SHARED, False

    def open(self, target: Mapping[str, Any]) -> None:
        """Nothing to take."""

    def race(self, requests: Sequence[RunRequest], incumbent: float | None) -> list[RunOutcome]:
        """Invented latencies with one per cent of noise."""
        return [RunOutcome(self._samples(r, r.limits.repeats, 0), stopped=StopReason.CAPPED) for r in requests]

    def confirm(self, request: ConfirmRequest) -> list[Confirmed]:
        """Invented latencies again; outputs are not computed, so there is no error to tell."""
        count = request.limits.confirm_repeats
        champion = self._samples(request.champion, count, 1) if request.champion is not None else ()
        return [Confirmed(self._samples(one, count, 2), champion) for one in request.finalists]

    def compare(self, request: ModelRequest) -> ModelOutcome:
        """Invented latencies; the outputs are not computed, so there is no error to tell."""
        rng = _random(hashlib.sha256(request.tuned.read_bytes()).hexdigest())
        untuned = 0.01
        tuned = untuned * (0.1 + 0.4 * rng.random())
        return ModelOutcome((untuned,) * 3, (tuned,) * 10, None)

    def _samples(self, request: RunRequest, count: int, turn: int) -> tuple[float, ...]:
        """The latency is drawn from the candidate's code, the noise from that and the turn."""
        share = 0.01 * 50 ** _random(request.code_hash).random()
        latency = max(request.flops, 1e5) / (SIMULATED_FLOPS * share)
        noise = _random(f"{request.code_hash}/{turn}")
        return tuple(latency * (1 + 0.01 * noise.gauss(0, 1)) for _ in range(count))

    def release(self) -> None:
        """Nothing to give back."""

    def close(self) -> None:
        """Nothing to end."""


def _random(text: str) -> random.Random:
    return random.Random(int(hashlib.sha256(text.encode()).hexdigest()[:16], 16))
