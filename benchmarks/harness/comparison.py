"""Contenders on one model: made one after the other, each alone on the machine, then all timed in turn."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.harness.contenders import UNMEASURED, UNTUNED, foreign, precision_of
from benchmarks.harness.jobs import Tuned
from benchmarks.harness.kernels import Kernels
from benchmarks.harness.limits import Peak, least_seconds, share_of_peak
from benchmarks.harness.progress import Progress
from tunesmith.arithmetic import FLOAT32_BYTES, NARROW
from tunesmith.errors import TunesmithError
from tunesmith.metaschedule import DatabaseRecord
from tunesmith.names import FLOAT32, INT8
from tunesmith.options import JobOptions
from tunesmith.preparation import PLAIN, Preparation
from tunesmith.quantize.static_onnx import quantise
from tunesmith.targets import Target
from workers.peers.comparison import TVM_PEER, Peer, Result, check_outputs, movement, take_turns, write_inputs
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.build.local_model import LocalModel, default_preparation
from workers.tvm_backend.run.references import FREEDOM

REFERENCE = f"onnxruntime-{INT8}"
"""Whose outputs those of other runtimes of a quantised file are held against."""
SAMPLES = 16
"""Random inputs that the quantiser sees."""
SEED_STEP = 1000
STEPS_APART = 0.06
"""Of the largest output: what runtimes of one quantised file may differ by. Sums next to the middle of two steps fall
on either side, and depth spreads that: 5.4 % of an encoder's of four layers between OpenVINO and onnxruntime. Beyond it
the reference is asked how far its own outputs move, and twice that is allowed."""


@dataclass(frozen=True)
class Entry:
    """What came of one contender, of one seed where it is a tuner.

    Attributes:
        runtime: what ran, or whose schedule.
        candidates: measured while tuning; None when nothing was tuned.
        tuned_seconds: wall time of tuning; from file to library where nothing was measured.
        missing: functions with a choice that got no schedule.
        kernels: of the compiled operator; None where they are not told apart.
    """

    runtime: str
    seed: int | None
    result: Result
    candidates: int | None = None
    tuned_seconds: float | None = None
    missing: int | None = None
    kernels: Kernels | None = None

    @property
    def wrong(self) -> bool:
        """True where the outputs are not those of the other runtimes."""
        return self.result.differs

    @property
    def latency(self) -> float | None:
        """Median seconds; None where it failed or is wrong."""
        return None if self.wrong else self.result.latency

    @property
    def kernel_seconds(self) -> float | None:
        """The kernels, conversions of layouts included: the calls between them are no schedule's doing. None as for
        the latency, and where they are not told apart."""
        return self.kernels.total if self.latency and self.kernels else None


@dataclass(frozen=True)
class Compared:
    """What came of a comparison.

    Attributes:
        flops: operations of one run.
        bytes_: distinct bytes that one run reads or writes.
        entries: in the order in which the contenders were made.
        peak: the machine's limits for the threads that were used, once they are known.
    """

    flops: float
    bytes_: float
    entries: list[Entry]
    peak: Peak | None = None

    def entry(self, runtime: str, seed: int | None = None) -> Entry | None:
        """The entry of that name and seed, when it has a latency."""
        return next((e for e in self.entries if (e.runtime, e.seed) == (runtime, seed) and e.latency), None)

    def fastest(self, runtimes: Collection[str], seed: int | None = None) -> Entry | None:
        """The fastest of the entries of these names, of that seed or of all."""
        found = [e for e in self.entries if e.runtime in runtimes and e.latency and seed in (None, e.seed)]
        return min(found, key=lambda entry: entry.latency or math.inf, default=None)

    @property
    def limit(self) -> float | None:
        """The least seconds that the machine needs."""
        return None if self.peak is None else least_seconds(self.flops, self.bytes_, self.peak)

    def share(self, seconds: float | None) -> float | None:
        """The share of the machine's limit that a latency reaches."""
        return share_of_peak(self.flops, self.bytes_, seconds, self.peak) if seconds and self.peak else None

    def share_in(self, precision: str, seconds: float | None) -> float | None:
        """The same of one that computes in ``precision``, on data that are as narrow."""
        if self.peak is None:
            return None
        narrow = NARROW[precision].bytes if precision in NARROW else FLOAT32_BYTES
        bytes_ = self.bytes_ * narrow / FLOAT32_BYTES
        return replace(self, peak=self.peak.of(precision), bytes_=bytes_).share(seconds)


