"""A model on a device, before and after: latencies that can be compared, and how far the outputs lie apart."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tunesmith.arithmetic import NARROW
from tunesmith.measuring.agreement import TOLERANCE, dependence, loses_nan, signal_error
from tunesmith.measuring.ratio import PLACEMENTS
from tunesmith.names import BF16
from tunesmith.types import FailureKind
from workers.protocol import ModelOutcome, ModelRequest
from workers.tvm_backend.arguments import dtype_of, random_array, takes_special, with_special
from workers.tvm_backend.run.references import FREEDOM, excuse, nudged

ROUNDS = 10
SLOW_ROUNDS = 3
SAMPLES = 30
WARM_SECONDS = 0.05
"""Seconds of runs that do not count, in each turn of a quick model. Before them the other model let cores sleep and
filled the caches."""
SAMPLE_SECONDS = 0.001
"""A sample is the mean over as many runs as take this long: clocks and calls err by microseconds."""
SLOW_SECONDS = 0.1
"""From here on the client times a run: the call costs a fraction of a millisecond, a warm-up run far more."""
OFF, OFF_IN_BF16 = 1e-4, 2.0**-8
"""Shares of themselves by which inputs and weights are off when the untuned model is asked how steady its outputs are.
The first is what a kernel's outputs may be off by in single precision. The second is for an algorithm that rounds other
values to bfloat16: each is rounded by up to 2⁻⁹ in one model and in the other.
"""
SPECIAL = 2
"""The set of inputs with NaN and infinity, after two without."""
SPECIAL_SECONDS = 5.0
"""A model that runs longer is not run on that set."""

Window = Callable[[], AbstractContextManager[None]]


class Timed(Protocol):
    """A model that ran once.

    Attributes:
        seconds: seconds of that run.
    """

    seconds: float

    def time(self, count: int) -> list[float]:
        """Seconds of a run, ``count`` times."""

    def leave(self) -> None:
        """Give its buffers back."""

    def place(self) -> None:
        """Set it up anew, and run it once; ``seconds`` is the shortest of these runs."""


class RemoteModel:
    """A Relax VM library loaded on the device, with its parameters.

    Args:
        session, device: an open RPC session and its device.
        library: the compiled model, local path.
        params: arrays on the device, passed after the inputs.
    """

    def __init__(self, session: Any, device: Any, library: Path, params: list[Any]) -> None:
        from tvm import relax

        session.upload(bytearray(library.read_bytes()), target=library.name)
        self._device, self._params = device, params
        self._module = session.load_module(library.name)
        self._vm = relax.VirtualMachine(self._module, device)
        self._arguments: list[Any] = []
        self.seconds = math.inf

    def run(self, inputs: Iterable[Any], params: Sequence[Any] | None = None) -> list[NDArray[Any]]:
        """Outputs of one run, nested tuples flattened; ``seconds`` is then what the run took.

        Args:
            params: in the place of its own, for this run.
        """
        self._arguments = [*inputs, *(self._params if params is None else params)]
        self._invoke()
        return [array.numpy() for array in _flat(self._vm.get_outputs("main"))]

    def leave(self) -> None:
        """Without a virtual machine until it is placed."""
        self._vm = None

    def place(self) -> None:
        """A new virtual machine on the arguments set last."""
        from tvm import relax

        before = self.seconds
        self._vm = relax.VirtualMachine(self._module, self._device)
        self._invoke()
        self.seconds = min(before, self.seconds)

    def _invoke(self) -> None:
        self._vm.set_input("main", *self._arguments)
        started = time.perf_counter()
        self._vm.invoke_stateful("main")
        self._device.sync()
        self.seconds = time.perf_counter() - started

    def time(self, count: int) -> list[float]:
        """Seconds of a run on the inputs set last, ``count`` times."""
        if self.seconds < SLOW_SECONDS:
            number = max(1, math.ceil(SAMPLE_SECONDS / max(self.seconds, 1e-6)))
            evaluator = self._vm.time_evaluator("invoke_stateful", self._device, number=number, repeat=count)
            return [float(value) for value in evaluator("main").results]
        samples = []
        for _ in range(count):
            started = time.perf_counter()
            self._vm.invoke_stateful("main")
            self._device.sync()
            samples.append(time.perf_counter() - started)
        return samples


def compare(session: Any, device: Any, request: ModelRequest, window: Window) -> ModelOutcome:
    """Run both models on equal inputs in one session and time them interleaved.

    Latencies of two builds can only be compared when they alternate: minutes apart they differ by far more than
    most schedules do.
    """
    import tvm

    def place(array: NDArray[Any]) -> Any:
        return tvm.runtime.tensor(array, device=device)

    params = [place(array) for array in _load_params(request.params)]
    untuned = RemoteModel(session, device, request.untuned, params)
    tuned = RemoteModel(session, device, request.tuned, params)

    def outputs(which: int) -> list[list[NDArray[Any]]]:
        """Outputs of both models, each on inputs of its own: a model may update what it is given."""
        return [model.run([place(array) for array in model_inputs(request, which)]) for model in (untuned, tuned)]

    elsewhere, other_found = outputs(1)
    lost = untuned.seconds < SPECIAL_SECONDS and any(map(takes_special, request.inputs)) and _lost(*outputs(SPECIAL))
    expected, found = outputs(0)  # last, for these inputs are timed
    if request.outputs is not None:
        np.savez(request.outputs, **{str(at): _plain(array) for at, array in enumerate(found)})  # type: ignore[arg-type]
    if lost or not (_as_finite(found, expected) and _as_finite(other_found, elsewhere)):
        text = "a NaN in an input is lost" if lost else "outputs are not finite where they should be"
        return ModelOutcome(failure=FailureKind.WRONG_RESULT, message=f"{text}, in the tuned model only")
    times = interleave(untuned, tuned, request.seconds, window)
    errors = output_error(found, expected, elsewhere), output_error(other_found, elsewhere, expected)
    allowed = TOLERANCE
    which = errors.index(max(errors))
    if not errors[which] <= allowed:  # a model that rounds jumps where a sum falls on the other side of a half
        ours, right, apart = ((found, expected, elsewhere), (other_found, elsewhere, expected))[which]
        share = OFF_IN_BF16 if request.rounds_otherwise else OFF
        off = [
            [place(_nudged(request, array, share, request.seed + i)) for i, array in enumerate(arrays)]
            for arrays in (model_inputs(request, which), [each.numpy() for each in params])
        ]
        with window():
            shifted = untuned.run(*off)
        same_shapes = all(a.shape == b.shape == c.shape for a, b, c in zip(ours, right, shifted, strict=True))
        if same_shapes and excuse(ours, right, shifted, share):
            allowed = max(allowed, FREEDOM * output_error(shifted, right, apart))
    signal = max(map(dependence, expected, elsewhere), default=0.0)
    return ModelOutcome(tuple(times[0]), tuple(times[1]), max(errors), allowed, signal)


def _nudged(request: ModelRequest, array: NDArray[Any], share: float, seed: int) -> NDArray[Any]:
    kind = NARROW[BF16]
    if not request.rounds_otherwise or str(array.dtype) != kind.storage:
        return nudged(array, share, seed)
    return nudged(array.view(dtype_of(kind.numbers)), share, seed).view(kind.storage)


def model_inputs(request: ModelRequest, which: int) -> list[NDArray[Any]]:
    """Random inputs, one of the sets; ``SPECIAL`` has NaN and infinity where an input may have these."""
    seeds = [request.seed + 1000 * which + i for i in range(len(request.inputs))]
    arrays = [random_array(spec, seed) for spec, seed in zip(request.inputs, seeds, strict=True)]
    if which != SPECIAL:
        return arrays
    return [with_special(*each) for each in zip(arrays, request.inputs, seeds, strict=True)]


def _lost(expected: list[NDArray[Any]], found: list[NDArray[Any]]) -> bool:
    return any(map(loses_nan, found, expected))


def _as_finite(found: list[NDArray[Any]], expected: list[NDArray[Any]]) -> bool:
    return all(
        np.isfinite(_wide(array)).all() == np.isfinite(_wide(want)).all()
        for array, want in zip(found, expected, strict=True)
    )


def output_error(found: list[NDArray[Any]], expected: list[NDArray[Any]], elsewhere: list[NDArray[Any]]) -> float:
    """The worst error of the outputs, see :func:`tunesmith.measuring.agreement.signal_error`."""
    return max((signal_error(*each) for each in zip(found, expected, elsewhere, strict=True)), default=0.0)


def interleave(untuned: Timed, tuned: Timed, seconds: float, window: Window) -> list[list[float]]:
    """Seconds of runs of both models in turn; ``seconds`` is what all of them together may take, about.

    Both are treated equally as far as that allows: a model that is warm seems faster than one that is not. Those that
    are quick are set up ``PLACEMENTS`` times, each of them first in turn, with equal numbers of samples: where its
    buffers lie makes one build faster than an equal one by a tenth and more.
    """
    fit = int(seconds / 2 / max(untuned.seconds, 1e-6))
    rounds = max(SLOW_ROUNDS, min(ROUNDS, fit))
    placements = PLACEMENTS if rounds == ROUNDS else 1
    plans = {model: _turn(model, seconds / 2 / rounds, rounds) for model in (untuned, tuned)}
    samples: dict[Timed, list[float]] = {untuned: [], tuned: []}
    for placement in range(placements):
        models = (untuned, tuned) if placement % 2 == 0 else (tuned, untuned)
        if placement:
            for model in models:  # both, so that either may get what the other had
                model.leave()
            for model in models:
                model.place()
        for _ in range(rounds // placements):
            for model in models:
                warm, each = plans[model]
                with window():
                    samples[model] += model.time(warm + each)[warm:]
    return [samples[untuned], samples[tuned]]


def _turn(model: Timed, seconds: float, rounds: int) -> tuple[int, int]:
    """Samples of a model in one of its turns: to warm up, and those that count; ``seconds`` is what they may take."""
    each_seconds = max(model.seconds, SAMPLE_SECONDS)
    affordable = int(seconds / each_seconds)
    each = max(1, min(math.ceil(SAMPLES / rounds), affordable))
    return max(0, min(math.ceil(WARM_SECONDS / each_seconds), affordable - each)), each


def _load_params(path: Path | None) -> Iterable[NDArray[Any]]:
    if path is None:
        return
    with np.load(path) as file:
        for name in file.files:
            yield file[name]


def _flat(value: Any) -> list[Any]:
    if hasattr(value, "numpy"):
        return [value]
    return [leaf for item in value for leaf in _flat(item)]


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """In a type of NumPy's own, which files keep: all numbers of bfloat16 are ones of float32."""
    return array.astype("float32") if array.dtype.kind == "V" else array


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(array).astype("float64")
