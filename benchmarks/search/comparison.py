"""One operator: Tunesmith in TVM's design space and in its own beside MetaSchedule's recorded runs, timed in turn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from benchmarks.harness import jobs
from benchmarks.harness.comparison import Entry
from benchmarks.harness.contenders import METASCHEDULE
from benchmarks.harness.jobs import Measured, Point, Request, Tuned
from benchmarks.harness.progress import Progress
from benchmarks.operators import first
from benchmarks.operators.cases import Case
from benchmarks.operators.contenders import OperatorComparison
from benchmarks.operators.recordings import TRIALS, Recording
from tunesmith.names import ALL_SPACE, TVM_SPACE
from workers.peers.comparison import Peer

COUNTS = (32, 64, TRIALS)
"""Trials after which the two are compared."""
RUN_SECONDS = 1200.0
"""Seconds in which a run of ``TRIALS`` candidates must be over."""


@dataclass(frozen=True)
class SearchPlan:
    """How to go about it.

    Attributes:
        searchers: names of Tunesmith's.
        seconds: wall time of a run in the own space; None: that of MetaSchedule's longest run, without which nothing
            is done.
        slice: seconds of timing per contender and pass.
        passes: processes of each contender, 2 at least.
        runs: folder of MetaSchedule's recordings.
    """

    searchers: tuple[str, ...]
    seconds: float | None
    slice: float
    passes: int
    runs: Path


@dataclass(frozen=True)
class Baseline:
    """One of MetaSchedule's runs.

    Attributes:
        tuner: ``metaschedule-16`` or ``metaschedule-64``.
        recorded: seconds, the best after each of ``COUNTS`` as the run itself measured it.
        timed: seconds, its winner of all trials now.
        wall: seconds of tuning, without the start of its process.
    """

    tuner: str
    recorded: Mapping[int, float]
    timed: float
    wall: float

    def after(self, count: int) -> float:
        """Seconds after ``count`` trials: as recorded, scaled by how much its winner differs from what was recorded.

        A recording has no other schedule than the winner that could be timed.
        """
        return self.recorded[count] * self.timed / self.recorded[TRIALS]


@dataclass(frozen=True)
class TrialRun:
    """One of Tunesmith's runs in TVM's space.

    Attributes:
        bests: seconds, the champion after each trial by its own measurements; infinite until there is one.
        timed: seconds now, of the best after each of ``COUNTS``; what failed or is wrong is missing.
    """

    bests: tuple[float, ...]
    timed: Mapping[int, float]

    def needed(self, goal: float) -> int | None:
        """Trials until a schedule as fast as ``goal`` was known, in seconds as timed now; None where there was none."""
        if TRIALS not in self.timed:
            return None
        scaled = goal * self.bests[-1] / self.timed[TRIALS]
        return next((at for at, best in enumerate(self.bests, start=1) if best <= scaled), None)


@dataclass(frozen=True)
class TimedRun:
    """One of Tunesmith's runs in its own space.

    Attributes:
        curve: by its own measurements.
        timed: seconds, what it found at last now.
        wall: seconds that it had.
    """

    curve: tuple[Point, ...]
    timed: float
    wall: float

    def reached(self, goal: float) -> float | None:
        """Seconds until a schedule as fast as ``goal`` was known, in seconds as timed now; None where none was."""
        if not self.curve:
            return None
        scaled = goal * self.curve[-1].latency / self.timed
        return next((point.seconds for point in self.curve if point.latency <= scaled), None)


@dataclass(frozen=True)
class SearchOutcome:
    """What became of an operator and a seed.

    Attributes:
        baselines: those whose winner was timed.
        trial_runs, timed_runs: by searcher; what failed is missing.
        entries: everything that was timed, or why not.
        versions: those of the recordings.
        searchers: all that were asked, in order.
    """

    case: Case
    seed: int
    baselines: list[Baseline]
    trial_runs: Mapping[str, TrialRun]
    timed_runs: Mapping[str, TimedRun]
    entries: list[Entry]
    versions: Mapping[str, str] = field(default_factory=dict)
    searchers: tuple[str, ...] = ()

    @property
    def baseline(self) -> Baseline | None:
        """The run whose winner is the fastest."""
        return min(self.baselines, key=lambda each: each.timed, default=None)


def run(case: Case, seed: int, plan: SearchPlan, folder: Path, progress: Progress) -> SearchOutcome:
    """Tune and time one operator; nothing is done where there is nothing to compare with: no run of MetaSchedule, and
    no other searcher.

    Args:
        case: the operator.
        seed: of all searches.
        plan: how.
        folder: empty; everything made on the way goes there.
        progress: is told what is going on.

    Raises:
        TunesmithError: the operator cannot be read. A run that fails is an entry that says why.
    """
    comparison = OperatorComparison(case, folder, progress)
    known = comparison.enter_recorded(METASCHEDULE, seed, plan.runs)
    wall = plan.seconds or max((each.outcome.elapsed for each in known.values()), default=0.0)
    if not wall or (not known and len(plan.searchers) == 1):
        progress(f"there is no run of MetaSchedule to compare with, seed {seed}")
        return SearchOutcome(case, seed, [], {}, {}, list(comparison.entries.values()))
    trial_runs = dict(_each(comparison, plan, Request(comparison.target, seed, TRIALS, RUN_SECONDS, TVM_SPACE)))
    timed_runs = dict(_each(comparison, plan, Request(comparison.target, seed, None, wall, ALL_SPACE)))
    comparison.run(plan.slice, plan.passes)
    timed = {entry.runtime: entry.kernel_seconds for entry in comparison.entries.values()}
    baselines = [found for name, run in known.items() if (found := baseline_of(run, timed[name]))]
    return SearchOutcome(
        case,
        seed,
        baselines,
        {name: _trial_run(name, tuned, timed) for name, tuned in trial_runs.items()},
        {
            name: TimedRun(tuned.curve, seconds, wall)
            for name, tuned in timed_runs.items()
            if (seconds := timed[_name(name, ALL_SPACE)])
        },
        list(comparison.entries.values()),
        comparison.versions,
        plan.searchers,
    )


def _each(comparison: OperatorComparison, plan: SearchPlan, request: Request) -> Iterator[tuple[str, Tuned]]:
    """A run of every searcher, and entries of what it found."""
    for search in plan.searchers:
        comparison.progress(f"tuning with {search} in the space {request.space}, seed {request.seed}")
        found: list[Tuned] = []
        make = partial(_tune, comparison=comparison, request=replace(request, search=search), found=found)
        comparison.enter(_name(search, request.space), make, request.seed)
        for tuned in found:
            for count, name in _names(search, tuned.measured).items() if request.trials else ():
                if count < TRIALS and name == _name(search, request.space, count):
                    best = first.champions_of_first(tuned.measured, count)
                    comparison.enter(name, partial(comparison.of_best, tuned=tuned, best=best), request.seed)
            yield search, tuned


def _tune(name: str, comparison: OperatorComparison, request: Request, found: list[Tuned]) -> tuple[Entry, Peer]:
    tuned = jobs.tune_warm(comparison.file, request, comparison.subfolder(name))
    made = (
        comparison.of_best(name, tuned, first.champions_of_first(tuned.measured, TRIALS))
        if request.trials
        else comparison.of_tuned(name, tuned)
    )
    found.append(tuned)
    return made


def _trial_run(search: str, tuned: Tuned, timed: Mapping[str, float | None]) -> TrialRun:
    found = {count: timed[name] for count, name in _names(search, tuned.measured).items()}
    return TrialRun(bests_of(tuned.measured), {count: value for count, value in found.items() if value})


def baseline_of(recording: Recording, timed: float | None) -> Baseline | None:
    """A recorded run, where its winner could be timed; ``timed``: seconds."""
    if timed is None:
        return None
    latencies = [trial.latency for trial in recording.outcome.trials]
    bests = {count: _best(latencies[:count]) for count in COUNTS}
    return Baseline(recording.outcome.tuner, bests, timed, recording.outcome.elapsed)


def bests_of(measured: Sequence[Measured]) -> tuple[float, ...]:
    """The champion's latency after each of the first ``TRIALS`` candidates in seconds, infinite before there is one.

    The default schedule is none of them.
    """
    mine = [one for one in measured if one.candidate.sketch is not None]
    return tuple(
        _best([latency for _, latency in first.champions_of_first(mine, count).values()])
        for count in range(1, min(TRIALS, len(mine)) + 1)
    )


def _best(latencies: Sequence[float | None]) -> float:
    return min((latency for latency in latencies if latency is not None), default=math.inf)


def _name(search: str, space: str, count: int = TRIALS) -> str:
    return f"{search}-{space}" + (f"-{count}" if count < TRIALS else "")


def _names(search: str, measured: Sequence[Measured]) -> dict[int, str]:
    """For each of ``COUNTS`` the entry of its best in TVM's space: that of the last count with the same one."""
    bests = {count: first.champions_of_first(measured, count) for count in COUNTS}
    last = {count: next(one for one in reversed(COUNTS) if bests[one] == bests[count]) for count in COUNTS}
    return {count: _name(search, TVM_SPACE, one) for count, one in last.items()}
