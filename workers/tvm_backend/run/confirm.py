"""Finalists once more, in a fresh session: are their outputs right, and are they faster than the champion?"""

from __future__ import annotations

import contextlib
import logging
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal

from tunesmith.messages import MeasureLimits
from tunesmith.types import FailureKind
from workers.protocol import Confirmed, ConfirmRequest, RunRequest
from workers.tvm_backend.arguments import as_meant
from workers.tvm_backend.run.cold_weights import STREAM, stream_of
from workers.tvm_backend.run.device_arrays import DeviceArrays, completed
from workers.tvm_backend.run.device_functions import offered
from workers.tvm_backend.run.race import Kernel
from workers.tvm_backend.run.references import SECOND_SEED, Changed, References, difference, excuse, nudged

log = logging.getLogger("tunesmith.measure")
WINDOW_SECONDS = 0.5
"""About how long pairs are taken before the host is given back to builders and searchers."""
MIN_PAIRS = 5
"""With fewer, no difference is significant at 0.05."""
CLEAR = 0.9
"""A finalist whose slowest sample is below this share of the champion's fastest needs no further pairs."""
PAIRS_SECONDS = 5.0
"""Kernel time of one finalist's pairs beyond which only ``MIN_PAIRS`` are taken."""

Window = Callable[[], AbstractContextManager[None]]
Part = Literal["reference", "champion", "finalist"]


class Interrupted(Exception):
    """The session died; the cause is chained.

    Attributes:
        part: part whose code it died of.
        done: outcomes of the finalists before that one.
    """

    def __init__(self, part: Part, done: tuple[Confirmed, ...]) -> None:
        super().__init__(f"the session died of the {part}")
        self.part, self.done = part, done


def confirm(
    session: Any,
    device: Any,
    request: ConfirmRequest,
    window: Window,
    arm: Callable[[float], None],
    references: References | None = None,
) -> list[Confirmed]:
    """Compare outputs with the default schedule's, and time each finalist in turn with the champion.

    Args:
        session, device: fresh RPC session, in which no other candidate ran, and its device.
        window: one timing window on this host.
        arm: bounds the next call on the device in seconds; 0 takes it back.
        references: keeps the default schedule's outputs from batch to batch.

    Returns:
        One outcome for each finalist, in their order. A default schedule or a champion that fails without ending the
        session is left out: there is then no error, or there are no pairs.

    Raises:
        Interrupted: the session died; see :func:`rest`.
    """
    return _Confirming(session, device, request, window, arm, references or References()).run()


def rest(request: ConfirmRequest, error: Interrupted, failure: FailureKind, message: str) -> ConfirmRequest:
    """What is left to ask of a new session once one has died; ``error.done`` and the guilty finalist are settled.

    The guilty finalist's outcome, ``Confirmed(failure=failure, message=message)``, follows ``error.done`` when
    ``error.part`` is ``finalist``.
    """
    if error.part == "reference":
        log.warning("the default schedule cannot be compared with (%s): %s", failure.value, message)
        return replace(request, reference=None, problem=f"the default schedule fails ({failure.value}): {message}")
    if error.part == "champion":
        log.warning("the champion fails now (%s): %s", failure.value, message)
        return replace(request, champion=None)
    return replace(request, finalists=request.finalists[len(error.done) + 1 :])


@dataclass(frozen=True)
class _Loaded:
    """A library on the device."""

    module: Any
    request: RunRequest


