"""What outputs are compared with where the default schedule takes seconds: its program in an order that suits a CPU.

Each sum is still taken by one thread and in the program's own order, so that its rounding is the plain program's.
"""

from __future__ import annotations

import tvm
from tvm.s_tir import Schedule

from workers.tvm_backend.design_space.rules.stages import Stage, find, fused


def quicker(mod: tvm.IRModule) -> tvm.IRModule:
    """The program with its rows in parallel and, where that is the way everything lies, the last axis innermost.

    Blocks that are not simple (see ``rules.stages.find``) stay as they are.
    """
    sch = Schedule(mod, error_render_level="none")
    for stage in find(sch) or ():
        _order(sch, stage)
    return sch.mod


def _order(sch: Schedule, stage: Stage) -> None:
    loops = sch.get_loops(sch.get_sblock(stage.name))
    rows, lane, steps = loops[: len(stage.spatial)][:-1], loops[: len(stage.spatial)][-1:], loops[len(stage.spatial) :]
    outer = [fused(sch, rows)] if rows else []
    for loop in outer:  # before its block is divided: TVM makes only loops of whole sums parallel
        sch.parallel(loop)
    if lane and steps and _contiguous(stage):
        sch.reorder(*outer, *steps, *lane)
        sch.decompose_reduction(sch.get_sblock(stage.name), steps[0])


def _contiguous(stage: Stage) -> bool:
    """True when the last spatial axis goes through all that is read in steps of one, or not at all."""
    last = len(stage.spatial) - 1
    return not any(last in stage.axes_of(index) for load in stage.loads() for index in list(load.indices)[:-1])
