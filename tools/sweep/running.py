"""A case through import, compilation and comparison, in a child process that may die."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools import children
from tools.linked import linked
from tools.sweep.base import AGREES, DIFFERS, FAULT, REFUSED, Case, CaseOutcome
from tunesmith.errors import TunesmithError
from tunesmith.preparation import for_target
from tunesmith.targets import Target
from workers.tvm_backend.warm import warm

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


def run_cases(cases: Iterable[Case | CaseOutcome]) -> Iterator[CaseOutcome]:
    """Run cases one after another, and pass on what is none. Call :func:`prepare_process` first."""
    for case in cases:
        if isinstance(case, CaseOutcome):
            yield case
            continue
        kind, detail = outcome_of(case)
        yield CaseOutcome(case.name, case.group, kind, detail)


def outcome_of(case: Case) -> tuple[str, str]:
    """Kind and detail of a case's outcome, found in a child process with limits of time and memory."""
    try:
        kind, _, detail = children.answer_of(lambda: _answer(case), case.seconds, MEMORY_BYTES).partition("\n")
    except (children.TimedOut, children.Crashed) as error:
        return FAULT, str(error)
    return kind, detail


def _answer(case: Case) -> str:
    """Kind and detail of a case's outcome, each a line."""
    try:
        with tempfile.TemporaryDirectory(prefix="tunesmith-sweep-") as folder:
            return "\n".join(compare(case, Path(folder)))
    except BaseException as error:  # an error of any class is a fault
        return f"{FAULT}\n{type(error).__name__}: {error}"


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
    library = linked(steps.build(steps.bind_params(mod, folder / "params.npz"), target))
    machine: Any = relax.VirtualMachine(library, tvm.cpu())
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
    worst = 0.0
    for at, (ours, right) in enumerate(zip(found, map(np.asarray, case.expected), strict=True)):
        if (ours.shape, str(ours.dtype)) != (right.shape, str(right.dtype)):
            return DIFFERS, f"output {at}: {ours.dtype}{list(ours.shape)} for {right.dtype}{list(right.shape)}"
        wide = "complex128" if right.dtype.kind == "c" else "float64"
        exact = right.dtype.kind in "iub"
        largest = np.abs(right.astype(wide)).max(initial=0.0) if case.of_largest else 0.0
        absolute = max(case.absolute, case.of_largest * largest)
        same = (
            np.array_equal(ours, right)
            if exact
            else np.allclose(ours.astype(wide), right.astype(wide), case.relative, absolute, equal_nan=True)
        )
        if same and not largest:
            continue
        apart = np.nanmax(np.abs(ours.astype(wide) - right.astype(wide)), initial=0.0)
        if not same:
            return DIFFERS, f"output {at}: other numbers, up to {apart:.3g} apart"
        worst = max(worst, float(apart / largest))
    return AGREES, f"{worst:.1e}" if case.of_largest else ""
