"""Tunesmith's design-space rules, next to TVM's: structures that its generator does not make.

A rule schedules a workload with TVM's primitives and sampling instructions alone, so that each of its traces is a
sketch like any other and replays in plain TVM.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ScheduleError

from tunesmith.targets import Target
from workers.tvm_backend.design_space.rules.base import Rule
from workers.tvm_backend.design_space.rules.blocked_conv import BlockedConvolution
from workers.tvm_backend.design_space.rules.direct_conv import DirectConvolution
from workers.tvm_backend.design_space.rules.dots import POSTPROC
from workers.tvm_backend.design_space.rules.elementwise import Elementwise
from workers.tvm_backend.design_space.rules.inner_product import InnerProduct
from workers.tvm_backend.design_space.rules.machine import cpu_model_of
from workers.tvm_backend.design_space.rules.packed_matmul import PackedMatmul
from workers.tvm_backend.design_space.rules.pointwise import PointwiseConvolution
from workers.tvm_backend.design_space.rules.row_words import DepthwiseWords
from workers.tvm_backend.design_space.rules.rows import Rows
from workers.tvm_backend.design_space.rules.windows import Depthwise, Pooling
from workers.tvm_backend.design_space.rules.winograd import Winograd
from workers.tvm_backend.dot.marks import MARK

log = logging.getLogger("tunesmith.rules")

RULES: tuple[Rule, ...] = (
    PackedMatmul(),
    InnerProduct(),
    DirectConvolution(),
    PointwiseConvolution(),
    BlockedConvolution(),
    Winograd(),
    Rows(),
    DepthwiseWords(),
    Depthwise(),
    Pooling(),
    Elementwise(),
)


def schedules(fresh: Callable[[], Schedule], target: Target) -> Iterator[Schedule]:
    """One schedule, with arbitrary decisions, for each sketch that some rule makes of a workload.

    Args:
        fresh: a new schedule of the workload, untouched.
        target: what it is tuned for; rules are for CPUs.
    """
    if target.kind != "llvm":
        return
    cpu = cpu_model_of(target)
    for rule in RULES:
        for variant in rule.variants(fresh(), cpu):
            sch = fresh()
            try:
                variant(sch)
            except ScheduleError:
                # A program of a shape that nobody thought of: it keeps the other sketches.
                log.warning("%s fits a workload and does not apply to it", type(rule).__name__, exc_info=True)
            else:
                yield sch


def postprocs(sch: Schedule) -> tuple[str, ...]:
    """What is left to do after a rule's trace: instructions in the place of marked loops, if there are any."""
    marks = (str(each.attrs[0]) for each in sch.trace.insts if str(each.kind.name) == "Annotate")
    return (POSTPROC,) if MARK in marks else ()
