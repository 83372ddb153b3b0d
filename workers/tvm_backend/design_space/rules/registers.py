"""How large a tile of accumulators the vector registers hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.s_tir import Schedule

from tunesmith.analysis.cpu_model import CpuModel


def accumulators(cpu: CpuModel) -> int:
    """Registers of accumulators that a tile may have."""
    return int(cpu.tile_slack * cpu.registers)


@dataclass(frozen=True, order=True)
class Tile:
    """The largest factors of a tile's two sides.

    Attributes:
        scalars: values of the operand that is broadcast, such as rows of a product or pixels of a row.
        vectors: vectors of the operand that is loaded whole, such as panels or blocks of output channels.
    """

    scalars: int
    vectors: int


def tile(cpu: CpuModel, scalars: int, vectors: int) -> Tile:
    """Limits of the sides of a convolution's tile.

    Args:
        scalars, vectors: the extents that the sides divide.
    """
    budget = accumulators(cpu)
    limit = largest_divisor(scalars, min(cpu.max_pixels, budget))
    return Tile(limit, max(min(cpu.paired_vectors, vectors), min(cpu.max_vectors, budget // limit)))


def row_tiles(cpu: CpuModel, columns: int, vectors: int) -> list[Tile]:
    """The tiles of a row of pixels that promise most, two at most, the best first; ``scalars`` is then exact.

    They need not divide the row: the last tile has what is left, and its code tests for it. A loaded value is used for
    ``paired_vectors`` or more where there are so many.

    Args:
        columns: pixels of the row.
        vectors: vectors of a pixel.
    """
    tiles = {
        Tile(tile.scalars, largest_divisor(vectors, tile.vectors))
        for tile in _fitting(cpu, 1, columns)
        if min(cpu.paired_vectors, vectors) <= tile.vectors
    }
    priced = sorted((_row_price(cpu, tile, columns), tile) for tile in tiles)
    return [tile for price, tile in priced[:2] if price <= cpu.offer_margin * priced[0][0]]


def pixel_tiles(
    cpu: CpuModel, columns: int, vectors: int, exact: bool, least_rows: int = 1
) -> Iterator[tuple[Tile, int]]:
    """Tiles of a convolution's pixels, and how many rows of pixels each may have.

    Args:
        columns: pixels of a row.
        vectors: vectors of a pixel.
        exact: tiles have as many columns as they say, and need not divide the row; else they are limits.
        least_rows: rows that are offered in any case where tiles are limits.
    """
    if exact:
        for found in row_tiles(cpu, columns, vectors):
            yield found, max(1, (cpu.registers - 1 - found.vectors) // (found.scalars * found.vectors))
        return
    limits = tile(cpu, columns, vectors)
    taken = limits.scalars * largest_divisor(vectors, limits.vectors)
    yield limits, max(least_rows, accumulators(cpu) // taken)


def product_tiles(cpu: CpuModel, registers: int, rows: int, panels: int, whole: bool = False) -> list[Tile]:
    """The tiles of a product that promise most, two at most, the best first; ``scalars`` is then exact.

    A step of the reduction multiplies ``rows x panels`` vectors and loads ``rows`` values and ``panels`` vectors; rows
    that pad the last tile are computed for nothing, and padding them has a price of its own.

    Args:
        registers: that a panel is wide.
        rows, panels: rows and panels of the product.
        whole: only tiles that divide the rows.
    """
    tiles = [tile for tile in _fitting(cpu, registers, rows) if not whole or rows % tile.scalars == 0]
    priced = sorted((_price(cpu, tile, rows, panels), tile) for tile in tiles)
    return [tile for price, tile in priced[:2] if price <= cpu.offer_margin * priced[0][0]]


@dataclass(frozen=True, order=True)
class Box:
    """A tile of a product whose rows are a grid.

    Attributes:
        rows, columns: rows and columns of the grid, exactly.
        vectors: panels at most.
    """

    rows: int
    columns: int
    vectors: int


def boxes(cpu: CpuModel, registers: int, rows: int, columns: int, panels: int) -> list[Box]:
    """Like ``product_tiles``, of those that divide a grid of ``rows x columns`` into boxes, wide ones first."""
    priced = []
    for tile in _fitting(cpu, registers, rows * columns):
        shapes = [(tile.scalars // wide, wide) for wide in range(1, tile.scalars + 1) if tile.scalars % wide == 0]
        fits = [(high, wide) for high, wide in shapes if rows % high == 0 and columns % wide == 0]
        if fits:
            priced.append((_price(cpu, tile, rows * columns, panels), Box(*fits[-1], tile.vectors)))
    priced.sort()
    return [box for price, box in priced[:2] if price <= cpu.offer_margin * priced[0][0]]


def _fitting(cpu: CpuModel, registers: int, rows: int) -> list[Tile]:
    """Tiles whose accumulators and operands are in registers; a single row where nothing fits."""
    free = (cpu.registers - 1) // registers
    most = min(rows, cpu.max_tile_rows, free - 1)
    found = [Tile(n, min(cpu.max_vectors, free // (n + 1))) for n in range(1, most + 1)]
    return found or [Tile(1, 1)]


def _price(cpu: CpuModel, tile: Tile, rows: int, panels: int) -> float:
    """Time, in multiply-adds for each panel and step."""
    vectors = largest_divisor(panels, tile.vectors)
    padded = -(-rows // tile.scalars) * tile.scalars
    return padded * _step_price(cpu, tile.scalars, vectors) * (1 if padded == rows else cpu.row_padding)


def _row_price(cpu: CpuModel, tile: Tile, columns: int) -> float:
    """Like ``_price``, of a row whose last tile has what is left."""
    whole, left = divmod(columns, tile.scalars)
    price = whole * tile.scalars * _step_price(cpu, tile.scalars, tile.vectors)
    return price + (left * _step_price(cpu, left, tile.vectors) if left else 0.0)


def _step_price(cpu: CpuModel, scalars: int, vectors: int) -> float:
    """Time of a step for each of a tile's values, in multiply-adds."""
    idle = max(1.0, cpu.pipes * cpu.latency / (scalars * vectors))
    return idle + cpu.load_vector / scalars + cpu.load_value / vectors


def largest_divisor(extent: int, limit: int) -> int:
    """Largest divisor of ``extent``, up to ``limit``."""
    return next(factor for factor in range(min(extent, limit), 0, -1) if extent % factor == 0)


def split_in_two(sch: Schedule, loop: Any, inner: int, fixed: bool) -> list[Any]:
    """A loop in two, the inner one with ``inner`` steps if that is ``fixed``, else with as many as a knob says.

    A fixed number need not divide the loop; a knob's does, up to ``inner``.
    """
    parts = [None, inner] if fixed else sch.sample_perfect_tile(loop, 2, inner)
    return list(sch.split(loop, parts, preserve_unit_iters=True))


def in_vectors(sch: Schedule, loop: Any, lanes: int) -> list[Any]:
    """A loop in vectors of ``lanes`` or, where these leave a rest, in equal ones of up to twice as many."""
    extent = int(sch.get(loop).extent)
    length = lanes if extent % lanes == 0 else largest_divisor(extent, 2 * lanes)
    return list(sch.split(loop, [None, length], preserve_unit_iters=True))


def innermost(sch: Schedule, block: Any, count: int) -> None:
    """Vectorise the innermost loop around a block, and unroll those of the ``count`` innermost that are outside of it.

    To be called before a reduction is split from its initialisation: afterwards TVM no longer knows it for one.
    """
    *unrolled, lane = sch.get_loops(block)[-count:]
    sch.vectorize(lane)
    for loop in unrolled:
        sch.unroll(loop)
