"""A wave of candidates: one short run of each, repeats only for those that may be the fastest."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunesmith.measuring.racing import clearly_slower, outrun
from tunesmith.measuring.stopping import stop
from tunesmith.types import StopReason
from workers.tvm_backend.measuring import Begun, RunOutcome, RunRequest
from workers.tvm_backend.windows import Series

SHORT_SECONDS = 0.001
"""A first run that is shorter than this is repeated to know how long one run takes."""
COLD = 2.0
"""The very first run of a kernel pays for page faults and cold caches: only one that is slower than this many times
the cutoff is judged by it alone."""
CHEAP_SECONDS = 0.005
"""A first run that is shorter than this is never judged alone: a second costs nothing, and a kernel of microseconds may
take a hundred times as long when it runs first."""
ABORT_SECONDS = 0.5
"""No first run is cut off earlier."""
FLUSH = "cache_flush_cpu_non_first_arg"


class Kernel:
    """A loaded candidate on the device, and the time that it ran there.

    Args:
        module: the library on the device.
        name: of the function.
        arguments: on the device.
        device: TVM's.
        once: times one call (``device_functions.once``); None where the device does not offer it.
        cold: flush the caches before each run.
    """

    def __init__(
        self, module: Any, name: str, arguments: Sequence[Any], device: Any, once: Callable[..., float] | None,
        cold: bool = False,
    ) -> None:  # fmt: skip
        self._module, self._name, self._arguments = module, name, arguments
        self._device, self._once, self._cold = device, once, cold
        self.device_seconds = 0.0

    def first(self) -> float:
        """Seconds of one run, as far as possible the only one."""
        if self._once is None or self._cold:
            return self.samples(1, 1)[0]
        seconds = float(self._once(self._module, self._name, *self._arguments))
        self.device_seconds += seconds
        return seconds

    def samples(self, number: int, repeat: int) -> list[float]:
        """``repeat`` samples, each the mean seconds of ``number`` runs, after one run to warm up."""
        flush = {"f_preproc": FLUSH} if self._cold else {}
        evaluator = self._module.time_evaluator(self._name, self._device, number=number, repeat=repeat, **flush)
        found = [float(value) for value in evaluator(*self._arguments).results]
        self.device_seconds += number * sum(found) + found[0]
        return found


@dataclass
class Entry:
    """A candidate in the race.

    Attributes:
        uploaded: name of its library on the device.
        first: seconds of its first run.
        seconds: spent on it so far.
        before: of them, in an earlier session; it ran there.
    """

    request: RunRequest
    uploaded: str = ""
    kernel: Kernel | None = None
    first: float = math.inf
    samples: list[float] = field(default_factory=list)
    stopped: StopReason | None = None
    seconds: float = 0.0
    before: Begun | None = None

    @classmethod
    def of(cls, request: RunRequest, before: Begun | None) -> Entry:
        """A candidate that is new, or was begun in another session."""
        if before is None:
            return cls(request)
        return cls(request, first=before.first, seconds=before.seconds, before=before)

    def begun(self) -> Begun | None:
        """What is known when its session ends before its turn; None when it did not run."""
        return Begun(self.first, self.seconds, self.device_seconds) if math.isfinite(self.first) else None

    @property
    def device_seconds(self) -> float:
        """Of the kernel, in all sessions."""
        earlier = self.before.device_seconds if self.before is not None else 0.0
        return earlier + (self.kernel.device_seconds if self.kernel is not None else 0.0)

    def outcome(self) -> RunOutcome:
        """What came of it."""
        return RunOutcome(
            tuple(self.samples), seconds=self.seconds, device_seconds=self.device_seconds, stopped=self.stopped
        )


class Race:
    """Times loaded candidates of one workload.

    Args:
        series: timing windows.
        arm: bounds the next call on the device in seconds, 0 takes that back.
        incumbent: latency to beat.
    """

    def __init__(self, series: Series, arm: Callable[[float], None], incumbent: float | None) -> None:
        self._series, self._arm, self._best = series, arm, incumbent
        self._pace = incumbent

    def heat(self, entry: Entry) -> None:
        """The first run of a candidate, and a second where the first may mislead."""
        assert entry.kernel is not None
        if entry.before is not None:
            self._keep_pace(entry)
            return
        limits, started = entry.request.limits, time.perf_counter()
        racing = not entry.request.yardstick
        with_limit = limits.run_timeout
        if racing and self._pace is not None:
            with_limit = min(with_limit, max(ABORT_SECONDS, limits.abort * self._pace))
        self._timed(with_limit)
        first = entry.kernel.first()
        judged = racing and first >= CHEAP_SECONDS and clearly_slower(first, self._pace, COLD * limits.cutoff)
        if not judged and first < limits.max_measure_seconds:
            number = max(1, math.ceil(SHORT_SECONDS / max(first, 1e-8)))
            self._timed(limits.run_timeout)
            first = entry.kernel.samples(number, 1)[0] if number > 1 else min(first, entry.kernel.first())
        entry.first = first
        self._keep_pace(entry)
        entry.seconds += time.perf_counter() - started

    def _keep_pace(self, entry: Entry) -> None:
        """First runs are compared with the fastest first run so far, as long as nothing better is known."""
        if not entry.request.default:
            self._pace = entry.first if self._pace is None else min(self._pace, entry.first)

    def final(self, entry: Entry) -> None:
        """All the samples that a candidate deserves."""
        assert entry.kernel is not None
        limits, started = entry.request.limits, time.perf_counter()
        hopeless = not entry.request.yardstick and clearly_slower(entry.first, self._best, limits.cutoff)
        if hopeless or entry.first >= limits.max_measure_seconds:
            entry.samples = [entry.first]
            entry.stopped = StopReason.RACED if hopeless else StopReason.BUDGET
        else:
            entry.samples, entry.stopped = self._sample(entry, entry.kernel)
        median = statistics.median(entry.samples)
        if entry.request.champion or (self._best is None and not entry.request.default):
            self._best = median
        elif not entry.request.default:
            self._best = min(self._best or median, median)
        entry.seconds += time.perf_counter() - started

    def _sample(self, entry: Entry, kernel: Kernel) -> tuple[list[float], StopReason]:
        limits, best = entry.request.limits, None if entry.request.yardstick else self._best
        number = 1 if limits.cache == "cold" else max(1, math.ceil(limits.min_repeat_seconds / max(entry.first, 1e-9)))
        affordable = max(1, int(limits.max_measure_seconds / (entry.first * number)))
        samples: list[float] = []
        while True:
            left = min(limits.repeats, affordable) - len(samples)
            self._timed(limits.run_timeout)
            samples += kernel.samples(number, min(left, limits.min_repeats if not samples else 2))
            reason = stop(
                samples, min_repeats=limits.min_repeats, repeats=limits.repeats, variation=limits.variation
            )
            if reason is None and outrun(samples, best, limits.margin):
                reason = StopReason.RACED
            if reason is None and len(samples) >= affordable:
                reason = StopReason.BUDGET
            if reason is not None:
                return samples, reason

    def _timed(self, limit: float) -> None:
        """A window for the next call, which may take ``limit`` seconds; waiting for the window does not count."""
        if self._series.due:
            self._arm(0.0)
            self._series.renew()
        self._arm(limit)


def order(entries: Sequence[Entry]) -> list[Entry]:
    """The champion and the default schedule first, then the most promising: each sets the bar for those that follow."""
    return sorted(entries, key=lambda entry: (not entry.request.yardstick, entry.first))


def yardsticks_first(entries: Sequence[Entry]) -> list[Entry]:
    """The default schedule and the champion first, then as they came."""
    return sorted(entries, key=lambda entry: (not entry.request.default, not entry.request.champion))
