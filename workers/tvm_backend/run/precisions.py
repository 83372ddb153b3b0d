"""How far a model's outputs in narrow precisions lie from float32's. Its importer runs it, in a box."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.errors import PrecisionUnavailable, first_line
from tunesmith.measuring.agreement import distance
from tunesmith.preparation import PLAIN, Preparation
from workers.tvm_backend.build.boxed_records import RecordImporter
from workers.tvm_backend.frontends import boxed_import

if TYPE_CHECKING:
    from workers.tvm_backend.passes.pipeline import Prepared

PARTS = ("design_space.reference_schedule", "passes.half", "passes.quantization", "passes.value_ranges.models")
SETS = 2
"""Sets of inputs on which the models are run; the largest difference counts."""
NOT_QUANTISED = "the model is not quantised"
NOT_FINITE = "its outputs are not finite where float32's are"
Outputs = list[NDArray[Any]]


class Importer(RecordImporter):
    """An importer that also says in which precision a model may be computed."""

    def __init__(self, torch: bool = False) -> None:
        super().__init__(torch)
        for part in PARTS:
            importlib.import_module(f"workers.tvm_backend.{part}")

    def try_precisions(
        self, source: str, shapes: Mapping[str, tuple[int, ...]], preparations: Sequence[Preparation], tolerance: float
    ) -> dict[str, Any]:
        """Distances of the preparations' outputs from float32's, in order, up to the first within the tolerance.

        Each is ``{"precision": …, "rms": …, "why": …}``; without an ``rms``, ``why`` says why there is none.
        """
        return boxed_import.told(lambda: _tried(source, shapes, preparations, tolerance))


def _tried(
    source: str, shapes: Mapping[str, tuple[int, ...]], preparations: Sequence[Preparation], tolerance: float
) -> list[dict[str, Any]]:
    from workers.tvm_backend.frontends import import_model

    os.environ["TVM_NUM_THREADS"] = "1"  # kernels of other jobs may be timed on the other cores
    trial = Trial(import_model.import_model(Path(boxed_import.MODEL), source, shapes))
    found: list[dict[str, Any]] = []
    for preparation in preparations:
        rms, why = trial.of(preparation)
        found.append({"precision": preparation.precision, "rms": rms, "why": why})
        if rms is not None and rms <= tolerance:
            break
    return found


class Trial:
    """A model that is run in several precisions.

    Args:
        mod: as it was imported.
    """

    def __init__(self, mod: Any) -> None:
        from workers.tvm_backend.passes import half, pipeline

        self._mod = mod
        self._plain = pipeline.prepare(pipeline.simplified(mod, (half.in_float32,)), PLAIN)
        self._inputs = [list(_drawn(self._plain, which)) for which in range(SETS)]
        self._expected: list[list[Outputs]] = []

    def of(self, preparation: Preparation) -> tuple[float | None, str]:
        """Root mean square of the outputs' difference from float32's as a part of theirs, or why there is none."""
        from workers.tvm_backend.passes import pipeline, quantization

        if preparation.int8 and not quantization.is_quantised(self._mod):
            return None, NOT_QUANTISED
        try:
            made = pipeline.prepare(self._mod, preparation)
            if made.note:
                return None, made.note
            self._expected = self._expected or run(self._plain, self._inputs)
            found = run(made, self._inputs)
        except PrecisionUnavailable:
            return None, NOT_QUANTISED
        except Exception as error:  # compilers raise whatever a pass raises; float32 is left
            return None, f"it cannot be run ({first_line(error)[:300]})"
        rounds = [sets for outputs in found for sets in zip(outputs, self._expected[0], strict=True)]
        pairs = [pair for sets in rounds for pair in zip(*sets, strict=True)]
        rms = max((distance(*pair)[1] for pair in pairs), default=0.0)
        return (rms, "") if np.isfinite(rms) else (None, NOT_FINITE)


def _drawn(made: Prepared, which: int) -> Iterable[NDArray[Any]]:
    """Inputs as a comparison draws them."""
    from workers.tvm_backend.arguments import random_array
    from workers.tvm_backend.passes.value_ranges import models

    for number, spec in enumerate(models.drawn_inputs(made.module)):
        yield random_array(spec, 1000 * which + number)


def run(made: Prepared, inputs: Sequence[Outputs]) -> list[list[Outputs]]:
    """The outputs of a prepared model for each set of inputs, untuned, on this host.

    Where convolutions may run by Winograd's algorithm, the outputs with all of them running so are a second entry.
    """
    import tvm
    from tvm import relax

    from workers.tvm_backend import host, tir
    from workers.tvm_backend.passes import alternatives

    mod = tir.load_module(made.module)
    quick = {var: _quicker(function) for var, function in mod.functions.items()}
    target = tvm.target.Target(host.describe().target)
    machine = relax.VirtualMachine(tvm.compile(tvm.IRModule(quick, attrs=mod.attrs), target=target), tvm.cpu())
    params = [tvm.runtime.tensor(array) for array in made.params.values()]
    names = ["main", *([alternatives.FUNCTION] if alternatives.has_alternatives(mod) else [])]
    return [[_flat(machine[name](*map(tvm.runtime.tensor, each), *params)) for each in inputs] for name in names]


def _quicker(function: Any) -> Any:
    """A kernel in an order that suits a CPU, where that can be had."""
    import tvm
    from tvm.s_tir import ScheduleError

    from workers.tvm_backend.design_space import reference_schedule

    if not isinstance(function, tvm.tirx.PrimFunc):
        return function
    try:
        return reference_schedule.quicker(tvm.IRModule({"main": function}))["main"]
    except ScheduleError:
        return function


def _flat(value: Any) -> Outputs:
    return [value.numpy()] if hasattr(value, "numpy") else [leaf for item in value for leaf in _flat(item)]
