"""Tensor intrinsics: one register of accumulators plus products of what shares a 32-bit lane.

``C[l] += A[0] * B[l, 0] + A[1] * B[l, 1] + …`` for each lane: pairs of bfloat16, or quads of bytes. A trace names them,
so a process that replays one, or so much as opens a MetaSchedule database with it, registers them first.
"""

from __future__ import annotations

import functools
import math
import threading
from dataclasses import dataclass, replace

from tunesmith import metaschedule
from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.codes import CODES, WEIGHTS
from workers.tvm_backend.export import script

# LLVM's intrinsic takes <32 x bfloat>, a type that no expression of TVM keeps; the helper takes the same bits as
# <16 x i32>. Its text travels in the trace, as an annotation, and LLVM inlines it.
DPBF16PS = """
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define <16 x float> @ts_dpbf16ps(<16 x float> %c, <16 x i32> %a, <16 x i32> %b) alwaysinline {
  %x = bitcast <16 x i32> %a to <32 x bfloat>
  %y = bitcast <16 x i32> %b to <32 x bfloat>
  %r = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %c, <32 x bfloat> %x, <32 x bfloat> %y)
  ret <16 x float> %r
}
"""

ROUND = """
define <16 x i16> @ts_bf16_round(<16 x float> %x) alwaysinline {
  %r = fptrunc <16 x float> %x to <16 x bfloat>
  %b = bitcast <16 x bfloat> %r to <16 x i16>
  ret <16 x i16> %b
}
"""

GROUPS = {BITS: 2, WEIGHTS: 4, CODES: 4}
"""Values in a 32-bit lane, by the type of the operand with the columns."""
SUMS = {BITS: "float32", WEIGHTS: "int32", CODES: "int32"}
"""Type of the accumulators, by the same type."""
LANE_BYTES = 4
ROWS_OF_WORDS = 3
"""Rows of the kernel whose products one lane of :class:`RowDot` has."""


@dataclass(frozen=True)
class Dot:
    """How a CPU multiplies what shares a lane.

    Attributes:
        name: the intrinsic's name; it is part of traces and stays for ever.
        lanes: lanes of its register.
        left: type of the operand that is broadcast.
        weights: type of the other one, which has the columns: weights, or the codes of pixels.
        needs: field of ``CpuModel`` without which LLVM cannot compile it; empty: every CPU has it.
        operations: arithmetic instructions for each multiply-add of a vector.
        helper: LLVM's text that the kernel imports; empty where it needs none.
    """

    name: str
    lanes: int
    left: str
    weights: str
    needs: str
    operations: float
    helper: str = ""

    @property
    def group(self) -> int:
        """Values in a lane."""
        return GROUPS[self.weights]

    @property
    def step_operations(self) -> float:
        """Arithmetic instructions for each step of the loops of a nest, which has none over what shares a lane."""
        return self.group * self.operations

    @property
    def is_single(self) -> bool:
        """Whether one instruction makes all products of a lane."""
        return self.operations * self.group <= 1

    @property
    def widened(self) -> bool:
        """Whether a stage of the kernel widens the operand that is broadcast."""
        return self.left == "float32"

    def runs_on(self, cpu: CpuModel) -> bool:
        """Whether the CPU has registers of its width, and the instruction."""
        return self.lanes <= cpu.lanes() and (not self.needs or bool(getattr(cpu, self.needs)))


PAIRS = Dot("ts_bf16_dot_16", 16, BITS, BITS, "bf16_dot", 0.5, DPBF16PS)
"""AVX512_BF16: one instruction for both products."""
WIDENED_PAIRS = tuple(Dot(f"ts_bf16_widen_{lanes}", lanes, "float32", BITS, "", 1.1) for lanes in (4, 8, 16))
"""Two float32 multiply-adds, of a value that was widened before and a weight that is widened in registers."""
QUADS = tuple(Dot(f"ts_i8_dot_{lanes}", lanes, CODES, WEIGHTS, "i8_dot", 0.25) for lanes in (8, 16))
"""VNNI: one instruction for four products."""
HALVED_QUADS = tuple(Dot(f"ts_i8_halves_{lanes}", lanes, CODES, WEIGHTS, "i16_dot", 1.2) for lanes in (8, 16))
"""AVX2, AVX-512BW: two instructions for the products of 16-bit numbers, which are the halves of each pair of bytes."""
PLAIN_QUADS = Dot("ts_i8_plain_4", 4, CODES, WEIGHTS, "", 2.5)
"""Four 32-bit multiply-adds of bytes that are widened in registers."""
TURNED_QUADS, TURNED_HALVED_QUADS, TURNED_PLAIN_QUADS = (
    tuple(replace(dot, name=f"{dot.name}_turned", left=dot.weights, weights=dot.left) for dot in dots)
    for dots in (QUADS, HALVED_QUADS, (PLAIN_QUADS,))
)
"""The same with a weight that is broadcast to the codes of some pixels."""

ROUNDING = Dot("ts_bf16_round_16", 16, "float32", BITS, "", 1.0, ROUND)
"""A vector of float32 as bits of bfloat16: two micro-operations with AVX512_BF16; any AVX-512 will do."""

ALL = (
    PAIRS,
    *WIDENED_PAIRS,
    *QUADS,
    *HALVED_QUADS,
    PLAIN_QUADS,
    *TURNED_QUADS,
    *TURNED_HALVED_QUADS,
    *TURNED_PLAIN_QUADS,
)


@dataclass(frozen=True)
class RowDot(Dot):
    """How a CPU multiplies words of pixels below one another, ``left``, for two rows of a 3×3 depthwise convolution.

    Attributes:
        columns: columns of the kernel that it goes through.
        plain: a lane is a column of a plain map, and the weights are broadcast; else a lane is a channel.
    """

    columns: int = 1
    plain: bool = False

    @property
    def step_operations(self) -> float:
        """The same; a nest sees a step for each row of the kernel, which share a lane."""
        return math.ceil(ROWS_OF_WORDS / self.group) * self.group * self.operations / ROWS_OF_WORDS


ROW_WORDS = (
    RowDot("ts_bf16_rows_16", 16, BITS, BITS, "bf16_dot", 0.5, DPBF16PS),
    RowDot("ts_i8_rows_16", 16, CODES, WEIGHTS, "i8_dot", 0.25, columns=3),
    RowDot("ts_bf16_plane_16", 16, BITS, BITS, "bf16_dot", 0.5, DPBF16PS, plain=True),
    RowDot("ts_i8_plane_16", 16, CODES, WEIGHTS, "i8_dot", 0.25, columns=3, plain=True),
)
"""Words of bits for each column of the kernel: sums are float32. Words of codes for all columns, in int32 at first."""
BY_NAME = {dot.name: dot for dot in (*ALL, *ROW_WORDS)}


_REGISTERING = threading.Lock()


def register(name: str) -> None:
    """Make an intrinsic known to TVM, as an exported folder's script does; calls after the first are free."""
    with _REGISTERING:
        _register(name)


@functools.cache
def _register(name: str) -> None:
    script().register_intrinsics(metaschedule.intrinsics({name}))
