"""The reference of a job: the model on other runtimes, on the device's cores, each in a box of its own."""

from __future__ import annotations

import logging
import math
import shutil
import statistics
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.child_process import THREADS
from tunesmith.errors import MissingDependency
from tunesmith.measuring.agreement import distance
from tunesmith.measuring.checked import MOST_DISTANCE
from tunesmith.messages import ReferenceTiming
from tunesmith.types import Isolation, TensorSpec
from workers.peers.boxed import INPUTS, MODEL, OUTPUTS, BoxedPeer
from workers.peers.runtimes import Runtime, readers
from workers.sandbox.box import probe
from workers.sandbox.box.base import Limits
from workers.sandbox.boxed import BadOutput, Box, Boxes
from workers.sandbox.lease import HostLease
from workers.sandbox.limits import about_memory, allowance, exit_reason
from workers.sandbox.pool import Actor
from workers.sandbox.process import ChildCrashed, ChildError, ChildRaised
from workers.settings import Settings
from workers.tvm_backend.arguments import random_array
from workers.tvm_backend.run.timing_windows import Windows

log = logging.getLogger("tunesmith.measure")
ACTOR = f"{BoxedPeer.__module__}:{BoxedPeer.__qualname__}"
START_SECONDS, LOAD_SECONDS, RUN_SECONDS = 30.0, 60.0, 60.0
PASS_SECONDS = 0.8
"""Timing of one runtime in one pass; with what precedes it, it fits into a window."""
CONTENDER = 1.5
"""A runtime that is slower than the fastest by more than this factor is not timed again."""
MOST_OUTPUT_BYTES = 1 << 28
NUMBERS = "biuf"
"""NumPy's kinds of types of which outputs are."""
LOST = (math.inf, math.inf)
"""Distance of outputs that are not as many."""
MAX_SAMPLES_PER_PASS = 200
"""Samples of one pass that are reported, evenly chosen."""


@dataclass(frozen=True)
class Place:
    """Where the device runs kernels: what the runner knows once it was open.

    Attributes:
        threads: threads of a kernel.
        cores: that they are bound to; empty where that is not known.
        isolation: ``SHARED`` where that is not this host's CPU.
    """

    threads: int
    cores: frozenset[int]
    isolation: Isolation


@dataclass
class _Entry:
    """One runtime: samples in seconds of all passes, or why there are none.

    Attributes:
        outputs: as the model's own precision has them; None where they are not wanted.
        apart: distance of the tuned model's outputs from them, see ``agreement.distance``.
    """

    runtime: Runtime
    samples: list[float] = field(default_factory=list)
    failure: str = ""
    outputs: list[NDArray[Any]] | None = None
    apart: tuple[float, float] | None = None

    @property
    def latency(self) -> float:
        """Median in seconds; infinite without samples."""
        return statistics.median(self.samples) if self.samples and not self.failure else math.inf


