"""Rounding to bfloat16 by one instruction, where it is the last that a kernel does.

As an expression it takes nine operations on integers, which cost as much as a short product. So it stays a stage of its
own, whose loop over a vector is left to an intrinsic; what is rounded is computed just before it.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm_ffi import structural_equal

from workers.tvm_backend.design_space.rules.epilogue import consumers
from workers.tvm_backend.dot.bits import BITS, rounded
from workers.tvm_backend.dot.intrinsics import ROUNDING, Dot
from workers.tvm_backend.dot.marks import MARK


def find(sch: Schedule, block: Any, dot: Dot | None) -> str | None:
    """The stage that rounds all that follows a product; None where nothing is rounded last, or by no instruction.

    Args:
        dot: how the product is computed. A CPU that has an instruction for all products of a lane has this one, too.
    """
    if dot is None or not dot.is_single:
        return None
    outputs = [str(sch.get(each).name_hint) for each in sch.get_output_blocks(sch.get_sblock("root"))]
    last = next((name for name in consumers(sch, block) if name in outputs), None)
    if last is None:
        return None
    stage = sch.get_sblock(last)
    body, producers = sch.get(stage).body, sch.get_producers(stage)
    if type(body).__name__ != "BufferStore" or str(body.buffer.dtype) != BITS or len(producers) != 1:
        return None
    made = sch.get(producers[0]).writes[0].source
    load = tirx.BufferLoad(made, body.indices)
    return last if structural_equal(body.value, rounded(load)) else None


def place(sch: Schedule, written: Any, name: str, loop: Any, count: int, unroll: bool = True) -> None:
    """Round at ``loop`` what the stage ``written`` makes there.

    Args:
        name: name of the stage that rounds.
        count: how many dimensions the result has; the last one is a multiple of a vector, or is left in its loop.
        unroll: unroll the loops over the others.
    """
    stage = sch.get_sblock(name)
    sch.set_scope(written, 0, "local")
    sch.reverse_compute_at(stage, loop, preserve_unit_loops=True)
    *outer, columns = sch.get_loops(stage)[-count:]
    vectors, lane = sch.split(columns, [None, ROUNDING.lanes], preserve_unit_iters=True)
    for each in outer[1:] if unroll else ():
        sch.unroll(each)
    sch.unroll(vectors)
    _by_vector(sch, written, vectors, lane)


def within(sch: Schedule, written: Any, loop: Any, lane: Any) -> None:
    """Round what the stage ``written`` makes in each step of ``loop``, a vector, which ``lane`` goes through."""
    sch.set_scope(written, 0, "local")
    _by_vector(sch, written, loop, lane)


def _by_vector(sch: Schedule, written: Any, loop: Any, lane: Any) -> None:
    sch.annotate(lane, MARK, ROUNDING.name)
    sch.compute_at(written, loop, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(written)[-1])
