"""Builds candidates and models; hosted by the measure worker's pool children, which stay warm between batches."""

from __future__ import annotations

import hashlib
import importlib
import logging
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from tunesmith.errors import InvalidCandidate, MissingDependency
from tunesmith.messages import TunedWorkload
from tunesmith.targets import Target
from tunesmith.types import FailureKind, TensorSpec
from workers.protocol import BuildRequest, Built
from workers.sandbox.lease import HostLease
from workers.sandbox.limits import about_memory
from workers.tvm_backend.build import calibration_kernels, linking
from workers.tvm_backend.build.cuda_compiler import check, require_compiler
from workers.tvm_backend.host import Host, describe
from workers.tvm_backend.warm import warm

if TYPE_CHECKING:
    from workers.tvm_backend.build.code_cache import CodeCache
    from workers.tvm_backend.design_space.replay import Replayer
    from workers.tvm_backend.design_space.sketch import SketchBody

log = logging.getLogger("tunesmith.measure")
PARTS = (
    "build.code_cache",
    "build.compile_model",
    "design_space.reference_schedule",
    "design_space.replay",
    "passes.extract_tasks",
    "passes.value_ranges.models",
    "tir",
)
"""What a build imports, in this package."""
KEPT_WORKLOADS = 8
FUNCTION = "main"
UNCHECKED = {"tirx.disable_assert": True}
"""No checks of the arguments, which the runner makes itself: half of a small kernel's compilation is about them."""


@dataclass(frozen=True)
class Compiled:
    """A compiled model; ``applied`` counts the tasks that found a schedule.

    Attributes:
        inputs: inputs of an untuned model, with the values to draw for them.
        alternatives: how many of those tasks another algorithm computes than in the untuned model.
    """

    path: Path
    applied: int
    inputs: tuple[TensorSpec, ...] = ()
    alternatives: int = 0


@dataclass(frozen=True)
class _Task:
    """What is kept of a workload on a target: its program, sketches that were read, and code that was made."""

    replayer: Replayer
    code_cache: CodeCache
    args: tuple[TensorSpec, ...]
    updated: tuple[int, ...]
    bodies: dict[bytes, SketchBody] = field(default_factory=dict)

    def body(self, data: bytes) -> SketchBody:
        from workers.tvm_backend.design_space.sketch import SketchBody

        if data not in self.bodies:
            self.bodies[data] = SketchBody.from_json(data)
        return self.bodies[data]


