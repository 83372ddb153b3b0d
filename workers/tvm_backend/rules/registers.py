"""How large a tile of accumulators the vector registers hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.s_tir import Schedule

from workers.tvm_backend.rules.machine import Machine

SLACK = 1.2
"""A tile this much beyond the registers is still offered: operands can stay in memory."""
MOST_VECTORS = 8
PAIR = 2
"""Vectors that are always offered together: a value that is loaded once is then used twice."""


def accumulators(machine: Machine) -> int:
    """Registers of accumulators that a tile may have."""
    return int(SLACK * machine.registers)


@dataclass(frozen=True)
class Tile:
    """The largest factors of a tile's two sides.

    Attributes:
        scalars: values of the operand that is broadcast, such as rows of a product or pixels of a row.
        vectors: vectors of the operand that is loaded whole, such as panels or blocks of output channels.
    """

    scalars: int
    vectors: int


def tile(budget: int, scalars: int, vectors: int, most: int) -> Tile:
    """Limits of a tile's sides.

    Args:
        budget: accumulators.
        scalars, vectors: the extents that the sides divide.
        most: scalars at most.
    """
    limit = largest_divisor(scalars, min(most, budget))
    return Tile(limit, max(min(PAIR, vectors), min(MOST_VECTORS, budget // limit)))


def largest_divisor(extent: int, limit: int) -> int:
    """Of ``extent``, up to ``limit``."""
    return next(factor for factor in range(min(extent, limit), 0, -1) if extent % factor == 0)

def innermost(sch: Schedule, block: Any, count: int) -> None:
    """Vectorise the innermost loop around a block, and unroll those of the ``count`` innermost that are outside of it.

    To be called before a reduction is split from its initialisation: afterwards TVM no longer knows it for one.
    """
    *unrolled, lane = sch.get_loops(block)[-count:]
    sch.vectorize(lane)
    for loop in unrolled:
        sch.unroll(loop)

