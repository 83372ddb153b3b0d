"""Which axes each loop moves. Of a loop of one step TVM does not tell, and another candidate's may have more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tunesmith.analysis.nest import Block, Extent, Loop
from workers.tvm_backend.design_space.nests.program import Program, sharing, structure


def told_by_all(
    programs: Sequence[Program], extents: Mapping[int, Extent], other: Sequence[Block] = ()
) -> tuple[Block, ...]:
    """The blocks of the first program, each loop with the most axes that it moves in any, and all loops with their
    extents.

    Args:
        programs: programs of the same structure.
        extents: extents of the loops, by their numbers.
        other: blocks of another workload's nest of the same trace.
    """
    known = [program.bare for program in programs]
    if structure(other) == structure(known[0]):
        known.append(tuple(other))
    single = {
        loop.number
        for places in zip(*(program.places for program in programs), strict=True)
        for loop, *more in zip(*(place.loops for place in places), strict=True)
        if max(each.extent for each in (loop, *more)) == 1
    }
    blocks = [_most(same, extents) for same in zip(*known, strict=True)]
    for at in reversed(range(len(blocks))):  # what makes something comes before what takes it
        blocks[at] = _handed_on(blocks[at], blocks, programs[0].tensors, single)
    return sharing(blocks)


def _most(same: Sequence[Block], extents: Mapping[int, Extent]) -> Block:
    loops = [max(each, key=lambda loop: len(loop.axes)) for each in zip(*(block.loops for block in same), strict=True)]
    return replace(same[0], loops=tuple(replace(loop, extent=extents[loop.number]) for loop in loops))


def _handed_on(block: Block, blocks: Sequence[Block], tensors: Sequence[int], single: set[int]) -> Block:
    """The block, those of its loops that had one step in each program with the axes by which it follows another."""

    def followed(loop: Loop) -> tuple[int, ...]:
        found = loop.axes
        for other in blocks if loop.number in single else ():
            (theirs, *_) = (*(each.axes for each in other.loops if each.number == loop.number), ())
            axes = tuple(dict.fromkeys(axis for moved in theirs for axis in _same(block, other, moved, tensors)))
            found = max(found, axes, key=len)
        return found

    return replace(block, loops=tuple(replace(loop, axes=followed(loop)) for loop in block.loops))


def _same(block: Block, other: Block, moved: int, tensors: Sequence[int]) -> Iterator[int]:
    """Axes of a block that go with one of another's, in what one of them makes and the other takes."""
    made = [(block.write, read) for read in other.reads] + [(read, other.write) for read in block.reads]
    for mine, theirs in made:
        if tensors[mine.buffer] == tensors[theirs.buffer]:
            for x, y in zip(mine.indices, theirs.indices, strict=False):  # what shares a lane is left out
                if len(x.strides) == 1 and not y.modulo and moved in dict(y.strides):
                    yield x.strides[0][0]
