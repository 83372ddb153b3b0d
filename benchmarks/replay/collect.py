"""Measures small design spaces completely, on this machine, once; what is measured is written as it comes."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.measurer import LocalMeasurer, discard, race
from benchmarks.harness.operators import Operator, load
from benchmarks.harness.progress import Progress
from benchmarks.replay.reduce import reduce
from benchmarks.replay.timing import LIMITS, REPEATS, Timing
from benchmarks.replay.workloads import file_of
from tunesmith.messages import MeasureLimits
from tunesmith.space.base import Bools, Floats, Ints, PointBatch
from tunesmith.space.space import Space
from tunesmith.testing.replay import Recording
from tunesmith.types import Candidate, FailureKind
from workers.protocol import Built, Runner
from workers.tvm_backend.design_space.space import TraceSpace

FAILURE = "<U16"
"""Wide enough for every ``FailureKind``."""

SCALES = (1, 2, 4)
ENOUGH = 0.6
"""Share of the wanted points that must be different programs."""
LEAST_FINALISTS = 8
SWEEPS = 2


@dataclass(frozen=True)
class Rules:
    """How points are measured.

    Attributes:
        points: of a reduced space, about.
        pilot: random points that say where the good ones are.
        pilot_seconds: kernel time that a pilot point or the default schedule may use.
        cutoff: times the best known latency above which one sample is enough for any other point.
        chunk: points that are built, then timed, between two looks at the reference kernel.
        unsteady: change of the reference kernel during a chunk, as a share, from which the chunk is timed again;
        slowed: so it is when that kernel takes this many times as long as at first;
        attempts: but not more often than this.
        passes: over the fastest points at the end, and over the reference kernel at first.
        finalists: share of the points that count as the fastest.
    """

    points: int = 480
    pilot: int = 48
    pilot_seconds: float = 0.02 * REPEATS
    cutoff: float = 20.0
    chunk: int = 48
    unsteady: float = 0.15
    slowed: float = 1.5
    attempts: int = 3
    passes: int = 5
    finalists: float = 0.05


@dataclass(frozen=True)
class Subject:
    """An operator, how often a model would run it, and its complete design space."""

    operator: Operator
    weight: float
    traces: TraceSpace

    @property
    def spec(self) -> str:
        """The operator's text."""
        return self.operator.spec


def open_subject(spec: str, weight: float, measurer: LocalMeasurer) -> Subject:
    """Import the operator and generate its design space."""
    operator = load(spec, measurer.target)
    bodies = list(operator.bodies.values())
    traces = TraceSpace(operator.task.module, measurer.target, bodies, threads=measurer.host.cores)
    return Subject(operator, weight, traces)


