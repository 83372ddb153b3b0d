"""Instructions of a matrix unit (AMX): a tile of accumulators plus the product of a tile of rows and one of columns.

The accumulators stay in the unit's own registers over a reduction. A schedule sees a buffer for them, which nothing
ever stores to: three intrinsics clear a tile, add to it, and write it to memory; its place in the buffer is its number.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.codes import CODES, WEIGHTS
from workers.tvm_backend.dot.intrinsics import GROUPS, SUMS, Dot
from workers.tvm_backend.dot.unit import ACCUMULATORS, COLUMNS, MAX_ROWS, MIN_ROWS

STEPS: Final = {BITS: (16, 8), WEIGHTS: (16, 8, 4)}
"""Lanes of a row of the left operand that is ``Rows.LANES``, by the type of the operand with the columns."""
BLOCK_STEPS: Final = {BITS: (16, 8), WEIGHTS: (16, 8, 4)}
"""The same of one that is ``Rows.BLOCK``."""
WINDOWS: Final = (3, 5, 7)
"""The same of one that is ``Rows.WINDOW``: pixels in a row of a convolution's kernel."""
PIXEL_STEPS: Final = (1, 2)
"""Pixels from one row to the next."""
CYCLES: Final = 16.0
"""Cycles of an instruction of full tiles, and of one with fewer steps (measured on Sapphire Rapids)."""

_PRODUCT: Final = {BITS: "tdpbf16ps", WEIGHTS: "tdpbusd"}
_WORD: Final = {BITS: "bf16", WEIGHTS: "i8"}


class Rows(enum.Enum):
    """What a row of the left operand is.

    Attributes:
        LANES: lanes of a row of a matrix, what shares one in a dimension of its own.
        BLOCK: the block of channels of a pixel.
        WINDOW: pixels of a row that has one lane each, as many as a kernel is wide; neighbours overlap.
    """

    LANES = ""
    BLOCK = "_block"
    WINDOW = "_window"


@dataclass(frozen=True)
class MatrixDot(Dot):
    """A product of tiles.

    Attributes:
        rows: rows of the tile of accumulators.
        steps: lanes of the reduction.
        left_rows: what a row of the left operand is.
        step: pixels from one row to the next, where rows are of pixels.
    """

    rows: int = MAX_ROWS
    steps: int = MAX_ROWS
    left_rows: Rows = Rows.LANES
    step: int = 1

    @property
    def function(self) -> str:
        """Name of LLVM's function."""
        return f"ts_amx_{_WORD[self.weights]}"

    @property
    def zero(self) -> str:
        """Name of what clears a tile."""
        return f"ts_amx_{SUMS[self.weights]}_zero_r{self.rows}_k{self.steps}"

    @property
    def store(self) -> str:
        """Name of what writes a tile to memory."""
        return f"ts_amx_{SUMS[self.weights]}_store_r{self.rows}"


def _dots() -> Iterator[MatrixDot]:
    for weights, left, needs in ((BITS, BITS, "bf16_tiles"), (WEIGHTS, CODES, "i8_tiles")):
        text = helper(weights)
        kinds = [
            *((Rows.LANES, 1, steps) for steps in STEPS[weights]),
            *((Rows.BLOCK, step, steps) for step in PIXEL_STEPS for steps in BLOCK_STEPS[weights]),
            *((Rows.WINDOW, step, steps) for step in PIXEL_STEPS for steps in WINDOWS),
        ]
        for (kind, step, steps), rows in itertools.product(kinds, range(MIN_ROWS, MAX_ROWS + 1)):
            name = f"ts_amx_{_WORD[weights]}{kind.value}{step if step > 1 else ''}_r{rows}_k{steps}"
            # A core starts two instructions a cycle, and one of these takes the place of all in its cycles.
            operations = 2 * CYCLES / (rows * steps * GROUPS[weights])
            yield MatrixDot(name, COLUMNS, left, weights, needs, operations, text, rows, steps, kind, step)


def helper(weights: str) -> str:
    """LLVM's text of the functions that the intrinsics call, for operands of a type.

    A tile's number is a constant wherever they are called, so that LLVM keeps one case of each. The operating system
    gives leave once a process (``arch_prctl``); a thread's configuration is compared before it is set, which takes
    longer, and also found where another library has set its own.
    """
    product = _PRODUCT[weights]
    return _HEAD.replace("PRODUCT", product) + "".join(
        (
            _function("ts_amx_zero", "i32 %rows, i32 %steps", _CONFIGURE, "tilezero(i8 TILE)"),
            _function("ts_amx_store", "ptr %c, i64 %s", "", "tilestored64(i8 TILE, ptr %c, i64 %s)"),
            _function(f"ts_amx_{_WORD[weights]}", _OPERANDS, _LOAD, f"{product}(i8 TILE, i8 6, i8 7)"),
        )
    )


