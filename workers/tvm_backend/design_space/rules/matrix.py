"""Tiles of a matrix unit: which of them a product takes, and where a schedule puts its instructions.

A tile is some rows and sixteen columns. Some tiles side by side and below one another are accumulated together, so that
each tile of an operand is used for several; then they go to memory, where what follows reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel
from workers.tvm_backend.design_space.rules.registers import Tile, largest_divisor
from workers.tvm_backend.dot.marks import MARK
from workers.tvm_backend.dot.matrix import MATRIX, MatrixDot, Rows
from workers.tvm_backend.dot.unit import ACCUMULATORS, COLUMNS, MAX_ROWS, MIN_ROWS

GOOD_ROWS = 12
"""Rows from which a tile that divides them is taken rather than one that is padded."""
OFFERED = 2
"""Numbers of tiles that are offered."""
MIN_ACCUMULATORS = 4
"""Tiles from which an instruction need not wait for the one before: it starts every 16 cycles and takes 52."""


def dot_of_tiles(
    cpu: CpuModel, weights: str, rows: int, depth: int, kind: Rows = Rows.LANES, step: int = 1
) -> MatrixDot | None:
    """The instruction for tiles of some rows whose reductions have ``depth`` lanes; None where there is none.

    Args:
        weights: type of the operand with the columns.
        kind: what a row of the left operand is.
        step: pixels from one row to the next.
    """
    wanted = weights, rows, kind, step
    found = [dot for dot in MATRIX if (dot.weights, dot.rows, dot.left_rows, dot.step) == wanted and dot.runs_on(cpu)]
    fits = (dot for dot in found if depth % dot.steps == 0 and (kind is Rows.LANES or depth == dot.steps))
    return max(fits, key=lambda dot: dot.steps, default=None)


def rows_of_a_tile(rows: int) -> int:
    """Rows of the tiles that some rows are cut into, the last of them padded perhaps; 0 where they are too few."""
    whole = largest_divisor(rows, MAX_ROWS)
    if whole >= min(GOOD_ROWS, rows):
        return whole if whole >= MIN_ROWS else 0
    return MAX_ROWS


def blocks_of_tiles(rows: int, columns: int, whole: bool = False) -> list[Tile]:
    """How many tiles below and beside one another are accumulated together at most, the best first.

    Each tile of the left operand is loaded once for those beside one another, and each of the right one once for those
    below.

    Args:
        rows, columns: how many tiles there are below and beside one another.
        whole: no row is padded, so that those below one another divide ``rows``.
    """
    found = [
        Tile(below, beside)
        for below in range(1, min(rows, ACCUMULATORS) + 1)
        for beside in range(1, ACCUMULATORS // below + 1)
        if columns % beside == 0 and not (whole and rows % below)
    ]

    def loads(tile: Tile) -> float:
        padded = -(-rows // tile.scalars) * tile.scalars / rows
        return padded * (1 / tile.scalars + 1 / tile.vectors)

    best, *others = sorted(found, key=loads)
    return [best, *(tile for tile in others if tile.scalars * tile.vectors >= MIN_ACCUMULATORS)][:OFFERED]


@dataclass(frozen=True)
class TileLoops:
    """Loops of a product in tiles.

    Attributes:
        around: those over tiles, inside of the reduction.
        rows: that over the rows of a tile; those over columns, steps and what shares a lane are inside.
    """

    around: tuple[Any, ...]
    rows: Any


def in_tiles(
    sch: Schedule, block: Any, moved: Any, below: int, reduction: Any, loops: TileLoops, dot: MatrixDot
) -> None:
    """Mark what the unit's instructions take the place of: the product, clearing tiles, and moving them to memory.

    Args:
        block: the product, into the buffer of accumulators.
        moved: the stage that copies them, at its place.
        below: the dimension of that buffer in which the rows of a tile are; its last one has the columns.
        reduction: the outermost loop of the reduction.
    """
    for loop in loops.around:
        sch.unroll(loop)
    zero = sch.decompose_reduction(block, reduction)
    *outer, rows, _ = sch.get_loops(zero)[-len(loops.around) - 2 :]
    for loop in outer:
        sch.unroll(loop)
    sch.annotate(rows, MARK, dot.zero)
    sch.annotate(loops.rows, MARK, dot.name)
    own = sch.get_loops(moved)[-len(sch.get(moved).iter_vars) :]
    outer = [loop for at, loop in enumerate(own[:-1]) if at != below]
    tiles, rows = sch.split(own[below], [None, dot.rows], preserve_unit_iters=True)
    panels, columns = sch.split(own[-1], [None, COLUMNS], preserve_unit_iters=True)
    sch.reorder(*outer, tiles, panels, rows, columns)
    for loop in (*outer, tiles, panels):
        sch.unroll(loop)
    sch.annotate(rows, MARK, dot.store)