class Collector:
    """Collects one workload after another until the deadline.

    Args:
        measurer: where candidates are built and timed.
        folder: of the recordings; complete ones are left alone, others are resumed.
        deadline: of ``time.monotonic``; no chunk begins after it.
        progress: takes a line now and then.
        rules: how points are measured.
    """

    def __init__(
        self, measurer: LocalMeasurer, folder: Path, deadline: float, progress: Progress, rules: Rules = Rules()
    ) -> None:
        self._measurer, self._folder = measurer, folder
        self._deadline, self._progress, self._rules = deadline, progress, rules
        self._pilot = LIMITS.model_copy(update={"max_measure_seconds": rules.pilot_seconds})
        self._limits = LIMITS.model_copy(update={"cutoff": rules.cutoff})

    def collect(self, spec: str, weight: float) -> Recording | None:
        """Measure what is missing of one workload; None when there was no time to begin."""
        path = file_of(spec, self._folder)
        recording = Recording.load(path) if path.exists() else None
        if recording is not None and recording.facts.get("complete"):
            return recording
        if self._late():
            return recording
        subject = open_subject(spec, weight, self._measurer)
        if recording is None:
            recording = self._draft(subject)
            recording.save(path)
        recording = self._fill(subject, recording, path)
        if not recording.missing and not self._late():
            recording = self._finish(subject, recording)
            recording.save(path)
        return recording

    def _late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _draft(self, subject: Subject) -> Recording:
        """Choose the points after a pilot of random ones, and find out which of them are the same program."""
        rng, full = np.random.default_rng(_seed(subject.spec)), subject.traces.space
        pilot, valid = subject.traces.resolve(full.sample(rng, self._rules.pilot))
        pilot = pilot.take(valid)
        candidates = full.candidates(pilot)
        built = self._measurer.build(subject.operator, [Candidate(None), *candidates])
        with self._measurer.device() as runner:
            untuned, *timings = self._timed(runner, built, self._pilot)
            seconds = np.array([t.seconds for t in timings])
            winner = int(np.argmin(seconds))
            repeated = [self._reference(runner, built[winner + 1]) for _ in range(self._rules.passes)]
        discard(built)
        chosen, alias, usable = self._reduced(subject, pilot, seconds, rng)
        fastest = chosen.batch([candidates[winner]])
        facts = {
            **self._facts(subject),
            "reference": int(alias[chosen.keys(fastest)[0]]),
            "reference_seconds": min(repeated),
            "complete": False,
        }
        self._progress(f"{subject.spec}: {chosen.size} points of {full.size}, {len(np.unique(alias[usable]))} programs")
        blank = np.zeros(chosen.size)
        return Recording(
            subject.spec,
            chosen,
            alias,
            np.full(chosen.size, np.inf),
            blank,
            np.where(usable, FailureKind.ABANDONED.value, FailureKind.INVALID.value),
            blank,
            untuned.seconds,
            subject.weight,
            facts,
        )

    def _reduced(
        self, subject: Subject, pilot: PointBatch, seconds: Floats, rng: np.random.Generator
    ) -> tuple[Space, Ints, Bools]:
        """A small space, and :func:`canonical` of it; more points where many of them are the same programs."""
        for scale in SCALES:
            chosen = reduce(subject.traces.space, pilot, seconds, scale * self._rules.points, rng)
            alias, usable = canonical(subject.traces, chosen)
            if len(np.unique(alias[usable])) >= ENOUGH * self._rules.points:
                break
        return chosen, alias, usable

    def _facts(self, subject: Subject) -> dict[str, Any]:
        host, workload = self._measurer.host, subject.operator.task.workload
        return {
            "workload": workload.hash,
            "family": workload.family,
            "flops": workload.flops,
            "target": self._measurer.target.canonical,
            "cpu": host.cpu,
            "cores": host.cores,
            "tvm": host.tvm,
            "date": datetime.date.today().isoformat(),
            "full_size": str(subject.traces.space.size),
        }

    def _fill(self, subject: Subject, recording: Recording, path: Path) -> Recording:
        """Measure the points that were not yet, in random order, chunk by chunk; those of unsteady chunks once more."""
        order = np.random.default_rng(_seed(subject.spec)).permutation(recording.space.size)
        for _ in range(SWEEPS):
            own = (recording.alias == np.arange(len(order))) & (recording.failure == FailureKind.ABANDONED.value)
            todo = order[own[order]]
            for start in range(0, len(todo), self._rules.chunk):
                if self._late():
                    return recording
                began, chunk = time.monotonic(), todo[start : start + self._rules.chunk]
                recording = filled(recording, chunk, self._steady(subject, recording, chunk, 1)[0])
                recording.save(path)
                rate = len(chunk) / (time.monotonic() - began)
                self._progress(
                    f"{subject.spec}: {recording.missing} points left, {rate:.1f} a second, "
                    f"best {recording.optimum * 1e6:.1f} µs"
                )
        return recording

    def _finish(self, subject: Subject, recording: Recording) -> Recording:
        """Measure the fastest points several times more, so that the optimum is not the luckiest of them."""
        own = np.flatnonzero((recording.alias == np.arange(recording.space.size)) & np.isfinite(recording.seconds))
        count = min(len(own), max(LEAST_FINALISTS, round(self._rules.finalists * len(own))))
        fastest = own[np.argsort(recording.seconds[own], kind="stable")][:count]
        passes = self._steady(subject, recording, fastest, self._rules.passes)
        repeated = np.array([[t.seconds for t in timings] for timings in passes])
        if not np.isfinite(repeated).all():
            return recording
        timings = [
            Timing(float(value), float(recording.spread[i]), "", float(recording.cost[i]))
            for i, value in zip(fastest, np.median(repeated, axis=0), strict=True)
        ]
        noise = float(np.median(repeated.std(axis=0, ddof=1) / repeated.mean(axis=0)))
        self._progress(f"{subject.spec}: the fastest {count} again, they repeat within {noise:.1%}")
        done = filled(recording, fastest, timings)
        return dataclasses.replace(done, facts={**done.facts, "complete": True, "noise": noise})

    def _steady(self, subject: Subject, recording: Recording, numbers: Ints, passes: int) -> list[list[Timing]]:
        """Timings of points in some passes, each scaled to how fast the reference kernel ran at first. While that
        kernel's speed changes a pass is taken again; one that never was steady counts as not measured."""
        candidates = recording.space.candidates(recording.space.at(np.array([recording.facts["reference"], *numbers])))
        built = self._measurer.build(subject.operator, candidates)
        try:
            with self._measurer.device() as runner:
                return [self._pass(runner, recording, built) for _ in range(passes)]
        finally:
            discard(built)

    def _pass(self, runner: Runner, recording: Recording, built: Sequence[Built]) -> list[Timing]:
        base = float(recording.facts["reference_seconds"])
        for _ in range(self._rules.attempts):
            before = self._reference(runner, built[0])
            timings = self._timed(runner, built[1:], self._limits, min(base, recording.optimum))
            after = self._reference(runner, built[0])
            now = 0.5 * (before + after)
            if abs(after / before - 1) <= self._rules.unsteady and now <= self._rules.slowed * base:
                return [dataclasses.replace(t, seconds=t.seconds * base / now) for t in timings]
            self._progress(
                f"{recording.name}: unsteady, the reference kernel took {base * 1e6:.1f} µs at first, now "
                f"{before * 1e6:.1f} and {after * 1e6:.1f} µs"
            )
        return [Timing(failure=FailureKind.ABANDONED.value)] * (len(built) - 1)

    def _reference(self, runner: Runner, built: Built) -> float:
        """Seconds of the reference kernel now."""
        (timing,) = self._timed(runner, [built], self._pilot)
        return timing.seconds

    @staticmethod
    def _timed(
        runner: Runner, built: Sequence[Built], limits: MeasureLimits, incumbent: float | None = None
    ) -> list[Timing]:
        return list(map(Timing.of, built, race(runner, built, limits, incumbent)))


def canonical(traces: TraceSpace, chosen: Space) -> tuple[Ints, Bools]:
    """For each point of ``chosen`` the first one with the same program, and whether it applies at all."""
    candidates = chosen.candidates(chosen.at(np.arange(chosen.size)))
    resolved, valid = traces.resolve(traces.space.batch(candidates))
    alias = np.arange(chosen.size)
    _, first, place = np.unique(traces.space.keys(resolved)[valid], return_index=True, return_inverse=True)
    alias[valid] = alias[valid][first[place]]
    return alias, valid


def filled(recording: Recording, numbers: Ints, timings: Sequence[Timing]) -> Recording:
    """The recording with these points measured, and whatever is the same program."""
    columns = {name: getattr(recording, name).copy() for name in ("seconds", "spread", "failure", "cost")}
    columns["failure"] = columns["failure"].astype(FAILURE)
    for number, timing in zip(numbers, timings, strict=True):
        for name, column in columns.items():
            column[number] = getattr(timing, name)
    return dataclasses.replace(recording, **{name: column[recording.alias] for name, column in columns.items()})


def _seed(spec: str) -> int:
    return int(hashlib.sha256(spec.encode()).hexdigest()[:8], 16)
