"""Peers timed in turn, each in a process of its own, and how far their outputs lie apart."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tunesmith.child_process import THREADS, run_to_end
from tunesmith.errors import MeasurementFailed
from tunesmith.measuring.agreement import TOLERANCE, as_finite, dependence, distance, loses_nan, signal_error
from tunesmith.measuring.checked import NARROW_TOLERANCE
from tunesmith.safe_path import python
from tunesmith.types import TensorSpec
from workers.peers.runtimes import AT_MODEL_PRECISION
from workers.peers.timing import PeerRun
from workers.sandbox.limits import exit_reason

PEER_TIMEOUT = 600.0
SLOW_SECONDS = 0.25
"""A peer whose model takes longer than this runs in the first two passes alone."""
CHANGE = 1e-6
"""Share of themselves by which inputs change where a runtime is asked how steady its outputs are: a few roundings of
float32."""
SPECIAL = "special.npz"
"""Inputs with NaN and infinity."""
LOST = "a NaN in an input does not come out, as it does of {}"
TVM_PEER = "workers.tvm_backend.run.peer"
FOREIGN = {name: each.module for name, each in AT_MODEL_PRECISION.items()}
"""Runtimes that are not TVM, and the modules that run them."""
Sets = list[list[Any]]
"""Outputs, of each set of inputs."""


@dataclass(frozen=True)
class Peer:
    """What takes part in a comparison.

    Attributes:
        name: unique, used in file names.
        module: has ``prepare``, see :mod:`workers.peers.timing`.
        file: the model as the peer reads it.
    """

    name: str
    module: str
    file: Path


@dataclass
class Result:
    """One peer: latency in seconds, or why there is none. ``error`` is against the reference's outputs.

    Attributes:
        samples: samples of all passes.
        error: a part of the signal; of the largest output where one of the two computed in a narrow precision.
        medians: one of each pass, which was a process of its own.
        rms: error in the root mean square, of the outputs'; None where both computed in their own types.
        tolerance: the largest ``error`` and ``rms`` that count as right.
        signal: part of themselves by which the reference's outputs of two inputs differ; None without an ``error``.
        note: what else the outputs show, and what the model's preparation has to say.
    """

    name: str
    samples: list[float] = field(default_factory=list)
    failure: str = ""
    error: float | None = None
    medians: list[float] = field(default_factory=list)
    rms: float | None = None
    tolerance: float = TOLERANCE
    signal: float | None = None
    note: str = ""

    @property
    def latency(self) -> float | None:
        """Median of the samples."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def worst(self) -> float | None:
        """What is held against the tolerance."""
        return self.error if self.error is None or self.rms is None else max(self.error, self.rms)

    @property
    def differs(self) -> bool:
        """True where the outputs are not the reference's."""
        return self.worst is not None and not self.worst <= self.tolerance


def write_inputs(specs: Sequence[TensorSpec], folder: Path) -> None:
    """Two sets of random inputs for every peer of a comparison, and one with NaN where an input may have that."""
    from workers.tvm_backend.arguments import random_array, takes_special, with_special

    for which in range(2):
        arrays = {spec.name or str(i): random_array(spec, 7 + i + 1000 * which) for i, spec in enumerate(specs)}
        np.savez(folder / f"inputs{which}.npz", **arrays)  # type: ignore[arg-type]
    if any(map(takes_special, specs)):
        special = {name: with_special(arrays[name], spec, 7) for name, spec in zip(arrays, specs, strict=True)}
        np.savez(folder / SPECIAL, **special)  # type: ignore[arg-type]


def take_turns(peers: Sequence[Peer], folder: Path, seconds: float, threads: int, passes: int = 2) -> list[Result]:
    """Time every peer ``passes`` times for about ``seconds``, on the inputs that :func:`write_inputs` left.

    There and back again: a machine that warms up or gets busy affects the first and the last equally.
    """
    results = {peer.name: Result(peer.name) for peer in peers}
    for which in range(passes):
        for peer in peers if which % 2 == 0 else reversed(peers):
            result = results[peer.name]
            slow = which > 1 and (result.latency or 0.0) > SLOW_SECONDS
            if not result.failure and not slow:
                _run(result, peer, folder, which % 2, seconds, threads)
    return list(results.values())


