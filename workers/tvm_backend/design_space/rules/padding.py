"""Where and how a padded copy of a feature map is made."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule


def copies(sch: Schedule, block: Any) -> list[str]:
    """Names of the blocks that pad or widen what ``block`` reads; those that do neither are inlined."""
    found = []
    for producer in sch.get_producers(block):
        made = sch.get(producer)
        before, after = (
            (str(region.source.dtype), *map(int, region.source.shape)) for region in (made.reads[0], made.writes[0])
        )
        if before == after:
            sch.compute_inline(producer)
        else:
            found.append(str(made.name_hint))
    return found


def place(sch: Schedule, copy: Any, vector: int, threads: Any | None) -> None:
    """Schedule the block that pads a feature map, its innermost axes lying one after the other in memory.

    Args:
        copy: the block.
        vector: floats of a register.
        threads: the parallel loop inside which each thread pads what it needs; None for all of it beforehand.
    """
    if threads is not None:
        sch.compute_at(copy, threads, preserve_unit_loops=True)
    *outer, rows, _, lane = sch.get_loops(copy)[-len(sch.get(copy).iter_vars) :]
    if int(sch.get(lane).extent) % vector == 0:
        sch.vectorize(lane)
    if threads is None:
        sch.parallel(sch.fuse(*outer, rows))
