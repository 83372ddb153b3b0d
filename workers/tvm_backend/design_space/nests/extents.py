"""Extents of a program's loops as functions of the decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tunesmith.analysis.nest import Block, Extent, Index, Product, Term
from tunesmith.analysis.shape import Values, extent, product
from tunesmith.types import Decision
from workers.tvm_backend.design_space.nests.errors import AmbiguousError, NotUnderstoodError
from workers.tvm_backend.design_space.nests.expressions import key
from workers.tvm_backend.design_space.nests.program import Program, structure
from workers.tvm_backend.design_space.nests.trace_loops import UNKNOWN, Tag, Tags

ENOUGH = 8
"""Replays that show a loop's steps; two parts of tiles that were equal in all of them are as good as the same."""


def common_sizes(sizes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The sizes on which several replays agree; 0 for others."""
    return tuple(same[0] if len(set(same)) == 1 else 0 for same in zip(*sizes, strict=True))


def resolve(
    programs: Sequence[Program],
    tags: Tags,
    decisions: Sequence[Sequence[Decision]],
    hints: Mapping[int, Extent] = MappingProxyType({}),
) -> Mapping[int, Extent]:
    """Extents by the loops' numbers.

    Args:
        programs: programs of some replays; the tags are those of the first.
        hints: what the same loops follow in another workload, which settles what the replays leave open.

    Raises:
        NotUnderstoodError: the programs are of different structure, or a loop is neither what the trace says of it,
            nor the same in all, nor what another block needs, nor a part of a tile.
    """
    if any(structure(program.bare) != structure(programs[0].bare) for program in programs):
        raise NotUnderstoodError("decisions change which loops there are")
    solver = _Solver(programs, tags, [tags.values(each) for each in decisions], hints)
    return solver.solve()


class _Solver:
    def __init__(
        self, programs: Sequence[Program], tags: Tags, values: Sequence[Values], hints: Mapping[int, Extent]
    ) -> None:
        self._program, self._values, self._hints = programs[0], values, hints
        self._real = [
            {loop.number: loop.extent for place in program.places for loop in place.loops} for program in programs
        ]
        self._tags = {
            loop.number: tags.loops.get(key(loop.variable), UNKNOWN)
            for place in programs[0].places
            for loop in place.loops
        }
        self._sizes = [
            common_sizes([program.bare[at].axes for program in programs]) for at in range(len(self._program.bare))
        ]
        self.found: dict[int, Extent] = {}

    def solve(self) -> Mapping[int, Extent]:
        for number, tag in self._tags.items():
            self._accept(number, self._tagged(number, tag))
        for number in self._left():
            if not self._inner(number):
                self._accept(number, Extent.of(Product(self._real[0][number])))
            elif self._undivided(number) and self._copies(number) == [Product(self._real[0][number])]:
                self.found[number] = Extent.of(Product(self._real[0][number]))
        self._cover()
        while left := self._left():
            self._copy(left[0])
            self._cover()  # what it copies may be all that others cover
        return self.found

    def _cover(self) -> None:
        """Loops of blocks that are computed at others', as long as one settles the next."""
        before = -1
        while before < len(self.found) < len(self._tags):
            before = len(self.found)
            for at, block in enumerate(self._program.bare):
                for loop in block.loops[self._attached(at)[0] :]:
                    if loop.number not in self.found:
                        self._covering(at, loop.number)

    def _copy(self, number: int) -> None:
        """A loop that has as many steps as a part of a tile, or always the same, and no two of these."""
        steps, fits = [real[number] for real in self._real], self._copies(number)
        if not fits:
            raise NotUnderstoodError(f"nothing says why loop {number} has {steps} steps")
        hint = self._hints.get(number)
        hinted = [fit for fit in fits if hint is not None and fit.factors == hint.terms[0].count.factors]
        if len(fits) > 1 and len(steps) < ENOUGH and not hinted:
            raise AmbiguousError(f"loop {number} has {steps} steps for more than one reason")
        self.found[number] = Extent.of((hinted or fits)[0])

    def _copies(self, number: int) -> list[Product]:
        """What a loop's steps could be: always the same, or a part of a tile."""
        guesses = [Product(self._real[0][number]), *(Product(1, (factor,)) for factor in self._values[0])]
        return [guess for guess in guesses if self._fits(number, Extent.of(guess))]

    def _undivided(self, number: int) -> bool:
        """Whether a loop alone moves an axis that is summed over, as a window's do: no decision says how far."""
        return any(
            loop.number == number
            and loop.reduction
            and len(loop.axes) == 1
            and sum(loop.axes[0] in other.axes for other in block.loops) == 1
            for block in self._program.bare
            for loop in block.loops
        )

    def _left(self) -> list[int]:
        return [number for number in self._tags if number not in self.found]

    def _accept(self, number: int, guess: Extent | None) -> bool:
        """Keep a guess that all programs bear out."""
        if guess is None or not self._fits(number, guess):
            return False
        self.found[number] = guess
        return True

    def _fits(self, number: int, guess: Extent) -> bool:
        return all(
            float(extent(values, guess, 1)[0]) == real[number]
            for values, real in zip(self._values, self._real, strict=True)
        )

    def _tagged(self, number: int, tag: Tag) -> Extent | None:
        """A product of factors, and of a constant where the trace does not say all."""
        if tag.complete:
            return Extent.of(tag.product)
        if not tag.product.factors:
            return None
        scale, left = divmod(self._real[0][number], int(product(self._values[0], tag.product, 1)[0]))
        return None if left else Extent.of(Product(scale * tag.product.scale, tag.product.factors))

    def _attached(self, at: int) -> tuple[int, list[int]]:
        """How many loops a block shares with others, and the blocks that share all of these."""
        mine = [loop.number for loop in self._program.bare[at].loops]
        shared = []
        for other, block in enumerate(self._program.bare):
            theirs = [loop.number for loop in block.loops]
            same = next(
                (i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs))
            )
            shared.append(same if other != at else 0)
        most = max(shared, default=0)
        return most, [other for other, count in enumerate(shared) if count == most and most]

    def _inner(self, number: int) -> bool:
        """Whether a loop stands below others that its block shares with another block."""
        for at, block in enumerate(self._program.bare):
            shared = self._attached(at)[0]
            if shared and number in [loop.number for loop in block.loops[shared:]]:
                return True
        return False

    def _covering(self, at: int, number: int) -> None:
        """A loop of a block that is computed at another's: it covers what one of them makes and the other takes."""
        block = self._program.bare[at]
        shared, others = self._attached(at)
        (loop,) = [loop for loop in block.loops if loop.number == number]
        own = block.loops[shared:]
        for axis in loop.axes:
            rest = [each for each in own if axis in each.axes and each.number != number]
            beside = self._counts(each.number for each in rest)
            for other in others:
                for mine, theirs in self._meetings(block, self._program.bare[other]):
                    guess = self._span(self._sizes[at][axis], axis, mine, theirs, (other, shared), beside)
                    if self._accept(number, guess):
                        return

    def _span(
        self, size: int, axis: int, mine: Index, theirs: Index, there: tuple[int, int], beside: Product | None
    ) -> Extent | None:
        """What ``theirs`` covers while the inner loops of the other block run, as steps of a loop of ``axis``."""
        if mine.strides != ((axis, 1),) or beside is None:
            return None
        other, shared = there
        terms = []
        for moved, stride in theirs.strides:
            inner = self._counts(loop.number for loop in self._program.bare[other].loops[shared:] if moved in loop.axes)
            if inner is None:
                return None
            terms.append(Term(abs(stride), inner))
        if theirs.width > 1:
            terms.append(Term(theirs.width - 1, Product(2)))  # two steps: the first place and the last
        divide = theirs.divide // mine.divide if theirs.divide % mine.divide == 0 else 1
        limits = [limit for limit in (size, 0 if mine.modulo else theirs.modulo) if limit]
        most = min(limits, default=0)
        return self._plain(Extent(tuple(terms), most * divide, Product(divide * beside.scale, beside.factors)))

    def _plain(self, wanted: Extent) -> Extent:
        """The same as a plain product, where it is one whatever is decided: others may cover what it covers."""
        (term, *more), per = wanted.terms, wanted.per
        if more or term.stride != 1 or per.factors or term.count.scale % per.scale:
            return wanted
        if wanted.most and self._most(term.count) > wanted.most:
            return wanted
        return Extent.of(Product(term.count.scale // per.scale, term.count.factors))

    def _most(self, count: Product) -> float:
        """What a product of parts of tiles can be at most: the tiles whole."""
        knobs = {factor.knob for factor in count.factors}
        parts = [value for factor, value in self._values[0].items() if factor.knob in knobs]
        return count.scale * math.prod(float(value[0]) for value in parts)

    def _counts(self, numbers: Any) -> Product | None:
        """The product of some loops' extents; None when one is no plain product, or not known."""
        out = Tag(Product(), True)
        for number in numbers:
            known = self.found.get(number)
            if known is None or known != Extent.of(known.terms[0].count if known.terms else Product()):
                return None
            out = out * Tag(known.terms[0].count, True)
        return out.product

    def _meetings(self, a: Block, b: Block) -> list[tuple[Index, Index]]:
        """Pairs of dimensions in which two blocks access the same tensor."""
        tensors = self._program.tensors
        return [
            (x, y)
            for mine in (a.write, *a.reads)
            for theirs in (b.write, *b.reads)
            if tensors[mine.buffer] == tensors[theirs.buffer]
            for x, y in zip(mine.indices, theirs.indices, strict=False)  # what shares a lane is left out
        ]