class Comparison:
    """Contenders on one model.

    Args:
        file: the model.
        folder: empty; everything made on the way goes there.
        target: what to tune and compile for.
        progress: is told what is going on.

    Attributes:
        local: the model, prepared plainly.
        entries: by name, in the order in which they came.

    Raises:
        TunesmithError: the model cannot be read.
    """

    def __init__(self, file: Path, folder: Path, target: Target, progress: Progress) -> None:
        self.file, self.folder, self.target, self.progress = file, folder, target, progress
        self.local = LocalModel(str(file), {}, folder, PLAIN)
        self.entries: dict[str, Entry] = {}
        self._peers: list[Peer] = []
        self._narrow: set[str] = set()

    def enter(self, runtime: str, make: Callable[[str], tuple[Entry, Peer]], seed: int | None = None) -> None:
        """Add what ``make`` makes under a name, or why it could not."""
        name = name_of(runtime, seed)
        self.entries[name] = Entry(runtime, seed, Result(name))
        try:
            self.entries[name], peer = make(name)
            self._peers.append(peer)
        except TunesmithError as error:
            self.progress(f"{name}: {error.detail}")
            self.entries[name] = replace(self.entries[name], result=Result(name, failure=error.detail))

    def enter_as_it_is(self, runtime: str) -> None:
        """Add a contender that is not tuned."""
        unmeasured = self._unmeasured if runtime in UNMEASURED else self._foreign
        self.enter(runtime, self._untuned if runtime == UNTUNED else unmeasured)

    def _untuned(self, name: str) -> tuple[Entry, Peer]:
        peer, _ = self.compile(name, self.local, None)
        return self.entries[name], peer

    def _unmeasured(self, name: str) -> tuple[Entry, Peer]:
        """As ``tunesmith compile`` does it without a log, where nothing is known."""
        from workers.core import choosers
        from workers.core.unmeasured_model import records, schedules

        started, options = time.perf_counter(), JobOptions(precision=precision_of(name))
        with choosers.processes(str(self.file)) as chosen:
            local = self._prepared(name, default_preparation(str(self.file), self.target, options))
            found = records(schedules(local.module, self.target, None, answering=chosen), self.target)
        peer, missing = self.compile(name, local, found)
        seconds = time.perf_counter() - started
        return replace(self.entries[name], tuned_seconds=seconds, missing=len(missing)), peer

    def _foreign(self, name: str) -> tuple[Entry, Peer]:
        return self.entries[name], foreign(name, self.file_in(precision_of(name)))

    def file_in(self, precision: str) -> Path:
        """The model as it is read in a precision: of int8 the quantised file, which is made when it is first asked for.

        Raises:
            TunesmithError: it cannot be quantised.
        """
        if precision != INT8:
            return self.file
        quantised = self.folder / "int8.onnx"
        if not quantised.exists():
            samples = [
                {spec.name: random_array(spec, seed + at) for at, spec in enumerate(self.local.drawn_inputs())}
                for seed in range(0, SAMPLES * SEED_STEP, SEED_STEP)
            ]
            stacked = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
            np.savez(self.folder / "samples.npz", **stacked)  # type: ignore[arg-type]
            quantise(self.file, self.folder / "samples.npz", quantised)
        return quantised

    def of_tuned(self, name: str, tuned: Tuned) -> tuple[Entry, Peer]:
        """What a tuner found."""
        peer, missing = self.compile(name, self.prepared(name, tuned), tuned.records)
        entry = self.entries[name]
        return replace(entry, candidates=tuned.candidates, tuned_seconds=tuned.seconds, missing=len(missing)), peer

    def prepared(self, name: str, tuned: Tuned) -> LocalModel:
        """The model, prepared as it was for the tuner."""
        return self._prepared(name, tuned.preparation)

    def _prepared(self, name: str, preparation: Preparation) -> LocalModel:
        precision = preparation.precision
        if precision != FLOAT32:
            self._narrow.add(name)
        if preparation == PLAIN:
            return self.local
        return LocalModel(str(self.file_in(precision)), {}, self.subfolder(name), preparation)

    def subfolder(self, name: str) -> Path:
        """A contender's own folder."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def compile(self, name: str, local: LocalModel, records: list[DatabaseRecord] | None) -> tuple[Peer, list[str]]:
        """A peer, and the functions that found no schedule; untuned without records."""
        library = self.folder / f"{name}.so"
        return Peer(name, TVM_PEER, library), local.compile(library, self.target, records)

    def run(self, slice_: float, passes: int) -> list[Result]:
        """Time every contender in turn, and check the outputs.

        Args:
            slice_: seconds of each contender and pass.
            passes: processes of each contender, 2 at least.
        """
        self.progress(f"timing {', '.join(peer.name for peer in self._peers)} in turn")
        write_inputs(self.local.drawn_inputs(), self.folder)
        results = take_turns(self._peers, self.folder, slice_, self.target.num_cores, passes)
        self._check(results)
        for result in results:
            self.entries[result.name] = replace(self.entries[result.name], result=result)
        return results

    def _check(self, results: list[Result]) -> None:
        """Those of the quantised file are held against each other, all others against float32."""
        precision = {result.name: precision_of(self.entries[result.name].runtime) for result in results}
        narrow = self._narrow | {name for name, its in precision.items() if its != FLOAT32}
        quantised = [result for result in results if precision[result.name] == INT8]
        check_outputs([result for result in results if result not in quantised], self.folder, narrow=narrow)
        check_outputs(quantised, self.folder, (REFERENCE,), narrow)
        far = any(result.worst is not None and result.worst > STEPS_APART for result in quantised)
        steady = [peer for peer in self._peers if far and peer.name == REFERENCE]
        moved = max((movement(peer, self.folder, self.target.num_cores) for peer in steady), default=0.0)
        for result in quantised:
            result.tolerance = max(STEPS_APART, FREEDOM * moved)

    @property
    def flops(self) -> float:
        """Operations of one run, of the plain algorithms."""
        from workers.tvm_backend.passes.extract_tasks import extract_tasks

        return sum(task.workload.flops * task.weight for task in extract_tasks(self.local.module))


def name_of(runtime: str, seed: int | None) -> str:
    """A contender's name in a comparison."""
    return runtime if seed is None else f"{runtime}-seed{seed}"