class Builder:
    """Lowers, generates code and links, one candidate at a time.

    Args:
        lease: path of the host lease, shared while a candidate is built.
        kind: kind of the targets to expect; CUDA's tensor intrinsics take longer to load than a candidate may to build.

    Children of a pool are copies of one object, so that whatever can be loaded beforehand is loaded here.
    """

    def __init__(self, lease: str, kind: str = "c") -> None:
        warm(kind)
        # Once for all processes that have this object.
        for part in PARTS:
            importlib.import_module(f"workers.tvm_backend.{part}")
        self._lease = HostLease(lease)
        self._tasks: LRUCache[tuple[str, str], _Task] = LRUCache(KEPT_WORKLOADS)

    def describe(self) -> Host:
        """The host, as TVM sees it."""
        return describe()

    def build(self, request: BuildRequest) -> Built:
        """Build one candidate; everything that goes wrong with it is an outcome.

        A build that exceeds its timeout ends this process by SIGALRM, because nothing else stops a compiler that
        runs inside it; time spent waiting for the lease and loading the target's intrinsics does not count.
        """
        warm(str(request.target.get("kind", "c")))
        with self._lease.shared():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, request.timeout)
            started = time.perf_counter()
            try:
                return self._build(request, started)
            except InvalidCandidate as error:
                return _failed(FailureKind.INVALID, str(error), started)
            except MissingDependency as error:
                return _failed(FailureKind.BUILD_ERROR, f"missing dependency: {error}", started)
            except Exception as error:  # compilers raise many classes, and each is an outcome of this candidate
                return _failed(FailureKind.BUILD_ERROR, about_memory(f"{type(error).__name__}: {error}"), started)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def narrow_peaks(self, target: Mapping[str, Any]) -> dict[str, calibration_kernels.NarrowPeak]:
        """Calibration kernels by precision; see ``calibration_kernels.narrow_peaks``."""
        return calibration_kernels.narrow_peaks(target)

    def build_kernel(self, kernel: calibration_kernels.Kernel, target: Mapping[str, Any], out: Path) -> Built:
        """Build a calibration kernel; see ``calibration_kernels.build``."""
        with self._lease.shared():
            return calibration_kernels.build(kernel, target, out)

    def compile_model(
        self,
        module: bytes,
        params: Path | None,
        target: Mapping[str, Any],
        records: list[TunedWorkload] | None,
        out: Path,
    ) -> Compiled:
        """Compile a model to the library ``out``, parameters left as arguments of ``main``; untuned without records.

        Raises:
            MeasurementFailed, MissingDependency: see ``workers.tvm_backend.build.compile_model``.
        """
        from workers.tvm_backend.build import compile_model, database
        from workers.tvm_backend.export import script
        from workers.tvm_backend.passes.value_ranges import models

        made = Target(dict(target))
        warm(made.kind)
        require_compiler(made.kind)
        log = None
        if records is not None:
            log = out.with_suffix(".database")
            database.write(log, records, target)
        done = compile_model.compile_model(module, params, made, log, out, False)
        inputs = models.drawn_inputs(module) if records is None else ()
        others = sum(script().ALTERNATIVE in name for name in done.applied)
        return Compiled(done.path, len(done.applied), inputs, others)

    def _build(self, request: BuildRequest, started: float) -> Built:
        from tvm.s_tir.analysis import estimate_tir_flops
        from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

        from workers.tvm_backend import tir
        from workers.tvm_backend.design_space import reference_schedule, replay

        target = Target(dict(request.target))
        require_compiler(target.kind)
        task = self._task(request, target)
        replayer = task.replayer
        if request.body is None:
            # A module of its own: GPU passes schedule it in place.
            mod, trace = replay.default(tir.load_module(request.module), replayer.target), None
            mod = reference_schedule.quicker(mod) if request.quicker else mod
        else:
            done = replay.scheduled(replayer.replay(task.body(request.body), request.decisions))
            mod, trace = fetching_ahead(done.mod, replayer.target), done.trace
        mod = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
        code_hash = self._compile(mod, task.code_cache, replayer.target, request.out)
        return Built(
            path=request.out,
            function=FUNCTION,
            args=task.args,
            updated=task.updated,
            flops=float(estimate_tir_flops(replayer.mod)),
            trace=trace,
            code_hash=code_hash,
            seconds=time.perf_counter() - started,
        )

    def _compile(self, mod: Any, code_cache: CodeCache, target: Any, out: Path) -> str:
        """Write the library, that of an equal program where there is one; returns the hash of its object code."""
        import tvm

        from workers.tvm_backend.build.code_cache import Code, ReuseCheck

        reuse_check = ReuseCheck(code_cache)
        try:
            with target, tvm.transform.PassContext(config=lowering(mod, target), instruments=[reuse_check]):
                library = tvm.compile(mod, target=target).mod
                check(library)
        except Exception:  # how TVM hands on what a ReuseCheck raises differs from pass to pass
            if reuse_check.found is None:
                raise
            out.write_bytes(reuse_check.found.library)
            return reuse_check.found.code_hash
        code_hash = hashlib.sha256(_write(library, out)).hexdigest()
        if reuse_check.lowered is not None:
            code_cache.put(Code(reuse_check.lowered, out.read_bytes(), code_hash))
        return code_hash

    def _task(self, request: BuildRequest, target: Target) -> _Task:
        from workers.tvm_backend.build.code_cache import CodeCache
        from workers.tvm_backend.design_space.replay import Replayer

        key = (request.workload, target.hash)
        if key not in self._tasks:
            replayer = Replayer(request.module, target)
            self._tasks[key] = _Task(replayer, CodeCache(), *_arguments(replayer.mod))
        return self._tasks[key]


def _arguments(mod: Any) -> tuple[tuple[TensorSpec, ...], tuple[int, ...]]:
    """The kernel's arguments with the values to draw for them, and which of them it updates."""
    from workers.tvm_backend.passes import extract_tasks
    from workers.tvm_backend.passes.value_ranges.functions import Function
    from workers.tvm_backend.passes.value_ranges.search import argument_specs

    args = extract_tasks.arguments(mod) or ()
    try:
        function = Function(mod["main"])
        return argument_specs(function, args), function.updated
    except Exception:  # a program that is not understood is tuned on the usual values
        log.exception("values of arguments are not known")
        return args, ()


def fetching_ahead(mod: Any, target: Any) -> Any:
    """A program with a candidate's schedule that fetches weights ahead, as it does in a compiled model."""
    import tvm

    from workers.tvm_backend.export import script

    prefetching = script().PREFETCH["prefetching"]
    return tvm.IRModule({var: prefetching(each, target) for var, each in mod.functions.items()}, attrs=mod.attrs)


def build_program(mod: Any, target: Any, out: Path) -> None:
    """Write the library of a scheduled program, compiled as candidates are."""
    import tvm

    with target, tvm.transform.PassContext(config=lowering(mod, target)):
        _write(tvm.compile(mod, target=target).mod, out)


def lowering(mod: Any, target: Any) -> Mapping[str, bool]:
    """How TVM compiles a candidate: the options of its passes."""
    from workers.tvm_backend.export import script

    if "gpu" not in target.keys:
        return UNCHECKED
    steps = script()
    apart = any(steps.needs_room(function) for function in mod.functions.values())
    return {**UNCHECKED, steps.APART: True} if apart else UNCHECKED


def _write(library: Any, out: Path) -> bytes:
    """Write the library and return its object code."""
    if not library.imports:
        object_file = out.with_suffix(".o")
        library.write_to_file(str(object_file))
        try:
            linking.link([object_file], out)
            return object_file.read_bytes()
        finally:
            object_file.unlink(missing_ok=True)
    library.export_library(str(out), fcompile=linking.export_for_measurement)
    return out.read_bytes()


def _failed(kind: FailureKind, message: str, started: float) -> Built:
    return Built(failure=kind, message=message.strip()[:2000], seconds=time.perf_counter() - started)
