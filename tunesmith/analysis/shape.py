"""A block's numbers for a batch of candidates: extents, ranges of axes, footprints, traffic.

Arrays hold one number per candidate, float64 [n]; nothing loops over candidates.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tunesmith.analysis.cpu_model import CpuModel
from tunesmith.analysis.nest import Access, Block, Buffer, Extent, Factor, Index, Kind, Loop, Nest, Product
from tunesmith.space.base import Bools, Floats, Ints
from tunesmith.space.knobs import Knob

Values = Mapping[Factor, Floats]


def values_of(nest: Nest, knobs: Sequence[Knob], choice: Ints) -> Values:
    """What the knobs decide: float64 [n] for each factor of the nest.

    Args:
        choice: int64 [n, at least len(knobs)], choice numbers.
    """
    found: dict[Factor, Floats] = {}
    for number, knob in enumerate(knobs):
        decided = knob.values(choice[:, number])
        table = nest.tables[number] if number < len(nest.tables) else ()
        if table:
            decided = np.array(table, dtype=np.int64)[decided]
        for part in range(decided.shape[1]):
            found[Factor(number, part)] = decided[:, part].astype(np.float64)
    return found


def product(values: Values, wanted: Product, n: int) -> Floats:
    """The product, float64 [n]."""
    out = np.full(n, float(wanted.scale)) if wanted.scale != 1 or not wanted.factors else values[wanted.factors[0]]
    for factor in wanted.factors[0 if wanted.scale != 1 else 1 :]:
        out = out * values[factor]
    return out


def extent(values: Values, wanted: Extent, n: int) -> Floats:
    """The extent, float64 [n]."""
    if len(wanted.terms) == 1 and wanted.terms[0].stride == 1 and not wanted.most and wanted.per == Product():
        return product(values, wanted.terms[0].count, n)
    out = np.ones(n)
    for term in wanted.terms:
        out += term.stride * (product(values, term.count, n) - 1.0)
    if wanted.most:
        np.minimum(out, wanted.most, out=out)
    if wanted.per != Product():
        out = np.ceil(out / product(values, wanted.per, n))
    return out


@dataclass(frozen=True)
class Footprint:
    """What loops touch of a buffer.

    Attributes:
        elements: distinct ones.
        bytes: bytes of the cache lines that hold them.
        pieces: how many parts of the buffer without a gap they make up.
    """

    elements: Floats
    bytes: Floats
    pieces: Floats


class Shape:
    """A block's numbers.

    Args:
        buffers: the nest's buffers.
        extents: float64 [loops, n].
        cpu: CPU whose cache lines count.
        around: for buffers between blocks, how many of the loops are around all of these blocks.

    Attributes:
        n: candidates.
        before: float64 [loops + 1, n], the product of the extents of all loops outside of each place.
    """

    def __init__(
        self, block: Block, buffers: Sequence[Buffer], extents: Floats, cpu: CpuModel, around: Mapping[int, int] = {}
    ) -> None:
        self.block, self.buffers, self.extents, self._line = block, buffers, extents, cpu.line_bytes
        self._around = around
        self._limits = [float(size or np.inf) for size in block.axes]
        self._along: dict[frozenset[int], Bools] = {}
        self.n = extents.shape[1]
        self.before = np.concatenate([np.ones((1, self.n)), np.cumprod(extents, axis=0)])

    @classmethod
    def make(cls, nest: Nest, block: Block, values: Values, n: int, cpu: CpuModel = CpuModel()) -> Shape:
        """From what the knobs decide. A parallel loop of several axes counts as a loop for each."""
        rows = [extent(values, loop.extent, n) for loop in block.loops]
        loops, rows = _unfused(block, rows, n)
        around = {
            buffer: sum(loop.number in numbers for loop in loops) for buffer, numbers in nest.around.items() if numbers
        }
        made = replace(block, loops=loops)
        return cls(made, nest.buffers, np.stack(rows) if rows else np.ones((0, n)), cpu, around)

    def around(self, buffer: int) -> int:
        """How many of the outermost loops have a buffer of their own in each step; 0: it is there for all of them."""
        return self._around.get(buffer, 0)

    @property
    def iterations(self) -> Floats:
        """How often the block runs."""
        return np.asarray(self.before[-1])

    def ranges(self, inside: Bools) -> Floats:
        """How many places of each axis some loops cover, float64 [axes, n].

        Args:
            inside: bool [loops, n], the loops.
        """
        return self.covered(np.where(inside, self.extents, 1.0))

    def covered(self, steps: Floats) -> Floats:
        """How many places of each axis some steps of the loops cover, float64 [axes, n].

        Args:
            steps: float64 [loops, n], of each loop.
        """
        out = np.ones((len(self.block.axes), self.n))
        for at in reversed(np.flatnonzero((steps > 1.0).any(axis=1)).tolist()):
            self._cover(out, at, steps[at])
        return out

    def _cover(self, ranges: Floats, at: int, steps: Floats) -> None:
        """Add what some steps of a loop cover to what the loops inside of it do.

        One of fused axes goes through the innermost of them first, and then moves the next one.
        """
        axes = self.block.loops[at].axes
        for axis in reversed(axes):
            reached = ranges[axis] * steps
            ranges[axis] = np.minimum(reached, self._limits[axis])
            if axis != axes[0]:
                steps = np.maximum(reached / ranges[axis], 1.0)

    @functools.cached_property
    def nested(self) -> Floats:
        """:meth:`ranges` of all loops from each place inwards, from all of them to none, float64 [places, axes, n]."""
        loops = self.block.loops
        out = np.ones((len(loops) + 1, len(self.block.axes), self.n))
        moves = set(np.flatnonzero((self.extents > 1.0).any(axis=1)).tolist())
        for at in reversed(range(len(loops))):
            out[at] = out[at + 1]
            if at in moves:
                self._cover(out[at], at, self.extents[at])
        return out

    def footprint(self, access: Access, ranges: Floats) -> Footprint:
        """What is touched while the axes take ``ranges``; contiguous dimensions share their lines.

        Args:
            ranges: float64 [..., axes, n]; what is found is [..., n].
        """
        buffer, ends = self.buffers[access.buffer], (*ranges.shape[:-2], self.n)
        elements, outer, run, whole = np.ones(ends), np.ones(ends), np.ones(ends), np.ones(ends, np.bool_)
        for number, (size, distance, count) in enumerate(self.spans(access, ranges)):
            if not number:  # all of these are 1
                elements, run, whole = count, distance, distance >= size
                continue
            elements = elements * count
            run = np.where(whole, run * distance, run)
            outer = np.where(whole, outer, outer * count)
            whole = whole & (distance >= size)
        lines = np.ceil(run * buffer.element_bytes / self._line)
        return Footprint(elements, outer * lines * self._line, outer)

    def elements(self, access: Access, ranges: Floats) -> Floats:
        """Those of :meth:`footprint`."""
        out = np.ones((*ranges.shape[:-2], self.n))
        for number, (_, _, count) in enumerate(self.spans(access, ranges)):
            out = out * count if number else count
        return out

    def spans(self, access: Access, ranges: Floats) -> Iterator[tuple[float, Floats, Floats]]:
        """Size of each dimension of more than one place, from the last one on, and its :func:`spans`."""
        for index, size in zip(reversed(access.indices), reversed(self.buffers[access.buffer].shape), strict=True):
            if size != 1:
                yield (size or np.inf, *spans(index, ranges, size or np.inf))

    def moves(self, access: Access) -> Bools:
        """Which loops change what an access touches, bool [loops, 1]."""
        return self.along(axis for index in access.indices for axis, _ in index.strides)

    def along(self, axes: Iterable[int]) -> Bools:
        """Which loops move one of some axes, bool [loops, 1]."""
        wanted = frozenset(axes)
        if wanted not in self._along:
            rows = [not wanted.isdisjoint(loop.axes) for loop in self.block.loops]
            self._along[wanted] = np.array(rows, dtype=np.bool_).reshape(-1, 1)
        return self._along[wanted]

    @functools.cached_property
    def loaded(self) -> list[tuple[Floats, Floats]]:
        """For the write and each read: bytes that are touched from each place inwards, and how often each must be
        fetched anew, float64 [places, n].

        What a run of loops does not move stays: only loops outside of the innermost moving one count. A buffer between
        blocks is as large as what the loops inside of those around all of them touch, and each step takes its place.
        """
        out = []
        for access in (self.block.write, *self.block.reads):
            times = np.ones_like(self.before)
            anew = self.moves(access) & (self.extents > 1)
            # The product of all loops outside only grows inwards: the largest one is the innermost.
            np.maximum.accumulate(np.where(anew, self.before[1:], 1.0), axis=0, out=times[1:])
            found = self.footprint(access, self.nested).bytes
            if (count := self.around(access.buffer)) > 0:
                found[:count], times[: count + 1] = found[count], 1.0
            out.append((found, times))
        return out

    def traffic(self, size: float, vector: Bools | None = None) -> Floats:
        """Bytes that a cache of ``size`` bytes fetches and writes back; a result counts twice.

        The outermost loops whose footprints fit together keep what they touch; what is outside fetches it anew. Steps
        of a vector have their lines in common, whatever loops are inside of it.

        Args:
            vector: bool [loops, n], loops that are vectors; None: none is.
        """
        held, moved, shared = self._held
        fits = held <= size
        fits[-1] = True
        place = fits.argmax(axis=0)[np.newaxis]
        if vector is None:
            return np.asarray(np.take_along_axis(moved, place, axis=0)[0])
        inside = np.take_along_axis(np.concatenate([np.zeros((1, self.n), np.bool_), vector]), place, axis=0)[0]
        found = np.where(inside, np.take_along_axis(shared, place, axis=0)[0], np.inf)
        return np.asarray(np.minimum(found, np.take_along_axis(moved, place, axis=0)[0]))

    @functools.cached_property
    def _held(self) -> tuple[Floats, Floats, Floats]:
        """Bytes that all accesses touch from each place inwards, and bytes that are moved if a cache holds these.

        The third are the bytes that are moved if what steps of the loop around have in common comes once. A result
        counts twice in both, what is local not at all. All are float64 [places, n].
        """
        held, moved, shared = np.zeros_like(self.before), np.zeros_like(self.before), np.zeros_like(self.before)
        accesses = self.block.write, *self.block.reads
        for at, (access, (found, times)) in enumerate(zip(accesses, self.loaded, strict=True)):
            if not self.buffers[access.buffer].local:
                count, anew = 1 if at else 2, found * times
                held += found
                moved += anew * count
                once = np.where(self.moves(access), np.minimum(found[:-1] * self.before[:-1], anew[1:]), anew[1:])
                shared[1:] += once * count
        return held, moved, shared


def _unfused(block: Block, rows: Sequence[Floats], n: int) -> tuple[tuple[Loop, ...], list[Floats]]:
    """Loops and their extents, parallel ones of several axes as those that were fused.

    What the inner of these do not move stays in a cache from one task to the next. The innermost has what the loops
    inside of it leave of its axis, and so on outwards.
    """
    if not any(_splits(loop) for loop in block.loops):
        return block.loops, list(rows)
    loops: list[Loop] = []
    extents: list[Floats] = []
    covered = np.ones((len(block.axes), n))
    limits = [float(size or np.inf) for size in block.axes]
    for loop, steps in zip(reversed(block.loops), reversed(rows), strict=True):
        fused, left = _splits(loop), steps
        for axis in reversed(loop.axes):
            room = limits[axis] / covered[axis]
            if fused and axis != loop.axes[0]:
                part = np.clip(np.ceil(room), 1.0, left) if np.isfinite(limits[axis]) else np.ones(n)
                loops.append(replace(loop, axes=(axis,)))
                extents.append(part)
            else:
                part = np.minimum(left, room)
            covered[axis] = np.minimum(covered[axis] * part, limits[axis])
            left = np.maximum(left / part, 1.0)
            if fused and axis == loop.axes[0]:
                loops.append(replace(loop, axes=(axis,)))
                extents.append(left * part)
        if not fused or not loop.axes:
            loops.append(loop)
            extents.append(steps)
    return tuple(reversed(loops)), extents[::-1]


def _splits(loop: Loop) -> bool:
    return loop.kind is Kind.PARALLEL and not loop.reduction


def spans(index: Index, ranges: Floats, size: float) -> tuple[Floats, Floats]:
    """Places from the first to the last that an index takes, and how many of them it does take.

    Args:
        ranges: float64 [..., axes, n]; what is found is [..., n].
    """
    count: Floats | float = float(index.width)
    distance = count
    for axis, stride in index.strides:
        distance = distance + abs(stride) * (ranges[..., axis, :] - 1.0)
        count = count * ranges[..., axis, :]
    if not index.strides:
        distance = count = np.full((*ranges.shape[:-2], ranges.shape[-1]), count)
    if index.divide > 1:
        distance = np.ceil(distance / index.divide)
    if index.modulo:
        distance = np.minimum(distance, index.modulo)
    distance = np.minimum(distance, size)
    return distance, np.minimum(distance, count)
