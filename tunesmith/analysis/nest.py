"""What a sketch makes of a workload: loop nests whose extents depend on the decisions.

Plain data. A nest says nothing of how it was found, and nothing here needs a compiler.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass


class Kind(enum.Enum):
    """How a loop runs."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTOR = "vector"
    UNROLLED = "unrolled"


@dataclass(frozen=True, order=True)
class Factor:
    """A number that a knob decides: part ``part`` of a tile, or the table's value of a category."""

    knob: int
    part: int = 0


@dataclass(frozen=True)
class Product:
    """``scale`` times some factors."""

    scale: int = 1
    factors: tuple[Factor, ...] = ()


@dataclass(frozen=True)
class Term:
    """An index moves ``stride`` places with each of ``count`` steps."""

    stride: int
    count: Product


@dataclass(frozen=True)
class Extent:
    """How many places a sum of terms takes: ``ceil(min(most, 1 + sum(stride * (count - 1))) / per)``.

    A plain product has one term of stride 1.

    Attributes:
        most: a limit; 0 for none.
        per: what another loop of the same axis takes of it.
    """

    terms: tuple[Term, ...]
    most: int = 0
    per: Product = Product()

    @classmethod
    def of(cls, count: Product) -> Extent:
        """A plain product."""
        return cls((Term(1, count),))


@dataclass(frozen=True)
class Loop:
    """A loop of a block.

    Attributes:
        number: the loop's own; blocks that share a loop have the same number.
        axes: which of the block's axes it moves, that of the outermost loop first where loops were fused.
        reduction: it moves an axis that is summed over.
        single: true if the body is one statement, another loop or a block.
        shared: another block inside of it sums over it.
    """

    number: int
    extent: Extent
    axes: tuple[int, ...]
    kind: Kind = Kind.SERIAL
    reduction: bool = False
    single: bool = True
    shared: bool = False


@dataclass(frozen=True)
class Index:
    """One dimension of an access: ``sum(stride * axis) // divide % modulo``, and ``width`` places from there.

    Attributes:
        strides: (axis, stride) pairs.
        modulo: 0 for none.
    """

    strides: tuple[tuple[int, int], ...]
    divide: int = 1
    modulo: int = 0
    width: int = 1


@dataclass(frozen=True)
class Buffer:
    """A tensor.

    Attributes:
        shape: 0 for a dimension that decisions change.
        local: it is of one thread, and as large as what is in use at a time: registers or the first cache hold it.
    """

    name: str
    shape: tuple[int, ...]
    element_bytes: int
    local: bool = False


@dataclass(frozen=True)
class Access:
    """How a block reads or writes a buffer; ``indices`` has one entry for each of its dimensions."""

    buffer: int
    indices: tuple[Index, ...]


@dataclass(frozen=True)
class Block:
    """A statement and the loops around it.

    Attributes:
        axes: extents of its axes; 0 where decisions change them.
        loops: outermost first, those that it shares with other blocks included.
        write: what it writes.
        reads: what it reads, without what an update reads of its own result.
        operations: arithmetic instructions of one iteration; a multiply-add is one.
        calls: calls of scalar library functions (exp, erf, …) of one iteration.
        conditions: for each value of an iteration that is read only where a condition holds, the axes of the condition.
        update: it adds to what it writes.
        dotted: by an instruction for narrow products.
        in_tiles: by one of a matrix unit, which keeps results in registers of its own.
    """

    name: str
    axes: tuple[int, ...]
    loops: tuple[Loop, ...]
    write: Access
    reads: tuple[Access, ...]
    operations: float
    calls: float = 0.0
    conditions: tuple[tuple[int, ...], ...] = ()
    update: bool = False
    dotted: bool = False
    in_tiles: bool = False


@dataclass(frozen=True)
class Marks:
    """What is left to TVM's ``RewriteParallelVectorizeUnroll``.

    Attributes:
        parallel: outer loops are fused and run in parallel until their extents multiply to more than this.
        vector: inner loops are fused and vectorised while their extents multiply to at most this.
        unroll: loops whose bodies have at most so many steps are unrolled.
    """

    parallel: int = 0
    vector: int = 0
    unroll: Product = Product(0)


@dataclass(frozen=True)
class Nest:
    """All blocks of a scheduled workload, in the order in which they run.

    Attributes:
        tables: for each knob that is a category, what its choices stand for; empty for tiles.
        marks: None where the loops say how they run.
    """

    blocks: tuple[Block, ...]
    buffers: tuple[Buffer, ...]
    tables: tuple[tuple[int, ...], ...] = ()
    marks: Marks | None = None

    @functools.cached_property
    def around(self) -> dict[int, frozenset[int]]:
        """For each buffer that one block writes and another reads, the numbers of the loops around all of them.

        A tensor and what is seen of it in lanes are two buffers of one name.
        """
        written, read = dict[str, list[Block]](), dict[str, list[Block]]()
        for block in self.blocks:
            written.setdefault(self.buffers[block.write.buffer].name, []).append(block)
            for name in {self.buffers[access.buffer].name for access in block.reads}:
                read.setdefault(name, []).append(block)
        found = {}
        for at, buffer in enumerate(self.buffers):
            users = [*written.get(buffer.name, ()), *read.get(buffer.name, ())]
            if buffer.name in written and buffer.name in read:
                found[at] = frozenset.intersection(*(frozenset(loop.number for loop in each.loops) for each in users))
        return found
