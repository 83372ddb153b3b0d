"""Tensor intrinsics: one register of accumulators plus products of bfloat16 pairs.

``C[l] += A[0] * B[l, 0] + A[1] * B[l, 1]`` for each lane, B being bits and A bits or float32. A trace names them, so a
process that replays one, or so much as opens a MetaSchedule database with it, registers them first.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tunesmith import metaschedule
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


@dataclass(frozen=True)
class Dot:
    """How a CPU multiplies pairs.

    Attributes:
        name: the intrinsic's name; it is part of traces and stays for ever.
        lanes: float32 lanes of its register.
        helper: LLVM's text that the kernel imports; empty where it needs none.
        operations: arithmetic instructions for each multiply-add of a vector.
    """

    name: str
    lanes: int
    helper: str
    operations: float

    @property
    def takes_bits(self) -> bool:
        """Whether both operands are bits; else the one that is broadcast is float32."""
        return bool(self.helper)


NATIVE = Dot("ts_bf16_dot_16", 16, DPBF16PS, 0.5)
"""AVX512_BF16: one instruction for both products."""
WIDENING = {lanes: Dot(f"ts_bf16_widen_{lanes}", lanes, "", 1.1) for lanes in (4, 8, 16)}
"""By lanes: two float32 multiply-adds, of a value that was widened before and a weight that is widened in registers."""

BY_NAME = {dot.name: dot for dot in (NATIVE, *WIDENING.values())}


_REGISTERING = threading.Lock()


def register() -> None:
    """Make the intrinsics known to TVM, as an exported folder's script does; calls after the first are free."""
    with _REGISTERING:
        script().register_intrinsics(metaschedule.INTRINSICS)
