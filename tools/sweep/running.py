"""A case through import, compilation and comparison, in a child process that may die."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import resource
import select
import signal
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.sweep.base import AGREES, DIFFERS, FAULT, REFUSED, Case, CaseOutcome
from tunesmith.errors import TunesmithError
from tunesmith.preparation import for_target
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

SECONDS = 60.0
"""Time limit of one case."""
MEMORY_BYTES = 8 << 30
"""Memory limit of one case."""
TARGET = Target({"kind": "llvm", "opt-level": 0})
"""LLVM optimises nothing, since each case runs once."""


def prepare_process() -> None:
    """Load once what every case needs: the process of a case is a fork of this one."""
    warm("llvm")

    from workers.tvm_backend.build import compile_model  # noqa: F401
    from workers.tvm_backend.frontends import import_model  # noqa: F401
    from workers.tvm_backend.passes import pipeline  # noqa: F401

    gc.collect()
    gc.freeze()  # a collection in a child would copy every object that it shares with this process


def run_cases(cases: Iterable[Case]) -> Iterator[CaseOutcome]:
    """Run cases one after another. Call :func:`prepare_process` first."""
    for case in cases:
        kind, detail = outcome_of(case)
        yield CaseOutcome(case.name, case.group, kind, detail)


def outcome_of(case: Case) -> tuple[str, str]:
    """Kind and detail of a case's outcome, found in a child process with limits of time and memory."""
    reading, writing = os.pipe()
    child = multiprocessing.get_context("fork").Process(target=_child, args=(case, writing))
    child.start()
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said, ended = b"", time.monotonic() + SECONDS
        while (left := ended - time.monotonic()) > 0 and select.select([file], [], [], left)[0]:
            more = os.read(file.fileno(), 65536)
            if not more:
                break
            said += more
        else:
            child.kill()
            child.join()
            return FAULT, f"over {SECONDS:.0f} s"
    child.join()
    if not said:
        code = child.exitcode or 0
        return FAULT, signal.Signals(-code).name if code < 0 else f"exit {code}"
    kind, _, detail = said.decode(errors="replace").partition("\n")
    return kind, detail


def _child(case: Case, writing: int) -> None:
    """Run a case and write its outcome; never returns."""
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        with tempfile.TemporaryDirectory(prefix="tunesmith-sweep-") as folder:
            said = compare(case, Path(folder))
    except BaseException as error:
        said = FAULT, f"{type(error).__name__}: {error}"
    os.write(writing, "\n".join(said).encode(errors="replace")[:4000])
    os._exit(0)


def compare(case: Case, folder: Path) -> tuple[str, str]:
    """Kind and detail of a case's outcome, found in this process. Errors that the import does not name are raised."""
    from workers.tvm_backend.frontends import import_model
    from workers.tvm_backend.passes import pipeline

    path = folder / f"case.{case.source}"
    path.write_bytes(case.model)
    try:
        module = import_model.import_model(path, case.source, dict(case.shapes))
    except TunesmithError as refusal:
        return REFUSED, f"{refusal.code}: {refusal.detail}"
    found = _run(pipeline.prepare(module, for_target("llvm", operator=False)), case.inputs, folder)
    return _difference(found, case)


def _run(prepared: Any, inputs: Sequence[NDArray[Any]], folder: Path) -> list[NDArray[Any]]:
    """Outputs of a prepared model that is compiled with default schedules."""
    import tvm
    from tvm import relax

    from workers.tvm_backend import tir
    from workers.tvm_backend.export import script
    from workers.tvm_backend.passes import pipeline

    steps, target = script(), tir.tvm_target(TARGET)
    pipeline.save_params(prepared.params, folder / "params.npz")
    mod, _, _ = steps.apply_schedules(tir.load_module(prepared.module), target, None)
    executable = steps.build(steps.bind_params(mod, folder / "params.npz"), target)
    machine: Any = relax.VirtualMachine(executable, tvm.cpu())
    # A contiguous array of no dimensions has one, unless its shape is given again.
    result = machine["main"](*[tvm.runtime.tensor(np.ascontiguousarray(x).reshape(np.shape(x))) for x in inputs])
    return [each.numpy() for each in _flat(result)]


def _flat(result: Any) -> Iterator[Any]:
    if hasattr(result, "numpy"):
        yield result
        return
    for each in result:
        yield from _flat(each)


def _difference(found: Sequence[NDArray[Any]], case: Case) -> tuple[str, str]:
    """Compare outputs with those expected: shapes, types and numbers, with NaN equal to NaN."""
    if len(found) != len(case.expected):
        return DIFFERS, f"{len(found)} outputs of {len(case.expected)}"
    for at, (ours, right) in enumerate(zip(found, map(np.asarray, case.expected), strict=True)):
        if (ours.shape, str(ours.dtype)) != (right.shape, str(right.dtype)):
            return DIFFERS, f"output {at}: {ours.dtype}{list(ours.shape)} for {right.dtype}{list(right.shape)}"
        wide = "complex128" if right.dtype.kind == "c" else "float64"
        exact = right.dtype.kind in "iub"
        same = (
            np.array_equal(ours, right)
            if exact
            else np.allclose(ours.astype(wide), right.astype(wide), case.relative, case.absolute, equal_nan=True)
        )
        if not same:
            apart = np.nanmax(np.abs(ours.astype(wide) - right.astype(wide)), initial=0.0)
            return DIFFERS, f"output {at}: other numbers, up to {apart:.3g} apart"
    return AGREES, ""
