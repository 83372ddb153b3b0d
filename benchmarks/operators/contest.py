"""One operator on every runtime: tuned for each seed, MetaSchedule's runs from recordings, then all timed in turn."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from benchmarks.limits import Peak
from benchmarks.models import tuning
from benchmarks.models.contest import PEERS, TOLERANCE, Tell, foreign
from benchmarks.operators import first, kernels, recordings
from benchmarks.operators.cases import Case
from benchmarks.operators.kernels import Kernels
from benchmarks.operators.onnx_models import write_operator
from benchmarks.operators.recordings import Recording
from benchmarks.tuners.plan import Ask
from tunesmith.errors import MeasurementFailed, TunesmithError
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.operators import parse_operator
from tunesmith.preparation import PLAIN
from tunesmith.targets import Target
from workers.peers.comparison import FOREIGN, TVM_PEER, Peer, Result, check_outputs, take_turns, write_inputs
from workers.tvm_backend.deploy import LocalModel, local_target

UNTUNED, TUNESMITH = PEERS[:2]
FIRST_TEN = f"{TUNESMITH}-{first.COUNT}"
"""Tunesmith's runs, had they ended after so many candidates of each function."""
RIVALS = PEERS[2:4]
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
class Entry:
    """One runtime's outcome, of one seed where it is a tuner.

    Attributes:
        runtime: of ``PEERS``, or ``FIRST_TEN``.
        candidates: measured while tuning.
        tuned_seconds: wall time of tuning.
        kernels: of the compiled operator; None where they cannot be told apart.
    """

    runtime: str
    seed: int | None
    result: Result
    candidates: int | None = None
    tuned_seconds: float | None = None
    kernels: Kernels | None = None

    @property
    def wrong(self) -> bool:
        """True where the outputs are not those of the other runtimes."""
        return self.result.error is not None and not self.result.error <= TOLERANCE

    @property
    def latency(self) -> float | None:
        """Median seconds; None where it failed or is wrong."""
        return None if self.wrong else self.result.latency


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


def hold(case: Case, plan: Plan, folder: Path, tell: Tell) -> Outcome:
    """Tune and time one operator.

    Args:
        case: the operator.
        plan: who takes part, and for how long.
        folder: empty; everything made on the way goes there.
        tell: is told what is going on.

    Raises:
        TunesmithError: the operator cannot be read. A peer that fails is an entry that says why.
    """
    return _Contest(case, plan, folder, tell).hold()