class Rivals:
    """The runtimes that read one model, timed in passes. Use it in one thread.

    Args:
        settings: limits of boxes, and which runtimes are allowed.
        source: the model's source, ``onnx`` or ``pt2``.
        model: the file that the user sent.
        inputs: the model's inputs, in its order.
        seed: seed of the random inputs, as the compiled model gets them.
        place: place of the device.
        outputs: keep those of the first inputs, for :meth:`hold_against`.
    """

    def __init__(
        self,
        settings: Settings,
        source: str,
        model: Path,
        inputs: Sequence[TensorSpec],
        seed: int,
        place: Place,
        outputs: bool = False,
    ) -> None:
        self._keep = outputs
        self._settings, self._model, self._inputs, self._seed, self._place = settings, model, inputs, seed, place
        allowed = [each for each in readers(source) if each.name in settings.references]
        self._entries = [_Entry(each, failure="" if each.installed else each.missing) for each in allowed]

    def time(self) -> None:
        """One pass. A runtime that fails, or that is slow, sits the later ones out. Nothing is raised for its sake."""
        fastest = min((entry.latency for entry in self._entries), default=math.inf)
        for entry in self._entries:
            if not entry.failure and (not entry.samples or entry.latency <= CONTENDER * fastest):
                self._pass(entry)
        self._entries.reverse()  # there and back again: a machine that gets busy affects all of them equally

    def hold_against(self, tuned: Path) -> None:
        """Compare the outputs of runtimes at the model's own precision with those in a file of the tuned model's."""
        with np.load(tuned, allow_pickle=False) as file:
            ours = [file[name] for name in file.files]
        for entry in self._entries:
            if entry.outputs is not None:
                same = len(ours) == len(entry.outputs)
                found = [distance(*pair) for pair in zip(ours, entry.outputs, strict=True)] if same else [LOST]
                largest, rms = (min(max(each), MOST_DISTANCE) for each in zip(*found, strict=True))
                entry.apart = largest, rms

    def timings(self) -> list[ReferenceTiming]:
        """Result, for the report."""
        return [
            ReferenceTiming(
                runtime=entry.runtime.name,
                version=entry.runtime.version if entry.runtime.installed else "",
                precision=entry.runtime.precision,
                samples=entry.samples,
                failure=entry.failure[:500],
                error=entry.apart and entry.apart[0],
                rms=entry.apart and entry.apart[1],
            )
            for entry in sorted(self._entries, key=lambda entry: entry.latency)
        ]

    def _pass(self, entry: _Entry) -> None:
        try:
            walls = probe.choose(self._settings.trust_models)
            actor = Actor(ACTOR, (entry.runtime.module,), self._environment(), start_timeout=START_SECONDS)
            hidden = tuple(path.resolve() for path in (self._settings.data_dir, self._settings.blobs()))
            boxes = Boxes(actor, walls, hidden)
            try:
                with boxes.open(self._limits()) as box:
                    entry.samples += self._timed(box, entry)
            finally:
                boxes.close()
        except (MissingDependency, ChildError, _Nonsense) as error:
            entry.failure = _reason(error)
        except Exception as error:  # whatever it is, the check itself can do without
            log.exception("the reference of %s", entry.runtime.name)
            entry.failure = f"{type(error).__name__}: {error}"
        if entry.failure:
            log.warning("no reference from %s: %s", entry.runtime.name, entry.failure)

    def _timed(self, box: Box, entry: _Entry) -> list[float]:
        """Samples of one process, evenly thinned out.

        Raises:
            ChildError: it died, hung or raised.
            _Nonsense: it answered what are no times.
        """
        shutil.copyfile(self._model, box.folder / MODEL)
        arrays = {spec.name or str(i): random_array(spec, self._seed + i) for i, spec in enumerate(self._inputs)}
        np.savez(box.folder / INPUTS, **arrays)  # type: ignore[arg-type]
        cores = sorted(self._place.cores)
        box.call("load", self._place.threads, cores, timeout=LOAD_SECONDS)
        if self._keep and entry.runtime.precision == "model":
            entry.outputs = _outputs(box)
        windows = Windows(HostLease(self._settings.lease_file))
        windows.begin(self._place.isolation, self._place.cores)
        try:
            with windows.window():
                found = box.call("time", PASS_SECONDS, timeout=RUN_SECONDS)
        finally:
            windows.end()
        if not isinstance(found, list) or not found or not all(_is_time(value) for value in found):
            raise _Nonsense("it answered no times")
        step = max(1, math.ceil(len(found) / MAX_SAMPLES_PER_PASS))
        return [float(value) for value in found[::step]]

    def _limits(self) -> Limits:
        seconds = (LOAD_SECONDS + RUN_SECONDS) * max(1, self._place.threads)
        return Limits(memory=allowance(self._settings.import_memory_share), cpu_seconds=math.ceil(seconds))

    def _environment(self) -> dict[str, str]:
        return dict.fromkeys(THREADS, str(max(1, self._place.threads)))


def _outputs(box: Box) -> list[NDArray[Any]] | None:
    """What the box's runtime computed; None where it wrote something else, or too much."""
    try:
        with box.output(OUTPUTS, MOST_OUTPUT_BYTES) as file:
            with zipfile.ZipFile(file) as archive:
                if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
                    return None
            file.seek(0)
            with np.load(file, allow_pickle=False) as found:
                arrays = [found[name] for name in found.files]
    except (BadOutput, OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        log.warning("outputs of another runtime are passed over: %s", error)
        return None
    return arrays if arrays and all(array.dtype.kind in NUMBERS for array in arrays) else None


class _Nonsense(Exception):
    """A peer's answer is none."""


def _is_time(value: object) -> bool:
    return isinstance(value, float) and 0 < value < math.inf


def _reason(error: Exception) -> str:
    """In words, for whoever asks why there is no reference."""
    if isinstance(error, ChildRaised):
        lines = error.detail.strip().splitlines() or [error.kind]
        return about_memory(f"it cannot run the model: {lines[0][:300]}")
    if isinstance(error, ChildCrashed):
        return f"its process {exit_reason(error.end.code, error.end.peak, error.end.limit)}"
    return str(error)
