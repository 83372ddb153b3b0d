"""A wave of candidates: one short run of each, then samples, in turn, of those that may be the fastest.

A device has slow phases of a tenth of a second and more. Samples taken at one go fall into one of them, agree with each
other, and say nothing of the next phase; taken in turn they lie apart, and each phase hits all contenders equally.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunesmith.measuring.racing import clearly_slower, dominated
from tunesmith.measuring.stopping import stop
from tunesmith.types import StopReason
from workers.protocol import Begun, RunOutcome, RunRequest
from workers.tvm_backend.run.cold_weights import Stream
from workers.tvm_backend.run.restoring import Restoring
from workers.tvm_backend.run.timing_windows import Series

SHORT_SECONDS = 0.001
"""A first run that is shorter than this is repeated to know how long one run takes."""
COLD = 2.0
"""The very first run of a kernel pays for page faults and cold caches. Only one that is slower than this many times the
cutoff is judged by it alone."""
CHEAP_SECONDS = 0.005
"""A first run that is shorter than this is never judged alone. A second costs nothing, and a kernel of microseconds may
take a hundred times as long when it runs first."""
LONG_SECONDS = 0.1
"""A run this long needs none before it to warm up: filling the caches is less than a hundredth of it."""
LONG_DEFAULT_SECONDS = 0.03
"""The same for a default schedule, of which nobody asks for more than a few per cent."""
ABORT_SECONDS = 0.5
"""No first run is cut off earlier."""
DEFAULT_SHARE = 1 / 3
"""Share of a candidate's kernel time that a default schedule gets: mostly it is far behind, and its model is timed
whole."""


class Kernel:
    """A loaded candidate on the device, and the time that it ran there.

    Args:
        module: the library on the device.
        name: name of the function.
        arguments: on the device.
        device: TVM's.
        once: times one call (``device_functions.once``); None where the device does not offer it.
        stream: times runs on weights that lie where the model has them; None: everything stays in the caches.
        restoring: times runs that update an argument; None: there is none.
    """

    def __init__(
        self,
        module: Any,
        name: str,
        arguments: Sequence[Any],
        device: Any,
        once: Callable[..., float] | None,
        stream: Stream | None = None,
        restoring: Restoring | None = None,
    ) -> None:
        self._module, self._name, self._arguments = module, name, arguments
        self._device, self._once, self._apart = device, once, restoring or stream
        self.device_seconds = 0.0

    def single(self) -> float:
        """Seconds of one run, as far as possible the only one."""
        if self._apart is not None:
            return self._run(self._apart, 1, 0)
        if self._once is None:
            return self.samples(1, 1)[0]
        seconds = float(self._once(self._module, self._name, *self._arguments))
        self.device_seconds += seconds
        return seconds

    def samples(self, number: int, repeat: int) -> list[float]:
        """``repeat`` samples, each the mean seconds of ``number`` runs, after one run to warm up."""
        if self._apart is not None:
            return [self._run(self._apart, number, 1) for _ in range(repeat)]
        evaluator = self._module.time_evaluator(self._name, self._device, number=number, repeat=repeat)
        found = [float(value) for value in evaluator(*self._arguments).results]
        self.device_seconds += number * sum(found) + found[0]
        return found

    def _run(self, apart: Stream | Restoring, number: int, warm: int) -> float:
        seconds = apart.run(self._module, self._name, self._arguments, number, warm)
        self.device_seconds += (number + warm) * seconds
        return seconds


@dataclass
class Entry:
    """A candidate in the race.

    Attributes:
        uploaded: name of its library on the device.
        first: seconds of its first run.
        samples: seconds, those of an earlier session first.
        stopped: why it gets no further sample; None: it is not done.
        failed: what went wrong instead.
        seconds: spent on it so far.
        before: what is known of it from an earlier session, where it ran.
    """

    request: RunRequest
    uploaded: str = ""
    kernel: Kernel | None = None
    first: float = math.inf
    samples: list[float] = field(default_factory=list)
    stopped: StopReason | None = None
    failed: RunOutcome | None = None
    seconds: float = 0.0
    before: Begun | None = None

    @classmethod
    def of(cls, request: RunRequest, before: Begun | None) -> Entry:
        """A candidate that is new, or was begun in another session."""
        if before is None:
            return cls(request)
        return cls(request, first=before.first, samples=list(before.samples), seconds=before.seconds, before=before)

    @property
    def device_seconds(self) -> float:
        """Seconds of the kernel, in all sessions."""
        earlier = self.before.device_seconds if self.before is not None else 0.0
        return earlier + (self.kernel.device_seconds if self.kernel is not None else 0.0)

    @property
    def latency(self) -> float:
        """Seconds as far as they are known: the median once the samples may suffice, the first run before that."""
        known = self.stopped is not None or len(self.samples) >= max(1, self.request.limits.min_repeats)
        return statistics.median(self.samples) if known else self.first

    @property
    def number(self) -> int:
        """Runs of which a sample is the mean."""
        return max(1, math.ceil(self.request.limits.min_repeat_seconds / max(self.first, 1e-9)))

    @property
    def long(self) -> float:
        """Seconds of a run from which on it needs none before it."""
        return LONG_DEFAULT_SECONDS if self.request.default else LONG_SECONDS

    @property
    def allowance(self) -> float:
        """Seconds of kernel time that it may use."""
        return self.request.limits.max_measure_seconds * (DEFAULT_SHARE if self.request.default else 1.0)

    @property
    def affordable(self) -> int:
        """Samples that its time allows."""
        return max(1, int(self.allowance / (max(self.first, 1e-9) * self.number)))

    def outcome(self) -> RunOutcome | Begun | None:
        """Result: a failure, its samples; or, when its session ended too early, what is known of it, if
        anything."""
        if self.failed is not None:
            return self.failed
        if self.stopped is not None:
            return RunOutcome(
                tuple(self.samples), seconds=self.seconds, device_seconds=self.device_seconds, stopped=self.stopped
            )
        ran = math.isfinite(self.first)
        return Begun(self.first, self.seconds, self.device_seconds, tuple(self.samples)) if ran else None


class Race:
    """Times loaded candidates of one workload.

    Args:
        series: timing windows.
        arm: bounds the next call on the device in seconds, 0 takes that back.
        incumbent: latency to beat.
    """

    def __init__(self, series: Series, arm: Callable[[float], None], incumbent: float | None) -> None:
        self._series, self._arm, self._incumbent = series, arm, incumbent
        self._pace = incumbent

    def first_run(self, entry: Entry) -> None:
        """The first run of a candidate, and a second where the first may mislead."""
        assert entry.kernel is not None
        if entry.before is not None:
            self._keep_pace(entry)
            return
        limits, started = entry.request.limits, time.perf_counter()
        racing = not entry.request.is_reference
        with_limit = limits.run_timeout
        if racing and self._pace is not None:
            with_limit = min(with_limit, max(ABORT_SECONDS, limits.abort * self._pace))
        self._timed(with_limit)
        first = entry.kernel.single()
        judged = racing and first >= CHEAP_SECONDS and clearly_slower(first, self._pace, COLD * limits.cutoff)
        if not judged and first < min(entry.long, entry.allowance):
            number = max(1, math.ceil(SHORT_SECONDS / max(first, 1e-8)))
            self._timed(limits.run_timeout)
            first = entry.kernel.samples(number, 1)[0] if number > 1 else min(first, entry.kernel.single())
        entry.first = first
        self._keep_pace(entry)
        entry.seconds += time.perf_counter() - started

    def _keep_pace(self, entry: Entry) -> None:
        """First runs are compared with the fastest first run so far, as long as nothing better is known."""
        if not entry.request.default:
            self._pace = entry.first if self._pace is None else min(self._pace, entry.first)

    def turns(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Who is to be sampled next, round after round, until each of them is done or failed."""
        field = order(entries)
        for number in itertools.count():
            self._judge(field)
            left = list(enumerate(running(field)))
            if not left:
                return
            # In every other round neighbours change places: nobody always runs after the same one.
            yield from (entry for _, entry in sorted(left, key=lambda place: place[0] ^ (number & 1)))

    def sample(self, entry: Entry) -> None:
        """One sample of a candidate; two where a sample is a single run and the call costs another to warm up."""
        assert entry.kernel is not None
        limits, started = entry.request.limits, time.perf_counter()
        left = min(limits.repeats, entry.affordable) - len(entry.samples)
        self._timed(limits.run_timeout)
        if entry.first >= entry.long:
            entry.samples.append(entry.kernel.single())
        else:
            entry.samples += entry.kernel.samples(entry.number, min(left, 2 if entry.number == 1 else 1))
        entry.seconds += time.perf_counter() - started

    def _judge(self, field: Sequence[Entry]) -> None:
        """Who is done. All are compared with the same latency, whoever was sampled first."""
        to_beat, left = self._to_beat(field), running(field)
        for entry, reason in [(entry, self._reason(entry, to_beat)) for entry in left]:
            entry.stopped = reason
            if reason is not None and not entry.samples:
                entry.samples = [entry.first]

    def _to_beat(self, field: Sequence[Entry]) -> float | None:
        """The latency to beat: the best in the field, those that are done included. With the champion in it, what
        that takes now counts, and not what it took when it became champion."""
        rivals = [entry for entry in field if not entry.request.default and entry.failed is None]
        known = [entry.latency for entry in rivals]
        if self._incumbent is not None and not any(entry.request.champion for entry in rivals):
            known.append(self._incumbent)
        return min((latency for latency in known if 0 < latency < math.inf), default=None)  # devices invent numbers

    @staticmethod
    def _reason(entry: Entry, to_beat: float | None) -> StopReason | None:
        """Why it gets no further sample, if so."""
        limits, samples = entry.request.limits, entry.samples
        to_beat = None if entry.request.is_reference else to_beat
        if not samples:
            if clearly_slower(entry.first, to_beat, limits.cutoff):
                return StopReason.RACED
            return None if entry.first < entry.allowance else StopReason.BUDGET
        reason = stop(samples, min_repeats=limits.min_repeats, repeats=limits.repeats, variation=limits.variation)
        spent = len(samples) >= entry.affordable
        if (
            reason is None
            and (spent or len(samples) >= limits.min_repeats)
            and dominated(samples, to_beat, limits.margin)
        ):
            return StopReason.RACED
        return StopReason.BUDGET if reason is None and spent else reason

    def _timed(self, limit: float) -> None:
        """A window for the next call, which may take ``limit`` seconds; waiting for the window does not count."""
        if self._series.due:
            self._arm(0.0)
            self._series.renew()
        self._arm(limit)


def running(entries: Sequence[Entry]) -> list[Entry]:
    """Entries that are neither done nor failed."""
    return [entry for entry in entries if entry.stopped is None and entry.failed is None]


def order(entries: Sequence[Entry]) -> list[Entry]:
    """The champion and the default schedule first, then the most promising."""
    return sorted(entries, key=lambda entry: (not entry.request.is_reference, entry.first))


def references_first(entries: Sequence[Entry]) -> list[Entry]:
    """The default schedule and the champion first, then as they came."""
    return sorted(entries, key=lambda entry: (not entry.request.default, not entry.request.champion))