class _Contest:
    def __init__(self, case: Case, plan: Plan, folder: Path, tell: Tell) -> None:
        self.case, self.plan, self.folder, self.tell = case, plan, folder, tell
        self.target: Target = local_target(f"cpu:{case.threads}")
        self.file = write_operator(case.operator, folder / "operator.onnx")
        self.local = LocalModel(str(self.file), {}, folder, PLAIN)
        self.entries: dict[str, Entry] = {}
        self.peers: list[Peer] = []
        self.mains: dict[str, str] = {}
        self.versions: dict[str, str] = {}

    def hold(self) -> Outcome:
        """Everything."""
        for name in (name for name in self.plan.names if name == UNTUNED or name in FOREIGN):
            self._enter(name, None, self._untuned if name == UNTUNED else self._foreign)
        for seed in self.plan.seeds:
            self._tune(seed)
        self._time()
        spec = parse_operator(self.case.operator)
        bytes_ = 4.0 * sum(math.prod(tensor.shape) for tensor in (*spec.inputs, spec.output))
        return Outcome(self.case, _flops(self.local), bytes_, list(self.entries.values()), self.versions)

    def _enter(self, runtime: str, seed: int | None, make: Callable[[str], tuple[Entry, Peer]]) -> None:
        """Add what ``make`` makes under a name, or why it could not."""
        name = _name(runtime, seed)
        self.entries[name] = Entry(runtime, seed, Result(name))
        try:
            self.entries[name], peer = make(name)
            self.peers.append(peer)
        except TunesmithError as error:
            self.tell(f"{name}: {error.detail}")
            self.entries[name] = replace(self.entries[name], result=Result(name, failure=error.detail))

    def _untuned(self, name: str) -> tuple[Entry, Peer]:
        library = self.folder / f"{name}.so"
        self.local.compile(library, self.target, None)
        return self.entries[name], Peer(name, TVM_PEER, library)

    def _foreign(self, name: str) -> tuple[Entry, Peer]:
        return self.entries[name], foreign(name, self.file)

    def _tune(self, seed: int) -> None:
        """Both tuners with one seed; MetaSchedule first, because its time is Tunesmith's."""
        known = dict(self._recordings(seed))
        for rival, recording in known.items():
            self._enter(rival, seed, partial(self._recorded, recording=recording))
        if TUNESMITH not in self.plan.names:
            return
        sooner = min((recording.seconds - MARGIN for recording in known.values()), default=self.plan.default_seconds)
        seconds = self.plan.seconds or sooner
        self.tell(f"tuning with {TUNESMITH}, seed {seed}, for {seconds:.0f} s")
        found: list[tuning.Tuned] = []
        self._enter(TUNESMITH, seed, partial(self._tunesmith, seed=seed, seconds=seconds, found=found))
        for tuned in found:
            self._enter(FIRST_TEN, seed, partial(self._first_ten, tuned=tuned))

    def _recordings(self, seed: int) -> Iterator[tuple[str, Recording]]:
        for rival in (name for name in RIVALS if name in self.plan.names):
            ask = recordings.ask_for(self.case.operator, self.target, rival, seed)
            recording = recordings.find(ask, self.plan.runs)
            if recording is None and self.case.rivals:
                recording = self._record(ask)
            if recording is not None:
                self.versions.update(recording.versions)
                yield rival, recording

    def _record(self, ask: Ask) -> Recording | None:
        self.tell(f"recording {ask.tuner}, seed {ask.seed}")
        scratch = self.folder / f"record-{ask.tuner}-{ask.seed}"
        try:
            return recordings.make(ask, self.plan.runs, scratch)
        except MeasurementFailed as error:
            name = _name(ask.tuner, ask.seed)
            self.entries[name] = Entry(ask.tuner, ask.seed, Result(name, failure=error.detail))
            return None

    def _recorded(self, name: str, recording: Recording) -> tuple[Entry, Peer]:
        """MetaSchedule's winner, built from its trace."""
        outcome = recording.outcome
        record = _record_of(self.local.module, recording, self.target)
        peer, missing = self._compile(name, self.local, [record])
        if self.mains[name] in missing:
            raise MeasurementFailed("the recorded schedule does not apply: record it again")
        return replace(self.entries[name], candidates=outcome.counted, tuned_seconds=recording.seconds), peer

    def _tunesmith(self, name: str, seed: int, seconds: float, found: list[tuning.Tuned]) -> tuple[Entry, Peer]:
        folder = self.folder / name
        folder.mkdir()
        tuned = tuning.tunesmith(self.file, self.target, seconds, seed, folder)
        peer, _ = self._compile(name, LocalModel(str(self.file), {}, folder, tuned.preparation), tuned.records)
        found.append(tuned)
        return replace(self.entries[name], candidates=tuned.candidates, tuned_seconds=tuned.seconds), peer

    def _first_ten(self, name: str, tuned: tuning.Tuned) -> tuple[Entry, Peer]:
        folder = self.folder / name
        folder.mkdir()
        local = LocalModel(str(self.file), {}, folder, tuned.preparation)
        records = first.records(local.module, self.target, first.best_of_first(tuned.measured))
        peer, _ = self._compile(name, local, records)
        return self.entries[name], peer

    def _compile(self, name: str, local: LocalModel, records: list[DatabaseRecord]) -> tuple[Peer, list[str]]:
        """A peer, and the functions that found no schedule."""
        library = self.folder / f"{name}.so"
        missing = local.compile(library, self.target, records)
        self.mains[name] = kernels.main_function(local.module)
        return Peer(name, TVM_PEER, library), missing

    def _time(self) -> None:
        self.tell(f"timing {', '.join(peer.name for peer in self.peers)} in turn")
        write_inputs(self.local.inputs, self.folder)
        results = take_turns(self.peers, self.folder, self.plan.slice, self.case.threads, self.plan.passes)
        check_outputs(results, self.folder)
        inside = self._kernels(results)
        for result in results:
            entry = self.entries[result.name]
            self.entries[result.name] = replace(entry, result=result, kernels=inside.get(result.name))

    def _kernels(self, results: Sequence[Result]) -> dict[str, Kernels]:
        ran = {result.name for result in results if result.latency}
        libraries = {peer.name: peer.file for peer in self.peers if peer.name in self.mains and peer.name in ran}
        if not libraries:
            return {}
        self.tell("timing the kernels")
        try:
            return kernels.measure(libraries, self.mains, self.folder / "inputs0.npz", self.case.threads, self.folder)
        except MeasurementFailed as error:
            self.tell(error.detail)
            return {}


def _name(runtime: str, seed: int | None) -> str:
    return runtime if seed is None else f"{runtime}-seed{seed}"


def _flops(local: LocalModel) -> float:
    from workers.tvm_backend.tasks import extract_tasks

    return sum(task.workload.flops * task.weight for task in extract_tasks(local.module))


def _record_of(module: bytes, recording: Recording, target: Target) -> DatabaseRecord:
    """MetaSchedule's best schedule for the function of a plainly prepared operator.

    Raises:
        MeasurementFailed: the recording is of another program.
    """
    from workers.tvm_backend.tasks import extract_tasks

    outcome = recording.outcome
    task = next((task for task in extract_tasks(module) if task.workload.hash == outcome.workload), None)
    if task is None or outcome.trace is None or outcome.best is None:
        raise MeasurementFailed(f"the recorded run of {outcome.tuner} tuned another program: record it again")
    key, encoded = json.loads(task.metaschedule)
    trace = json.loads(outcome.trace)
    return DatabaseRecord((key, encoded), trace, (outcome.best,), target.to_json(), task.workload.args)
