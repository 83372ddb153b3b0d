"""Racing and adaptive stop on recorded data: what they save, and what they do to the chosen best.

The rules are not modelled: the engine's own race runs, with a kernel that plays recorded times back.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measure.collecting import unraced
from benchmarks.measure.recording import Stream, Timed
from tunesmith.messages import MeasureLimits
from workers.protocol import RunRequest
from workers.sandbox.lease import HostLease
from workers.tvm_backend.run.race import LONG_SECONDS, Entry, Kernel, Race
from workers.tvm_backend.run.timing_windows import Series, Windows


class Aborted(Exception):
    """The device cut a run off."""


class Playback(Kernel):
    """A kernel whose times were recorded.

    Args:
        timed: the record.
        start: the sample to begin with; after the last comes the first.
        clock: bounds its first run.
    """

    def __init__(self, timed: Timed, start: int, clock: Clock) -> None:
        super().__init__(None, "", (), None, None)
        self._timed, self._next, self._clock, self._runs = timed, start, clock, 0

    def single(self) -> float:
        """The recorded first run, then the short one; of a long kernel, which has none, the samples in turn."""
        self._runs += 1
        if self._runs > 1 and self._timed.first >= LONG_SECONDS:
            seconds = self._timed.samples[self._next % len(self._timed.samples)]
            self._next += 1
        else:
            seconds = self._timed.first if self._runs == 1 else self._timed.short
        self.device_seconds += min(seconds, self._clock.limit)
        if seconds > self._clock.limit:
            raise Aborted
        return seconds

    def samples(self, number: int, repeat: int) -> list[float]:
        """The short run for a millisecond's worth, then the recorded samples in turn."""
        self._runs += 1
        if self._runs == 2 and repeat == 1 and number > 1:
            found = [self._timed.short]
        else:
            recorded = self._timed.samples
            found = [recorded[(self._next + i) % len(recorded)] for i in range(repeat)]
            self._next += repeat
        self.device_seconds += number * sum(found) + found[0]
        return found


class Clock:
    """What bounds the next call."""

    limit = math.inf

    def arm(self, seconds: float) -> None:
        """Bound it; 0 takes that back."""
        self.limit = seconds or math.inf


@dataclass(frozen=True)
class Chosen:
    """How a search ended: index of the fastest by its own samples, seconds of kernel time, samples taken."""

    index: int
    device_seconds: float
    samples: int


@dataclass(frozen=True)
class Effect:
    """Rules against full measurement, on one stream.

    Attributes:
        saved: share of the full measurement's kernel time.
        changed: per draw, how much slower the rules' choice is than the full measurement's, as a share; by all samples.
        regret: per draw, how much slower the rules' choice is than the fastest of all.
        full_regret: the same of the full measurement's choice.
        samples: per candidate, with the rules.
    """

    operator: str
    candidates: int
    saved: float
    changed: tuple[float, ...]
    regret: tuple[float, ...]
    full_regret: tuple[float, ...]
    samples: float


def full(limits: MeasureLimits) -> MeasureLimits:
    """The same limits without racing and without stopping early; the time for one candidate stays bounded."""
    return unraced(limits).model_copy(update={"min_repeats": limits.repeats, "variation": 0.0})


def play(stream: Stream, limits: MeasureLimits, starts: Sequence[int]) -> Chosen:
    """Measure the stream, one race a round, and choose the fastest.

    Args:
        stream: the record.
        limits: the rules.
        starts: for each round, the sample that its playback begins with: contenders whose samples were
            taken in the same turn play them in the same turn, so that a slow phase still hits all of them.
    """
    best, index, incumbent, spent, count, number = math.inf, -1, None, 0.0, 0, 0
    for round_, start in zip(stream.rounds, starts, strict=True):
        entries, clock = list[Entry](), Clock()
        for timed in round_:
            entry = Entry(RunRequest(Path(), "", (), limits))
            entry.kernel = Playback(timed, start, clock)
            entries.append(entry)
        _race(entries, clock, incumbent)
        for position, entry in enumerate(entries):
            spent += entry.kernel.device_seconds if entry.kernel else 0.0
            count += len(entry.samples)
            median = statistics.median(entry.samples) if entry.samples else math.inf
            if median < best:
                best, index = median, number + position
        incumbent = best if math.isfinite(best) else None
        number += len(entries)
    return Chosen(index, spent, count)


def _race(entries: list[Entry], clock: Clock, incumbent: float | None) -> None:
    # Windows that nobody waits for: nothing runs.
    with Series(Windows(HostLease(Path("unused")))) as series:
        race = Race(series, clock.arm, incumbent)
        running = []
        for entry in entries:
            try:
                race.first_run(entry)
            except Aborted:
                continue
            running.append(entry)
        for entry in race.turns(running):
            race.sample(entry)


def compare(stream: Stream, limits: MeasureLimits, draws: int = 100, seed: int = 0) -> Effect:
    """Play the stream with and without the rules, several times from other samples on."""
    rng = np.random.default_rng(seed)
    truth = [timed.latency for timed in stream.timed]
    least = min(truth)
    changed, regret, full_regret, samples = [], [], [], 0
    spent = spent_fully = 0.0
    for _ in range(draws):
        starts, others = rng.integers(0, 1 << 20, (2, len(stream.rounds)))
        ruled = play(stream, limits, starts.tolist())
        whole = play(stream, full(limits), others.tolist())
        changed.append(truth[ruled.index] / truth[whole.index] - 1)
        regret.append(truth[ruled.index] / least - 1)
        full_regret.append(truth[whole.index] / least - 1)
        spent, spent_fully, samples = (
            spent + ruled.device_seconds,
            spent_fully + whole.device_seconds,
            samples + ruled.samples,
        )
    return Effect(
        stream.operator,
        len(truth),
        1 - spent / spent_fully,
        tuple(changed),
        tuple(regret),
        tuple(full_regret),
        samples / draws / len(truth),
    )
