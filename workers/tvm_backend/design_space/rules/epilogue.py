"""What follows a reduction element by element: bias, activation, residual."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tvm.s_tir import Schedule


def foldable(sch: Schedule, block: Any) -> bool:
    """Whether all that follows ``block`` is element by element and ends in one result."""
    names = consumers(sch, block)
    followers = [sch.get_sblock(name) for name in names]
    made = [sch.get(each).writes[0].source for each in (block, *followers)]
    outputs = [str(sch.get(each).name_hint) for each in sch.get_output_blocks(sch.get_sblock("root"))]
    ends = [name for name in (str(sch.get(block).name_hint), *names) if name in outputs]
    return len(ends) == 1 and all(_elementwise(sch.get(each), made) for each in followers)


def fold(sch: Schedule, block: Any, apart: str | None = None) -> str | None:
    """Put everything that follows ``block`` into the last of those blocks; its name, None when nothing follows.

    ``foldable`` tells whether that can be done.

    Args:
        apart: the last stage, where it is to stay by itself.
    """
    ends = sch.get_output_blocks(sch.get_sblock("root")) if apart is None else sch.get_producers(sch.get_sblock(apart))
    outputs = [str(sch.get(each).name_hint) for each in ends]
    for name in _beside(sch, block):
        sch.compute_inline(sch.get_sblock(name))
    last = None
    for name in consumers(sch, block):
        if name in outputs:
            last = name
        elif name != apart:
            sch.compute_inline(sch.get_sblock(name))
    return last


def _beside(sch: Schedule, block: Any) -> list[str]:
    """Names of the blocks that only what follows reads, such as the reshape of a residual."""
    followers = consumers(sch, block)
    known = {str(sch.get(block).name_hint), *followers, *_reached(sch, block, sch.get_producers)}
    found = dict.fromkeys(
        name for follower in followers for name in _reached(sch, sch.get_sblock(follower), sch.get_producers)
    )
    return [name for name in found if name not in known]


def consumers(sch: Schedule, block: Any) -> list[str]:
    """Names of the blocks that follow, directly or not."""
    return _reached(sch, block, sch.get_consumers)


def _reached(sch: Schedule, block: Any, step: Callable[[Any], Iterable[Any]]) -> list[str]:
    """Names of the blocks that some steps from one block lead to."""
    found: dict[str, None] = {}
    left = list(step(block))
    while left:
        first = left.pop(0)
        name = str(sch.get(first).name_hint)
        if name not in found:
            found[name] = None
            left += step(first)
    return list(found)


def _elementwise(block: Any, made: list[Any]) -> bool:
    """Whether a block reads each of the buffers in ``made`` at the place that it writes, and nowhere else."""
    store = block.body
    if block.init is not None or type(store).__name__ != "BufferStore":
        return False
    variables = [each.var for each in block.iter_vars]
    if len(store.indices) != len(variables) or not _same(store.indices, variables):
        return False
    own = [region for region in block.reads if any(region.source.same_as(buffer) for buffer in made)]
    single = all(getattr(side.extent, "value", None) == 1 for region in own for side in region.region)
    return single and all(_same([side.min for side in region.region], variables) for region in own)


def _same(indices: Any, variables: list[Any]) -> bool:
    return len(indices) == len(variables) and all(
        index.same_as(variable) for index, variable in zip(indices, variables, strict=True)
    )
