"""One operator on every runtime: tuned for each seed, MetaSchedule's runs from recordings, then all timed in turn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.harness.limits import Peak
from benchmarks.harness.progress import Progress
from benchmarks.models import tuning
from benchmarks.models.contest import PEERS, foreign
from benchmarks.operators import first
from benchmarks.operators.cases import Case
from benchmarks.operators.lineup import RIVALS, Entry, Lineup
from tunesmith.operators import parse_operator
from workers.peers.comparison import FOREIGN, TVM_PEER, Peer
from workers.tvm_backend.build.local_model import LocalModel

UNTUNED, TUNESMITH = PEERS[:2]
FIRST_TEN = f"{TUNESMITH}-{first.COUNT}"
"""Tunesmith's runs, had they ended after so many candidates of each function."""
MARGIN = 1.0
"""Seconds kept back of another tuner's time, so that asking for the results stays within it."""


@dataclass(frozen=True)
class Plan:
    """How to go about it.

    Attributes:
        names: of ``PEERS``.
        seeds: of the searches.
        seconds: Tunesmith's wall time; None: that of the sooner MetaSchedule run.
        default_seconds: Tunesmith's where neither is known.
        slice: seconds of timing per peer and pass.
        passes: processes of each peer, 2 at least.
        runs: folder of MetaSchedule's recordings.
    """

    names: tuple[str, ...]
    seeds: tuple[int, ...]
    seconds: float | None
    default_seconds: float
    slice: float
    passes: int
    runs: Path


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        flops: operations of one run.
        bytes_: of all its tensors, each once.
        versions: those of the recordings that were used.
        peak: the machine's limits for the case's threads, once they are known.
    """

    case: Case
    flops: float
    bytes_: float
    entries: list[Entry]
    versions: Mapping[str, str] = field(default_factory=dict)
    peak: Peak | None = None

    def entry(self, runtime: str, seed: int | None = None) -> Entry | None:
        """The entry of that name and seed, when it has a latency."""
        return next((e for e in self.entries if (e.runtime, e.seed) == (runtime, seed) and e.latency), None)

    def rival(self, seed: int | None = None) -> Entry | None:
        """The fastest of MetaSchedule's winners, of that seed or of all."""
        found = [e for e in self.entries if e.runtime in RIVALS and e.latency and seed in (None, e.seed)]
        return min(found, key=lambda entry: entry.latency or math.inf, default=None)


def hold(case: Case, plan: Plan, folder: Path, progress: Progress) -> Outcome:
    """Tune and time one operator.

    Args:
        case: the operator.
        plan: who takes part, and for how long.
        folder: empty; everything made on the way goes there.
        progress: is told what is going on.

    Raises:
        TunesmithError: the operator cannot be read. A peer that fails is an entry that says why.
    """
    return _Contest(case, plan, folder, progress).hold()


class _Contest:
    def __init__(self, case: Case, plan: Plan, folder: Path, progress: Progress) -> None:
        self.case, self.plan, self.folder, self.progress = case, plan, folder, progress
        self.lineup = Lineup(case, folder, progress)

    def hold(self) -> Outcome:
        """Everything."""
        lineup = self.lineup
        for name in (name for name in self.plan.names if name == UNTUNED or name in FOREIGN):
            lineup.enter(name, None, self._untuned if name == UNTUNED else self._foreign)
        for seed in self.plan.seeds:
            self._tune(seed)
        lineup.time(self.plan.slice, self.plan.passes)
        spec = parse_operator(self.case.operator)
        bytes_ = 4.0 * sum(math.prod(tensor.shape) for tensor in (*spec.inputs, spec.output))
        return Outcome(self.case, _flops(lineup.local), bytes_, list(lineup.entries.values()), lineup.versions)

    def _untuned(self, name: str) -> tuple[Entry, Peer]:
        library = self.folder / f"{name}.so"
        self.lineup.local.compile(library, self.lineup.target, None)
        return self.lineup.entries[name], Peer(name, TVM_PEER, library)

    def _foreign(self, name: str) -> tuple[Entry, Peer]:
        return self.lineup.entries[name], foreign(name, self.lineup.file)

    def _tune(self, seed: int) -> None:
        """Both tuners with one seed; MetaSchedule first, because its time is Tunesmith's."""
        rivals = [name for name in RIVALS if name in self.plan.names]
        known = self.lineup.enter_recorded(rivals, seed, self.plan.runs)
        if TUNESMITH not in self.plan.names:
            return
        sooner = min((recording.seconds - MARGIN for recording in known.values()), default=self.plan.default_seconds)
        seconds = self.plan.seconds or sooner
        self.progress(f"tuning with {TUNESMITH}, seed {seed}, for {seconds:.0f} s")
        found: list[tuning.Tuned] = []
        self.lineup.enter(TUNESMITH, seed, partial(self._tunesmith, seed=seed, seconds=seconds, found=found))
        for tuned in found:
            self.lineup.enter(
                FIRST_TEN, seed, partial(self.lineup.of_best, tuned=tuned, best=first.best_of_first(tuned.measured))
            )

    def _tunesmith(self, name: str, seed: int, seconds: float, found: list[tuning.Tuned]) -> tuple[Entry, Peer]:
        folder = self.folder / name
        folder.mkdir()
        found.append(tuning.tunesmith(self.lineup.file, self.lineup.target, seconds, seed, folder))
        return self.lineup.of_tuned(name, found[0])


def _flops(local: LocalModel) -> float:
    from workers.tvm_backend.passes.extract_tasks import extract_tasks

    return sum(task.workload.flops * task.weight for task in extract_tasks(local.module))
