"""What takes part in a comparison of one operator: made one after the other, then all timed in turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.harness.progress import Progress
from benchmarks.models.contest import PEERS
from benchmarks.models.tuning import Tuned
from benchmarks.operators import first, kernels, recordings
from benchmarks.operators.cases import Case
from benchmarks.operators.kernels import Kernels
from benchmarks.operators.onnx_models import write_operator
from benchmarks.operators.recordings import Recording
from benchmarks.tuners.plan import Ask
from tunesmith.errors import MeasurementFailed, TunesmithError
from tunesmith.measuring.agreement import TOLERANCE
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.preparation import PLAIN
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.peers.comparison import TVM_PEER, Peer, Result, check_outputs, take_turns, write_inputs
from workers.tvm_backend.build.local_model import LocalModel, local_target

RIVALS = PEERS[2:4]


@dataclass(frozen=True)
class Entry:
    """One runtime's outcome, of one seed where it is a tuner.

    Attributes:
        runtime: what ran, or whose schedule.
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


class Lineup:
    """Who takes part.

    Args:
        case: the operator.
        folder: empty; everything made on the way goes there.
        progress: is told what is going on.

    Attributes:
        target: of the case's threads on this machine.
        file: the operator as an ONNX model.
        local: the same, prepared plainly.
        entries: by name, in the order in which they came.
        versions: those of the recordings that were found.

    Raises:
        TunesmithError: the operator cannot be read.
    """

    def __init__(self, case: Case, folder: Path, progress: Progress) -> None:
        self.case, self.folder, self.progress = case, folder, progress
        self.target: Target = local_target(f"cpu:{case.threads}")
        self.file = write_operator(case.operator, folder / "operator.onnx")
        self.local = LocalModel(str(self.file), {}, folder, PLAIN)
        self.entries: dict[str, Entry] = {}
        self.versions: dict[str, str] = {}
        self._peers: list[Peer] = []
        self._mains: dict[str, frozenset[str]] = {}

    def enter(self, runtime: str, seed: int | None, make: Callable[[str], tuple[Entry, Peer]]) -> None:
        """Add what ``make`` makes under a name, or why it could not."""
        name = _name(runtime, seed)
        self.entries[name] = Entry(runtime, seed, Result(name))
        try:
            self.entries[name], peer = make(name)
            self._peers.append(peer)
        except TunesmithError as error:
            self.progress(f"{name}: {error.detail}")
            self.entries[name] = replace(self.entries[name], result=Result(name, failure=error.detail))

    def enter_recorded(self, names: Sequence[str], seed: int, runs: Path) -> dict[str, Recording]:
        """Add MetaSchedule's recorded winners of a seed; returns the recordings, whether their winners apply or not.

        Args:
            names: of ``RIVALS``.
            seed: of the runs.
            runs: folder of the recordings; one that is missing is made where the case says so.
        """
        known = dict(self._recordings(names, seed, runs))
        for rival, recording in known.items():
            self.enter(rival, seed, partial(self._recorded, recording=recording))
        return known

    def _recordings(self, names: Sequence[str], seed: int, runs: Path) -> Iterator[tuple[str, Recording]]:
        for rival in names:
            ask = recordings.ask_for(self.case.operator, self.target, rival, seed)
            recording = recordings.find(ask, runs)
            if recording is None and self.case.rivals:
                recording = self._record(ask, runs)
            if recording is not None:
                self.versions.update(recording.versions)
                yield rival, recording

    def _record(self, ask: Ask, runs: Path) -> Recording | None:
        self.progress(f"recording {ask.tuner}, seed {ask.seed}")
        scratch = self.folder / f"record-{ask.tuner}-{ask.seed}"
        try:
            return recordings.make(ask, runs, scratch)
        except MeasurementFailed as error:
            name = _name(ask.tuner, ask.seed)
            self.entries[name] = Entry(ask.tuner, ask.seed, Result(name, failure=error.detail))
            return None

    def _recorded(self, name: str, recording: Recording) -> tuple[Entry, Peer]:
        """MetaSchedule's winner, built from its trace."""
        outcome = recording.outcome
        record = _record_of(self.local.module, recording, self.target)
        peer, missing = self._compile(name, self.local, [record])
        if not self._mains[name].isdisjoint(missing):
            raise MeasurementFailed("the recorded schedule does not apply: record it again")
        return replace(self.entries[name], candidates=outcome.counted, tuned_seconds=recording.seconds), peer

    def of_tuned(self, name: str, tuned: Tuned) -> tuple[Entry, Peer]:
        """What a run of Tunesmith's found."""
        peer, _ = self._compile(name, self._prepared(name, tuned), tuned.records)
        return replace(self.entries[name], candidates=tuned.candidates, tuned_seconds=tuned.seconds), peer

    def of_best(self, name: str, tuned: Tuned, best: Mapping[str, tuple[Candidate, float]]) -> tuple[Entry, Peer]:
        """Some of a run's candidates, by workload, as :mod:`benchmarks.operators.first` chooses them."""
        local = self._prepared(name, tuned)
        records = first.records(local.module, self.target, best)
        peer, _ = self._compile(name, local, records)
        return self.entries[name], peer

    def _prepared(self, name: str, tuned: Tuned) -> LocalModel:
        """The operator, prepared as it was for the run."""
        if tuned.preparation == PLAIN:
            return self.local
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return LocalModel(str(self.file), {}, folder, tuned.preparation)

    def _compile(self, name: str, local: LocalModel, records: list[DatabaseRecord]) -> tuple[Peer, list[str]]:
        """A peer, and the functions that found no schedule."""
        library = self.folder / f"{name}.so"
        missing = local.compile(library, self.target, records)
        self._mains[name] = kernels.main_functions(local.module)
        return Peer(name, TVM_PEER, library), missing

    def time(self, slice_: float, passes: int) -> None:
        """Time everything in turn, end to end and kernel by kernel, and check the outputs.

        Args:
            slice_: seconds of each peer and pass.
            passes: processes of each peer, 2 at least.
        """
        self.progress(f"timing {', '.join(peer.name for peer in self._peers)} in turn")
        write_inputs(self.local.inputs, self.folder)
        results = take_turns(self._peers, self.folder, slice_, self.case.threads, passes)
        check_outputs(results, self.folder)
        inside = self._kernels(results)
        for result in results:
            entry = self.entries[result.name]
            self.entries[result.name] = replace(entry, result=result, kernels=inside.get(result.name))

    def _kernels(self, results: Sequence[Result]) -> dict[str, Kernels]:
        ran = {result.name for result in results if result.latency}
        libraries = {peer.name: peer.file for peer in self._peers if peer.name in self._mains and peer.name in ran}
        if not libraries:
            return {}
        self.progress("timing the kernels")
        try:
            return kernels.measure(
                libraries,
                self._mains,
                self.folder / "inputs0.npz",
                self.case.threads,
                self.folder,
                processes=kernels.PROCESSES,
            )
        except MeasurementFailed as error:
            self.progress(error.detail)
            return {}


def _name(runtime: str, seed: int | None) -> str:
    return runtime if seed is None else f"{runtime}-seed{seed}"


def _record_of(module: bytes, recording: Recording, target: Target) -> DatabaseRecord:
    """MetaSchedule's best schedule for the function of a plainly prepared operator.

    Raises:
        MeasurementFailed: the recording is of another program.
    """
    from workers.tvm_backend.passes.extract_tasks import extract_tasks

    outcome = recording.outcome
    task = next((task for task in extract_tasks(module) if task.workload.hash == outcome.workload), None)
    if task is None or outcome.trace is None or outcome.best is None:
        raise MeasurementFailed(f"the recorded run of {outcome.tuner} tuned another program: record it again")
    key, encoded = json.loads(task.metaschedule)
    trace = json.loads(outcome.trace)
    return DatabaseRecord((key, encoded), trace, (outcome.best,), target.to_json(), task.workload.args)
