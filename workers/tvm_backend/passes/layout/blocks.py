"""How many channels lie side by side in a feature map in blocks.

Sixteen are a register of floats, which suits vectors of any type. A tile of a matrix unit is sixteen 32-bit lanes deep:
32 channels of bfloat16, or 64 of bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm import relax

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.codes import WEIGHTS
from workers.tvm_backend.dot.intrinsics import GROUPS
from workers.tvm_backend.passes.layout.compute import LANES
from workers.tvm_backend.passes.layout.conv_problem import Convolution
from workers.tvm_backend.passes.layout.expressions import Binding, map_shape, operator

MIN_SPARED = 15
"""Blocks from which one more takes little time."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of a function's maps.

    Attributes:
        widest: channels of the largest block, a power of two.
    """

    widest: int = LANES

    def lanes(self, channels: int) -> int:
        """Channels of a block of a map: as many as divide its own, ``LANES`` where zeros are added."""
        return max(LANES, math.gcd(channels, self.widest))

    def of(self, found: Convolution) -> tuple[int, int]:
        """Channels of a block of a convolution's input, and of its result."""
        return self.lanes(found.source[1]), self.lanes(len(found.weight))


def computed_blocks(count: int, columns: int, cpu: CpuModel, blocks: Blocks = Blocks()) -> int:
    """Blocks of output channels that a narrow product computes: one more where its tile would have a single vector.

    A step with one vector loads a value for each multiplication, and CPUs load no faster than they multiply. It happens
    where neither the blocks nor the columns have small factors, as with 1000 channels and 13 columns.

    Args:
        count: blocks of the result.
        columns: columns of the result.
        blocks: those of the maps; a matrix unit has other tiles.
    """
    pixels = next(each for each in range(min(columns, cpu.max_pixels), 0, -1) if columns % each == 0)
    most = min(int(cpu.tile_slack * cpu.registers) // pixels, cpu.max_vectors)
    single = most > 1 and all(count % vectors for vectors in range(2, most + 1))
    return count + 1 if single and count >= MIN_SPARED and blocks.widest == LANES else count


def depth_of_tiles(bf16: bool) -> int:
    """Channels that a tile of a matrix unit is deep, of pairs of bfloat16 or of bytes."""
    return LANES * GROUPS[BITS if bf16 else WEIGHTS]


def joinable(bindings: list[Binding], most: int) -> Blocks:
    """The widest blocks, up to ``most`` channels, with which maps are joined and cut at the ends of blocks.

    Args:
        bindings: bindings of a straight-line function, in order.
    """
    fields = {var: list(value.fields) for var, value in bindings if isinstance(value, relax.Tuple)}
    for _, value in bindings if most > LANES else ():
        for channels in _ends(value, fields):
            most = max(LANES, math.gcd(channels, most))
    return Blocks(most)


def _ends(value: relax.Expr, fields: dict[relax.Var, list[relax.Expr]]) -> list[int]:
    """Channels of maps that are joined or gathered, or those in front of a cut and kept by it."""
    name = operator(value)
    if name == "relax.concat" and map_shape(value) is not None and int(value.attrs.axis or 0) % 4 == 1:
        joined = value.args[0]
        parts = fields.get(joined, []) if isinstance(joined, relax.Var) else list(getattr(joined, "fields", ()))
        found = [dims[1] for part in parts if (dims := map_shape(part)) is not None]
        return [] if any(each % LANES for each in found[:-1]) else found
    if name == "relax.strided_slice" and (dims := map_shape(value)) is not None:
        axes, begins = ([int(each) for each in field.fields] for field in value.args[1:3])
        return [dims[1], *map(abs, begins)] if axes == [1] and begins[0] % LANES == 0 else []
    if name == "relax.call_tir":
        maps = [dims for each in value.args[1].fields if (dims := map_shape(each)) is not None]
        return [dims[1] for dims in maps if dims[1] % LANES == 0]
    return []