def check_outputs(
    results: Sequence[Result],
    folder: Path,
    trusted: Collection[str] = tuple(FOREIGN),
    narrow: Collection[str] = (),
) -> None:
    """Set ``error``: against the first of ``trusted`` that ran, else against the first.

    The largest one of both sets of inputs. A ``note`` says where a NaN is lost on the way to an output.

    Args:
        narrow: names of those that computed in a narrow precision.
    """
    good = [result for result in results if result.samples and not result.failure]
    reference = next((result for result in good if result.name in trusted), good[0] if good else None)
    for result in good:
        if reference is not None and result is not reference:
            found, expected = (_outputs(folder, name.name) for name in (result, reference))
            if narrow and {result.name, reference.name} & set(narrow):
                _set_distance(result, found, expected)
            else:
                _set_signal_error(result, found, expected)
            result.signal = max(map(dependence, *expected))
            result.note = _note(result.name, reference.name, folder)


def movement(peer: Peer, folder: Path, threads: int) -> float:
    """How far a peer's outputs move when its inputs change by ``CHANGE`` at random: the farthest of four trials.

    Args:
        folder: where inputs and outputs of a comparison are in which the peer ran.

    Raises:
        MeasurementFailed: it does not run on these inputs.
    """
    from workers.tvm_backend.run.references import nudged

    worst = 0.0
    for which, before in enumerate(_outputs(folder, peer.name)):
        own = folder / f"{peer.name}-moved{which}"
        own.mkdir(exist_ok=True)
        with np.load(folder / f"inputs{which}.npz") as file:
            given = {name: file[name] for name in file.files}
        for trial in range(2):
            changed = {name: nudged(array, CHANGE, 2 * at + trial) for at, (name, array) in enumerate(given.items())}
            np.savez(own / f"inputs{trial}.npz", **changed)  # type: ignore[arg-type]
        (result,) = take_turns([peer], own, 0.0, threads)
        if result.failure:
            raise MeasurementFailed(f"{peer.name}: {result.failure}")
        found = _outputs(own, peer.name)
        worst = max(worst, *(max(distance(*pair)) for after in found for pair in zip(after, before, strict=True)))
    return worst


def _set_signal_error(result: Result, found: Sets, expected: Sets) -> None:
    others = expected[::-1]
    result.error = max(
        _error(*each) for a, b, c in zip(found, expected, others, strict=False) for each in zip(a, b, c, strict=True)
    )


def _set_distance(result: Result, found: Sets, expected: Sets) -> None:
    pairs = [pair for a, b in zip(found, expected, strict=False) for pair in zip(a, b, strict=True)]
    result.error, result.rms = (max(each) for each in zip(*(distance(*pair) for pair in pairs), strict=True))
    result.tolerance = NARROW_TOLERANCE


def _outputs(folder: Path, name: str) -> Sets:
    """A peer's outputs of each set of inputs that it ran on."""
    files = [folder / f"{name}-{which}.npz" for which in range(2)]
    return [[file[key] for key in file.files] for file in map(np.load, filter(Path.exists, files))]


def _note(name: str, reference: str, folder: Path) -> str:
    files = [folder / f"{each}-0.npz.special.npz" for each in (name, reference)]
    if not all(map(Path.exists, files)):
        return ""
    found, expected = map(np.load, files)
    lost = any(loses_nan(found[key], expected[key]) for key in expected.files)
    return LOST.format(reference) if lost else ""


def _run(result: Result, peer: Peer, folder: Path, which: int, seconds: float, threads: int) -> None:
    outputs = folder / f"{peer.name}-{which}.npz"
    special = folder / SPECIAL
    once = str(special) if not result.samples and special.exists() else ""
    job = PeerRun(str(peer.file), str(folder / f"inputs{which}.npz"), str(outputs), seconds, threads, once)
    command = [*python("workers.sandbox.parent_death", "--"), *python("workers.peers.timing", peer.module)]
    try:
        done = run_to_end([*command, json.dumps(asdict(job))], PEER_TIMEOUT, **dict.fromkeys(THREADS, str(threads)))
    except subprocess.TimeoutExpired:
        result.failure = f"no result within {PEER_TIMEOUT:g} s"
        return
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        crashed = f"its process {exit_reason(done.returncode, 0, 0)}" if done.returncode < 0 else ""
        result.failure = crashed or (said or [f"ended with {done.returncode}"])[-1]
        return
    samples = json.loads(Path(f"{outputs}.json").read_text())["samples"]
    result.samples += samples
    result.medians.append(statistics.median(samples))


def _error(found: Any, expected: Any, elsewhere: Any) -> float:
    """See :func:`tunesmith.measuring.agreement.signal_error`; infinite where other outputs are finite."""
    return signal_error(found, expected, elsewhere) if as_finite(found, expected) else math.inf
