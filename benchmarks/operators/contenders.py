"""What takes part in a comparison of one operator, which is told from what is done around it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.harness import kernels
from benchmarks.harness.comparison import Comparison, Entry, name_of
from benchmarks.harness.jobs import Tuned
from benchmarks.harness.kernels import Kernels
from benchmarks.harness.progress import Progress
from benchmarks.operators import first, recordings
from benchmarks.operators.cases import Case
from benchmarks.operators.onnx_models import write_operator
from benchmarks.operators.recordings import Recording
from benchmarks.tuners.plan import Ask
from tunesmith.errors import MeasurementFailed
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.targets import Target
from tunesmith.types import Candidate
from workers.peers.comparison import Peer, Result
from workers.tvm_backend.build.local_model import LocalModel, local_target


class OperatorComparison(Comparison):
    """Contenders on one operator, as an ONNX model.

    Args:
        case: the operator.
        folder: empty; everything made on the way goes there.
        progress: is told what is going on.

    Attributes:
        versions: those of the recordings that were found.

    Raises:
        TunesmithError: the operator cannot be read.
    """

    def __init__(self, case: Case, folder: Path, progress: Progress) -> None:
        file = write_operator(case.operator, folder / "operator.onnx")
        super().__init__(file, folder, local_target(f"cpu:{case.threads}"), progress)
        self.case = case
        self.versions: dict[str, str] = {}
        self._mains: dict[str, frozenset[str]] = {}

    def enter_recorded(self, names: Sequence[str], seed: int, runs: Path) -> dict[str, Recording]:
        """Add MetaSchedule's recorded winners of a seed; returns the recordings, whether their winners apply or not.

        Args:
            names: of ``METASCHEDULE``.
            seed: of the runs.
            runs: folder of the recordings; one that is missing is made where the case says so.
        """
        known = dict(self._recordings(names, seed, runs))
        for tuner, recording in known.items():
            self.enter(tuner, partial(self._recorded, recording=recording), seed)
        return known

    def _recordings(self, names: Sequence[str], seed: int, runs: Path) -> Iterator[tuple[str, Recording]]:
        for tuner in names:
            ask = recordings.ask_for(self.case.operator, self.target, tuner, seed)
            recording = recordings.find(ask, runs)
            if recording is None and self.case.record_missing:
                recording = self._record(ask, runs)
            if recording is not None:
                self.versions.update(recording.versions)
                yield tuner, recording

    def _record(self, ask: Ask, runs: Path) -> Recording | None:
        self.progress(f"recording {ask.tuner}, seed {ask.seed}")
        scratch = self.folder / f"record-{ask.tuner}-{ask.seed}"
        try:
            return recordings.make(ask, runs, scratch)
        except MeasurementFailed as error:
            name = name_of(ask.tuner, ask.seed)
            self.entries[name] = Entry(ask.tuner, ask.seed, Result(name, failure=error.detail))
            return None

    def _recorded(self, name: str, recording: Recording) -> tuple[Entry, Peer]:
        """MetaSchedule's winner, built from its trace."""
        outcome = recording.outcome
        record = _record_of(self.local.module, recording, self.target)
        peer, missing = self.compile(name, self.local, [record])
        if not self._mains[name].isdisjoint(missing):
            raise MeasurementFailed("the recorded schedule does not apply: record it again")
        return replace(self.entries[name], candidates=outcome.counted, tuned_seconds=recording.seconds), peer

    def of_best(self, name: str, tuned: Tuned, best: Mapping[str, tuple[Candidate, float]]) -> tuple[Entry, Peer]:
        """Some of a run's candidates, by workload, as :mod:`benchmarks.operators.first` chooses them."""
        local = self.prepared(name, tuned)
        records = first.records(local.module, self.target, best)
        peer, _ = self.compile(name, local, records)
        return self.entries[name], peer

    def compile(self, name: str, local: LocalModel, records: list[DatabaseRecord] | None) -> tuple[Peer, list[str]]:
        """As in every comparison; the operator's own functions are known afterwards."""
        peer, missing = super().compile(name, local, records)
        if records is not None:
            self._mains[name] = kernels.main_functions(local.module)
        return peer, missing

    def run(self, slice_: float, passes: int) -> list[Result]:
        """Time everything in turn, end to end and kernel by kernel, and check the outputs; see ``Comparison.run``."""
        results = super().run(slice_, passes)
        for name, inside in self._kernels(results).items():
            self.entries[name] = replace(self.entries[name], kernels=inside)
        return results

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