class _Confirming:
    """One request in one session; see :func:`confirm`."""

    def __init__(
        self,
        session: Any,
        device: Any,
        request: ConfirmRequest,
        window: Window,
        arm: Callable[[float], None],
        references: References,
    ) -> None:
        self._session, self._device, self._request = session, device, request
        self._window, self._arm, self._references = window, arm, references
        self._limits: MeasureLimits = request.limits
        self._placing = DeviceArrays(session, device)
        self._streaming = offered(session, STREAM)
        self._seeds = (request.seed, SECOND_SEED + request.seed)
        self._arrays: list[Any] = []
        self._names: list[str] = []
        self._ran = 0.0  # seconds of kernels outside of the pairs, since the last finalist was settled
        self._done: list[Confirmed] = []

    def run(self) -> list[Confirmed]:
        """See :func:`confirm`."""
        expected: list[Changed] = []
        champion: _Loaded | None = None
        problem = ""
        try:
            with self._blame("reference") as trouble:
                expected = self._expected()
            problem = f"the default schedule fails: {trouble[0]}" if trouble else self._request.problem
            if self._request.champion is not None:
                with self._blame("champion") as trouble:
                    champion = self._champion(self._request.champion)
            for finalist in self._request.finalists:
                with self._blame("finalist") as trouble:
                    self._done.append(self._finalist(finalist, champion, expected, problem))
                if trouble:
                    self._done.append(Confirmed(failure=FailureKind.RUN_ERROR, message=trouble[0]))
        finally:
            self._forget()
        return self._done

    def _expected(self) -> list[Changed]:
        """What the arguments must be after a run, for each of the seeds; nothing without a reference."""
        reference, found, loaded = self._request.reference, list[Changed](), None
        for seed in self._seeds if reference is not None else ():
            assert reference is not None
            key = (reference.code_hash, reference.args, seed)
            kept = self._references.get(key) if reference.code_hash else None
            if kept is None:
                loaded = loaded or self._load(reference)
                kept = self._outputs(loaded, seed)
                if reference.code_hash:
                    self._references.put(key, kept)
            found.append(kept)
        return found

    def _champion(self, request: RunRequest) -> _Loaded:
        """The champion, once it has shown that it still runs."""
        loaded = self._load(request)
        self._outputs(loaded, self._request.seed)
        return loaded

    def _finalist(
        self, request: RunRequest, champion: _Loaded | None, expected: Sequence[Changed], problem: str
    ) -> Confirmed:
        started = time.perf_counter()
        loaded = self._load(request)
        # The first seed last: its arguments, which are usual numbers, are timed.
        found = [self._outputs(loaded, seed) for seed in reversed(self._seeds[: max(1, len(expected))])][::-1]
        errors = [
            difference(*completed(pair, request.args, seed))
            for *pair, seed in zip(found, expected, self._seeds, strict=False)
        ]
        error = max(errors, default=None)
        if error == math.inf:
            text = "outputs are not finite where they should be, or finite where they should not"
            return Confirmed(failure=FailureKind.WRONG_RESULT, message=text, seconds=time.perf_counter() - started)
        ours = self._kernel(loaded)
        theirs = self._kernel(champion) if champion is not None else None
        samples, others = self._pairs(ours, theirs)
        unsteady = 0.0
        if error is not None and error > self._request.tolerance:
            worst = errors.index(error)
            unsteady = self._unsteady(found[worst], expected[worst], self._seeds[worst])
        device_seconds = self._ran + ours.device_seconds + (theirs.device_seconds if theirs is not None else 0.0)
        self._ran = 0.0
        return Confirmed(
            tuple(samples), tuple(others), error, None, problem, time.perf_counter() - started, device_seconds, unsteady
        )

    def _unsteady(self, found: Changed, expected: Changed, seed: int) -> float:
        """See :func:`workers.tvm_backend.run.references.excuse`: the default schedule, its inputs a little off."""
        reference = self._request.reference
        if reference is None:
            return 0.0
        shifted = self._outputs(self._load(reference), seed, self._request.tolerance)
        ours, right, moved = completed([found, expected, shifted], reference.args, seed)
        return excuse(ours, right, moved, self._request.tolerance)

    def _pairs(self, ours: Kernel, theirs: Kernel | None) -> tuple[list[float], list[float]]:
        """Samples of the finalist, and the champion's taken in turn; the order within a pair alternates.

        Without a champion there is no difference to make sure of: ``MIN_PAIRS`` samples tell the latency.
        """
        kernels = [ours] if theirs is None else [ours, theirs]
        plans = [(kernel, *self._runs(kernel)) for kernel in kernels]
        each = sum(seconds for *_, seconds in plans)
        most = self._limits.confirm_repeats if theirs is not None else MIN_PAIRS
        count = max(MIN_PAIRS, min(most, int(PAIRS_SECONDS / each)))
        at_once = min(MIN_PAIRS, max(1, int(WINDOW_SECONDS / each)))
        found: list[list[float]] = [[] for _ in plans]
        while len(found[0]) < count and not settled(found):
            with self._window():
                for _ in range(min(at_once, count - len(found[0]))):
                    turn = 1 if len(found[0]) % 2 == 0 else -1
                    for which, (kernel, number, _) in list(enumerate(plans))[::turn]:
                        self._arm(self._limits.run_timeout)
                        found[which] += kernel.samples(number, 1)
                self._arm(0.0)
        return found[0], found[1] if theirs is not None else []

    def _runs(self, kernel: Kernel) -> tuple[int, float]:
        """Runs of one sample, and the seconds that it takes."""
        with self._limited(self._limits.run_timeout):
            first = max(kernel.samples(1, 1)[0], 1e-9)
        wanted = max(1, math.ceil(self._limits.min_repeat_seconds / first))
        return wanted, first * (wanted + 1)

    def _load(self, request: RunRequest) -> _Loaded:
        name = f"confirmed{len(self._names)}.so"
        self._names.append(name)
        self._session.upload(bytearray(request.path.read_bytes()), target=name)
        return _Loaded(self._session.load_module(name), request)

    def _outputs(self, loaded: _Loaded, seed: int, off: float = 0.0) -> Changed:
        """The arguments after one run on fresh copies of the random inputs, ``off`` by that share of themselves."""
        self._arrays.clear()  # room on the device, before the next ones are placed
        self._arrays += self._placing.place(loaded.request.args, seed)
        for index, tensor in enumerate(self._arrays[:-1] if off else ()):
            spec, array = loaded.request.args[index], tensor.numpy()
            tensor.copyfrom(nudged(as_meant(array, spec), off, seed + index).view(array.dtype))
        before = self._placing.digests(self._arrays)
        kernel = loaded.module[loaded.request.function]
        with self._limited(self._limits.run_timeout):
            started = time.perf_counter()
            kernel(*self._arrays)
            self._device.sync()
            self._ran += time.perf_counter() - started
        return self._placing.changed(self._arrays, before)

    def _kernel(self, loaded: _Loaded) -> Kernel:
        request = loaded.request
        stream = stream_of(self._streaming, request.weights)
        restoring = self._placing.restoring(request.args, self._request.seed, request.updated)
        return Kernel(loaded.module, request.function, self._arrays, self._device, None, stream, restoring)

    @contextlib.contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        """A window in which the device may run for ``seconds``; waiting for it does not count."""
        with self._window():
            self._arm(seconds)
            yield
            self._arm(0.0)

    @contextlib.contextmanager
    def _blame(self, part: Part) -> Iterator[list[str]]:
        """Errors of ``part``: its message where the session lives on, else ``Interrupted``."""
        trouble: list[str] = []
        try:
            yield trouble
        except Exception as error:  # whatever a device answers with is its part's failure
            try:
                self._arm(0.0)
                self._session.get_function("runtime.NumThreads")()
            except Exception:
                raise Interrupted(part, tuple(self._done)) from error
            trouble.append((str(error).strip().splitlines() or [type(error).__name__])[-1][:500])
            log.warning("the %s of a confirmation failed: %s", part, trouble[0])

    def _forget(self) -> None:
        """Remove the libraries; the device is released only when nothing of the session is left."""
        self._arrays.clear()
        with contextlib.suppress(Exception):  # a dead session has nothing to clean
            for name in self._names:
                self._session.remove(name)


def settled(found: Sequence[Sequence[float]]) -> bool:
    """True when more pairs would change nothing: the finalist falls behind, or leads by a wide margin in all of them.

    To give up early makes no false champion more likely; to stop early for a margin of ``CLEAR`` does so only where
    the noise of single samples reaches it.

    Args:
        found: samples of the finalist, and of the champion where there is one.
    """
    if len(found) < 2 or len(found[0]) < MIN_PAIRS:
        return False
    ours, theirs = found
    return statistics.median(ours) >= statistics.median(theirs) or max(ours) < CLEAR * min(theirs)
