"""One operator: Tunesmith in TVM's design space and in its own beside MetaSchedule's recorded runs, timed in turn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.harness.progress import Progress
from benchmarks.models import tuning
from benchmarks.models.tuning import Measured, Point, Request, Tuned
from benchmarks.operators import first
from benchmarks.operators.cases import Case
from benchmarks.operators.lineup import RIVALS, Entry, Lineup
from benchmarks.operators.recordings import TRIALS, Recording
from tunesmith.names import ALL_SPACE, TVM_SPACE
from workers.peers.comparison import Peer

COUNTS = (32, 64, TRIALS)
"""Trials after which the two are compared."""
LIMIT = 1200.0
"""Seconds in which a run of ``TRIALS`` candidates must be over."""


@dataclass(frozen=True)
class Plan:
    """How to go about it.

    Attributes:
        searchers: names of Tunesmith's.
        seconds: wall time of a run in the own space; None: that of MetaSchedule's longest run, without which nothing
            is done.
        slice: seconds of timing per peer and pass.
        passes: processes of each peer, 2 at least.
        runs: folder of MetaSchedule's recordings.
    """

    searchers: tuple[str, ...]
    seconds: float | None
    slice: float
    passes: int
    runs: Path


@dataclass(frozen=True)
class Rival:
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
class Course:
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
class Chase:
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
class Outcome:
    """What became of an operator and a seed.

    Attributes:
        rivals: those whose winner was timed.
        courses, chases: by searcher; what failed is missing.
        entries: everything that was timed, or why not.
        versions: those of the recordings.
        searchers: all that were asked, in order.
    """

    case: Case
    seed: int
    rivals: list[Rival]
    courses: Mapping[str, Course]
    chases: Mapping[str, Chase]
    entries: list[Entry]
    versions: Mapping[str, str] = field(default_factory=dict)
    searchers: tuple[str, ...] = ()

    @property
    def rival(self) -> Rival | None:
        """The run whose winner is the fastest."""
        return min(self.rivals, key=lambda rival: rival.timed, default=None)


def hold(case: Case, seed: int, plan: Plan, folder: Path, progress: Progress) -> Outcome:
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
    return _Contest(case, seed, plan, folder, progress).hold()


class _Contest:
    def __init__(self, case: Case, seed: int, plan: Plan, folder: Path, progress: Progress) -> None:
        self.case, self.seed, self.plan, self.folder, self.progress = case, seed, plan, folder, progress
        self.lineup = Lineup(case, folder, progress)

    def hold(self) -> Outcome:
        """Everything."""
        known = self.lineup.enter_recorded(RIVALS, self.seed, self.plan.runs)
        wall = self.plan.seconds or max((each.outcome.elapsed for each in known.values()), default=0.0)
        if not wall or (not known and len(self.plan.searchers) == 1):
            self.progress(f"there is no run of MetaSchedule to compare with, seed {self.seed}")
            return Outcome(self.case, self.seed, [], {}, {}, list(self.lineup.entries.values()))
        courses = dict(self._each(TVM_SPACE, TRIALS, LIMIT))
        chases = dict(self._each(ALL_SPACE, None, wall))
        self.lineup.time(self.plan.slice, self.plan.passes)
        timed = {(entry.runtime, entry.seed): _seconds(entry) for entry in self.lineup.entries.values()}
        rivals = [found for name, run in known.items() if (found := rival_of(run, timed[name, self.seed]))]
        return Outcome(
            self.case,
            self.seed,
            rivals,
            {name: self._course(name, tuned, timed) for name, tuned in courses.items()},
            {
                name: Chase(tuned.curve, seconds, wall)
                for name, tuned in chases.items()
                if (seconds := timed[_name(name, ALL_SPACE), self.seed])
            },
            list(self.lineup.entries.values()),
            self.lineup.versions,
            self.plan.searchers,
        )

    def _each(self, space: str, trials: int | None, seconds: float) -> Iterator[tuple[str, Tuned]]:
        """A run of every searcher, and entries of what it found."""
        for search in self.plan.searchers:
            self.progress(f"tuning with {search} in the space {space}, seed {self.seed}")
            request = Request(self.lineup.target, self.seed, trials, seconds, space, search)
            found: list[Tuned] = []
            self.lineup.enter(_name(search, space), self.seed, partial(self._run, request=request, found=found))
            for tuned in found:
                for count, name in _names(search, tuned.measured).items() if trials else ():
                    if count < TRIALS and name == _name(search, space, count):
                        best = first.champions_of_first(tuned.measured, count)
                        make = partial(self.lineup.of_best, tuned=tuned, best=best)
                        self.lineup.enter(name, self.seed, make)
                yield search, tuned

    def _run(self, name: str, request: Request, found: list[Tuned]) -> tuple[Entry, Peer]:
        folder = self.folder / name
        folder.mkdir()
        tuned = tuning.tunesmith_warm(self.lineup.file, request, folder)
        made = (
            self.lineup.of_best(name, tuned, first.champions_of_first(tuned.measured, TRIALS))
            if request.trials
            else self.lineup.of_tuned(name, tuned)
        )
        found.append(tuned)
        return made

    def _course(self, search: str, tuned: Tuned, timed: Mapping[tuple[str, int | None], float | None]) -> Course:
        found = {count: timed[name, self.seed] for count, name in _names(search, tuned.measured).items()}
        return Course(bests_of(tuned.measured), {count: value for count, value in found.items() if value})


def rival_of(recording: Recording, timed: float | None) -> Rival | None:
    """A recorded run, where its winner could be timed; ``timed``: seconds."""
    if timed is None:
        return None
    latencies = [trial.latency for trial in recording.outcome.trials]
    bests = {count: _best(latencies[:count]) for count in COUNTS}
    return Rival(recording.outcome.tuner, bests, timed, recording.outcome.elapsed)


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


def _seconds(entry: Entry) -> float | None:
    """An entry's kernels, conversions of layouts included: the calls between them are no schedule's doing."""
    return entry.kernels.total if entry.latency and entry.kernels else None


def _name(search: str, space: str, count: int = TRIALS) -> str:
    return f"{search}-{space}" + (f"-{count}" if count < TRIALS else "")


def _names(search: str, measured: Sequence[Measured]) -> dict[int, str]:
    """For each of ``COUNTS`` the entry of its best in TVM's space: that of the last count with the same one."""
    bests = {count: first.champions_of_first(measured, count) for count in COUNTS}
    last = {count: next(one for one in reversed(COUNTS) if bests[one] == bests[count]) for count in COUNTS}
    return {count: _name(search, TVM_SPACE, one) for count, one in last.items()}