def _function(name: str, operands: str, first: str, call: str) -> str:
    tiles = range(ACCUMULATORS)
    cases = " ".join(f"i8 {tile}, label %t{tile}" for tile in tiles)
    calls = "".join(
        f"t{tile}:\n  call void @llvm.x86.{call.replace('TILE', str(tile))}\n  br label %end\n" for tile in tiles
    )
    return (
        f"define void @{name}(i8 %t, {operands}) alwaysinline {{\n{first}  switch i8 %t, label %end [{cases}]\n"
        f"{calls}end:\n  ret void\n}}\n"
    )


"""LLVM's text of a function that rounds a vector, by an instruction where the CPU has one."""
_HEAD = """
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.sttilecfg(ptr)
declare void @llvm.x86.tilezero(i8 immarg)
declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)
declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)
declare void @llvm.x86.PRODUCT(i8 immarg, i8 immarg, i8 immarg)
@ts_amx_allowed = internal global i8 0
define internal void @ts_amx_configure(i32 %rows, i32 %steps) noinline {
  %allowed = load i8, ptr @ts_amx_allowed
  %is = icmp ne i8 %allowed, 0
  br i1 %is, label %compare, label %ask
ask:
  %r = call i64 asm sideeffect "syscall", "={ax},{ax},{di},{si},~{rcx},~{r11},~{memory}"(i64 158, i64 4131, i64 18)
  store i8 1, ptr @ts_amx_allowed
  br label %compare
compare:
  %now = alloca <64 x i8>, align 64
  %want = alloca <64 x i8>, align 64
  store <64 x i8> zeroinitializer, ptr %want
  store i8 1, ptr %want
  %bytes32 = shl i32 %steps, 2
  %bytes = trunc i32 %bytes32 to i16
  %columns = insertelement <8 x i16> <i16 64, i16 64, i16 64, i16 64, i16 64, i16 64, i16 0, i16 64>, i16 %bytes, i32 6
  %columnsat = getelementptr i8, ptr %want, i64 16
  store <8 x i16> %columns, ptr %columnsat
  %rows8 = trunc i32 %rows to i8
  %steps8 = trunc i32 %steps to i8
  %row = insertelement <8 x i8> zeroinitializer, i8 %rows8, i32 0
  %all = shufflevector <8 x i8> %row, <8 x i8> zeroinitializer, <8 x i32> zeroinitializer
  %each = insertelement <8 x i8> %all, i8 %steps8, i32 7
  %rowsat = getelementptr i8, ptr %want, i64 48
  store <8 x i8> %each, ptr %rowsat
  call void @llvm.x86.sttilecfg(ptr %now)
  %a = load <64 x i8>, ptr %now
  %b = load <64 x i8>, ptr %want
  %differ = icmp ne <64 x i8> %a, %b
  %bits = bitcast <64 x i1> %differ to i64
  %other = icmp ne i64 %bits, 0
  br i1 %other, label %set, label %done
set:
  call void @llvm.x86.ldtilecfg(ptr %want)
  br label %done
done:
  ret void
}
"""
_CONFIGURE = """  %first = icmp eq i8 %t, 0
  br i1 %first, label %configure, label %go
configure:
  call void @ts_amx_configure(i32 %rows, i32 %steps)
  br label %go
go:
"""
_OPERANDS = "i32 %first, ptr %a, i64 %as, ptr %b, i64 %bs"
_LOAD = """  %f = icmp ne i32 %first, 0
  br i1 %f, label %load, label %go
load:
  call void @llvm.x86.tileloadd64(i8 6, ptr %a, i64 %as)
  br label %go
go:
  call void @llvm.x86.tileloadd64(i8 7, ptr %b, i64 %bs)
"""

MATRIX: Final = tuple(_dots())
MATRIX_BY_NAME: Final = {dot.name: dot for dot in MATRIX}
STAGES: Final = {name: dot for dot in MATRIX for name in (dot.zero, dot.store)}
"""What clears a tile and what writes one, by their names."""
