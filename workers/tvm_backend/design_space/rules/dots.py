"""Products of what shares a 32-bit lane: which instruction a CPU has for them, and where a schedule puts it.

A rule marks the loop over lanes. The instruction takes its place last (:func:`tensorize`): until then a program is
loops and plain blocks, which is what nests are derived from.
"""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules.registers import innermost
from workers.tvm_backend.dot.bits import BITS, widened_load
from workers.tvm_backend.dot.intrinsics import ALL, BY_NAME, ROUNDING, Dot, register
from workers.tvm_backend.dot.marks import MARK
from workers.tvm_backend.dot.matrix import MATRIX_BY_NAME, STAGES

IMPORT = "pragma_import_llvm"
POSTPROC = "TensorizeDots"
"""Name of :func:`tensorize` among a sketch's postprocessors."""


def dot_of(cpu: CpuModel, columns: int, weights: str) -> Dot | None:
    """The fastest instruction for columns that lie ``columns`` at a time; None where no register fits.

    Args:
        weights: type of the operand with the columns.
    """
    usable = [dot for dot in ALL if dot.weights == weights and dot.runs_on(cpu) and columns % dot.lanes == 0]
    return max(usable, key=lambda dot: dot.lanes / dot.operations, default=None)


def seen_by_tiles(cpu: CpuModel, dot: Dot | None) -> CpuModel:
    """The CPU by whose prices a tile is chosen; ``dot`` is None where the operands are float32."""
    return cpu.of_dots() if dot is not None and dot.is_single else cpu


def place_widening(sch: Schedule, block: Any, dot: Dot) -> None:
    """Inline the stage that widens what ``block`` reads where an instruction takes bits.

    Elsewhere the stage stays, and pads as well where something is padded. Bytes have no such stage.
    """
    if dot.weights != BITS:
        return
    for wide in widening(sch, block):
        if not dot.widened:
            sch.compute_inline(wide)
            continue
        for padded in sch.get_producers(wide):
            sch.compute_inline(padded)


def widening(sch: Schedule, block: Any) -> list[Any]:
    """The stages that widen bits for ``block``."""
    return [
        each
        for each in sch.get_producers(block)
        if widened_load(getattr(sch.get(each).body, "value", None)) is not None
    ]


def accumulate(sch: Schedule, block: Any, reduction: Any, count: int, dot: Dot | None) -> None:
    """The straight code of a tile: unrolled, in vectors or marked for an instruction, initialised apart.

    Args:
        reduction: the outermost loop of the reduction.
        count: loops of the tile, that over lanes the last; with a ``dot`` another one is inside of it.
        dot: how what shares a lane is multiplied; None where the operands are float32.
    """
    if dot is None:
        innermost(sch, block, count)
        innermost(sch, sch.decompose_reduction(block, reduction), count)
        return
    *unrolled, lane, _ = sch.get_loops(block)[-count - 1 :]
    for loop in unrolled:
        sch.unroll(loop)
    innermost(sch, sch.decompose_reduction(block, reduction), count)
    sch.annotate(lane, MARK, dot.name)


def tensorize(sch: Schedule) -> bool:
    """Put instructions in the place of marked loops. A postprocessor: False where one does not fit."""
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        loops = sch.get_loops(block)
        marked = [(loop, name) for loop in loops if (name := _mark_of(sch, loop)) is not None]
        for loop, name in marked:
            sch.unannotate(loop, MARK)
            _import(sch, loops[0], dot_named(name).helper)
            register(name)
            sch.tensorize(loop, name)
    return True


def _import(sch: Schedule, loop: Any, helper: str) -> None:
    """Add LLVM's text to a kernel, on an outermost loop: inside of the tile it would be parsed for each copy."""
    known = str(sch.get(loop).annotations.get(IMPORT, ""))
    if helper in known:
        return
    if known:
        sch.unannotate(loop, IMPORT)
    sch.annotate(loop, IMPORT, known + helper)


def dot_named(name: str) -> Dot:
    """The instruction that a mark names, or that its accumulators are for."""
    return BY_NAME.get(name) or MATRIX_BY_NAME.get(name) or (ROUNDING if name == ROUNDING.name else STAGES[name])


def _mark_of(sch: Schedule, loop: Any) -> str | None:
    found = sch.get(loop).annotations.get(MARK)
    return None if found is None else str(found)
