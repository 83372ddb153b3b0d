"""From a sketch and decisions to a schedule, the same in every process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import tvm
from tvm.s_tir import Schedule, Trace
from tvm.s_tir import meta_schedule as ms

from tunesmith.errors import InvalidCandidate
from tunesmith.targets import Target
from tunesmith.types import Decision
from workers.tvm_backend import tir
from workers.tvm_backend.design_space.rules.dots import POSTPROC, tensorize
from workers.tvm_backend.design_space.sketch import SketchBody
from workers.tvm_backend.export import script
from workers.tvm_backend.warm import warm

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = 2
"""Replays at a time: two take 0.6 to 0.75 of the time of one after the other, the rest of which is Python's."""
SEED = 1
"""Some postprocessors for GPUs sample (thread extents of unbound blocks): a fixed seed makes a replay exact."""


@dataclass(frozen=True)
class Scheduled:
    """A scheduled workload.

    Attributes:
        mod: ready to build.
        trace: JSON of the complete trace, postprocessing included; None for the default schedule.
    """

    mod: tvm.IRModule
    trace: str | None


class Replayer:
    """Replays candidates of one workload for one target. Threads may share it: each replay has its own schedule."""

    def __init__(self, module: bytes, target: Target) -> None:
        warm(target.kind, target.triple)
        self.mod = tir.load_module(module)
        self.target = tir.tvm_target(target)
        self.context = ms.TuneContext(
            self.mod,
            target=self.target,
            space_generator=ms.space_generator.PostOrderApply(),
            num_threads=1,
            rand_state=SEED,
        )
        self._postprocs: dict[str, Callable[[Schedule], bool]] = {
            type(p).__name__: p.apply for p in self.context.space_generator.postprocs
        }
        self._traces: dict[str, Trace] = {}
        # Analysing the untouched program costs up to a tenth of a replay; a copy shares all of it.
        self._copying = threading.Lock()
        self._untouched = Schedule(self.mod, seed=SEED, error_render_level="none")

    @property
    def postprocs(self) -> tuple[str, ...]:
        """Names of the postprocessors that TVM has for the target, in order."""
        return tuple(self._postprocs)

    def skeleton(self, body: SketchBody) -> Trace:
        """The sketch's trace with arbitrary decisions.

        Raises:
            InvalidCandidate: the skeleton does not apply to this workload.
        """
        if body.hash not in self._traces:
            sch = self.fresh()
            try:
                Trace.apply_json_to_schedule([json.loads(body.trace), []], sch)
            except Exception as error:  # primitives raise several of TVM's classes
                raise _invalid(f"the sketch does not apply to the workload: {error}") from error
            self._traces[body.hash] = sch.trace
        return self._traces[body.hash]

    def apply(self, body: SketchBody, decisions: Sequence[Decision]) -> Schedule:
        """The schedule before postprocessing.

        Raises:
            InvalidCandidate: a primitive refuses.
        """
        skeleton = self.skeleton(body)
        knobs = [instruction for instruction in skeleton.insts if tir.is_knob(instruction)]
        if len(knobs) != len(decisions):
            raise _invalid(f"the sketch takes {len(knobs)} decisions, not {len(decisions)}")
        trace = Trace(list(skeleton.insts), dict(zip(knobs, decisions, strict=True)))
        sch = self.fresh()
        try:
            trace.apply_to_schedule(sch, remove_postproc=True)
        except Exception as error:
            # Primitives raise several of TVM's classes; each means that these decisions do not fit the workload.
            raise _invalid(f"the trace does not apply: {error}") from error
        return sch

    def fresh(self) -> Schedule:
        """A schedule of the untouched workload."""
        with self._copying:  # a copy draws from its origin's random state
            sch = self._untouched.copy()
        sch.seed(SEED)
        return sch

    def replay(self, body: SketchBody, decisions: Sequence[Decision]) -> Schedule:
        """The finished schedule.

        Raises:
            InvalidCandidate: a primitive or a postprocessor refuses, or the target lacks a postprocessor.
        """
        sch = self.apply(body, decisions)
        sch.enter_postproc()
        for name in body.postprocs:
            postproc = tensorize if name == POSTPROC else self._postprocs.get(name)
            if postproc is None:
                raise _invalid(f"target {self.target.kind.name} has no postprocessor {name}")
            try:
                accepted = postproc(sch)
            except Exception as error:  # the same as for primitives
                raise _invalid(f"{name} failed: {error}") from error
            if not accepted:
                raise _invalid(f"{name} refuses the schedule")
        return sch


def together(work: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS) -> list[Result]:
    """``work`` of each item, in their order, on some threads: TVM releases the GIL while it replays.

    The threads live no longer than the call, so that they run on the cores of whoever calls.
    """
    given = list(items)
    if min(threads, len(given)) < 2:
        return [work(item) for item in given]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, given))


def _invalid(detail: str) -> InvalidCandidate:
    return InvalidCandidate(detail.strip()[:2000])


def decisions_of(sch: Schedule, count: int) -> tuple[Decision, ...]:
    """The first ``count`` decisions as TVM took them: it clamps compute locations and repairs tiles silently."""
    trace = sch.trace
    taken = [trace.decisions[i] for i in trace.insts if tir.is_knob(i)]
    return tuple(tir.plain_decision(d) for d in taken[:count])


def schedule(module: bytes, target: Target, body: SketchBody | None, decisions: Sequence[Decision]) -> Scheduled:
    """Rebuild a candidate's schedule exactly.

    Args:
        module: JSON of the workload.
        target: what to schedule for.
        body: the candidate's sketch; None for the default schedule (on a CPU see ``cpu_default`` of
            ``tunesmith/templates/compile.py``; on a GPU TVM's).
        decisions: one per knob.

    Raises:
        InvalidCandidate: the trace does not apply, or a postprocessor refuses it.
    """
    warm(target.kind)
    if body is None:
        return Scheduled(default(tir.load_module(module), tir.tvm_target(target)), None)
    return scheduled(Replayer(module, target).replay(body, decisions))


def scheduled(sch: Schedule) -> Scheduled:
    """The result of a replay."""
    return Scheduled(sch.mod, tir.trace_json(sch.trace))


def default(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The schedule that a PrimFunc gets without tuning."""
    if "gpu" not in target.keys:
        return script().cpu_default(mod, target)
    with target:
        return gpu_default()(mod)


def gpu_default() -> Any:
    """TVM's default GPU schedules as a pass (what ``relax.backend.cuda`` applies)."""
    from tvm.s_tir import dlight

    return dlight.ApplyDefaultSchedule(
        dlight.gpu.Matmul(),
        dlight.gpu.GEMV(),
        dlight.gpu.Reduction(),
        dlight.gpu.GeneralReduction(),
        dlight.gpu.Fallback(),
    )
