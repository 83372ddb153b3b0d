"""The design space of one workload: its sketches' knobs, and vectorised operations on batches of points."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tunesmith.space.base import Bools, Floats, Ints, PointBatch, Sketch
from tunesmith.types import Candidate, Decision

Floats32 = NDArray[np.float32]

LINEAR_LIMIT = 2**62
"""Spaces up to this size number their points; larger ones hash them."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


class Space:
    """The points of several sketches.

    Attributes:
        sketches: in a fixed order, which ``PointBatch.sketch`` refers to.
        size: number of points, any magnitude.
        width: columns of ``PointBatch.choice``.

    Raises:
        ValueError: without sketches, or when two have the same hash.
    """

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        if not sketches or len({s.hash for s in sketches}) != len(sketches):
            raise ValueError("a space needs sketches, each with a hash of its own")
        self.sketches = tuple(sketches)
        self.width = max(len(s.knobs) for s in sketches)
        self.sizes = tuple(math.prod(k.size for k in s.knobs) for s in sketches)
        self.size = sum(self.sizes)
        self._place = {s.hash: i for i, s in enumerate(sketches)}
        self._columns = [sum(k.width for k in s.knobs) for s in sketches]
        self._starts = [sum(self.sizes[:i]) for i in range(len(sketches))]
        bits = np.array([math.log2(1 + size) for size in self.sizes])
        self._sketch_odds = bits / bits.sum()

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the sketches and their knobs: equal for spaces whose batches mean the same."""
        body = [[s.hash, [k.to_json() for k in s.knobs]] for s in self.sketches]
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    @property
    def dims(self) -> int:
        """Columns of :meth:`encode`."""
        return len(self.sketches) + sum(self._columns)

    def sample(self, rng: np.random.Generator, n: int, share: Floats | None = None) -> PointBatch:
        """``n`` points: a sketch with odds by the logarithm of its size, then every knob uniformly.

        Args:
            share: float64 [sketches], multiplies these odds.
        """
        odds = self._sketch_odds if share is None else self._sketch_odds * share
        sketch = rng.choice(len(self.sketches), size=n, p=odds / odds.sum()).astype(np.int64)
        batch = self._blank(sketch)
        for s, rows in self._groups(batch):
            for j, knob in enumerate(self.sketches[s].knobs):
                batch.choice[rows, j] = knob.sample(rng, len(rows))
        return batch

    def neighbours(self, rng: np.random.Generator, batch: PointBatch, odds: Floats | None = None) -> PointBatch:
        """Each point with one knob moved to a neighbouring choice; a knob's odds grow with the logarithm of its size.

        A point of a sketch with a single point comes back as it is.

        Args:
            odds: float64 [n, width], multiplies these odds; where that leaves a point none, they stay as they are.
        """
        choice = batch.choice.copy()
        for s, rows in self._groups(batch):
            knobs = self.sketches[s].knobs
            plain = np.array([math.log2(k.size) for k in knobs])
            if not plain.any():
                continue
            total = np.cumsum(np.broadcast_to(plain, (len(rows), len(knobs))), axis=1)
            if odds is not None:
                mine = np.cumsum(plain * odds[rows, : len(knobs)], axis=1)
                total = np.where(mine[:, -1:] > 0, mine, total)
            picked = (total <= (rng.random(len(rows)) * total[:, -1])[:, None]).sum(axis=1)
            for j, knob in enumerate(knobs):
                moved = rows[picked == j]
                if len(moved):
                    choice[moved, j] = knob.neighbours(rng, choice[moved, j])
        return PointBatch(batch.sketch.copy(), choice)

    def around(self, point: PointBatch) -> PointBatch:
        """All points that differ from one point in one knob, which has a neighbouring choice; in a fixed order."""
        knobs = self.sketches[int(point.sketch[0])].knobs
        near = [knob.around(int(point.choice[0, j])) for j, knob in enumerate(knobs)]
        column = np.repeat(np.arange(len(near)), [len(choices) for choices in near])
        out = point.take(np.zeros(len(column), dtype=np.int64))
        out.choice[np.arange(len(column)), column] = np.concatenate([np.zeros(0, dtype=np.int64), *near])
        return out

    def crossover(self, rng: np.random.Generator, a: PointBatch, b: PointBatch) -> PointBatch:
        """Per row a child that takes each knob from either parent; of parents of two sketches it is ``a``'s copy."""
        from_b = (rng.random(a.choice.shape) < 0.5) & (a.sketch == b.sketch)[:, None]
        return PointBatch(a.sketch.copy(), np.where(from_b, b.choice, a.choice))

    def encode(self, batch: PointBatch) -> Floats32:
        """One-hot sketch, then every knob of every sketch (zero where the point has another sketch): [n, dims]."""
        out = np.zeros((len(batch), self.dims), dtype=np.float32)
        out[np.arange(len(batch)), batch.sketch] = 1.0
        for s, rows in self._groups(batch):
            column = len(self.sketches) + sum(self._columns[:s])
            for j, knob in enumerate(self.sketches[s].knobs):
                out[rows, column : column + knob.width] = knob.encode(batch.choice[rows, j])
                column += knob.width
        return out

    def candidates(self, batch: PointBatch) -> list[Candidate]:
        """The points as candidates, in order."""
        out: list[Candidate | None] = [None] * len(batch)
        for s, rows in self._groups(batch):
            sketch = self.sketches[s]
            columns = [k.decisions(batch.choice[rows, j]) for j, k in enumerate(sketch.knobs)]
            decisions: Sequence[tuple[Decision, ...]] = [()] * len(rows)
            if columns:
                decisions = list(zip(*columns, strict=True))
            for row, values in zip(rows.tolist(), decisions, strict=True):
                out[row] = Candidate(sketch.hash, values)
        return [c for c in out if c is not None]

    def batch(self, candidates: Sequence[Candidate]) -> PointBatch:
        """Inverse of :meth:`candidates`.

        Raises:
            ValueError: for an unknown sketch or a decision that is no choice of its knob.
        """
        unknown = [c.sketch for c in candidates if c.sketch not in self._place]
        if unknown:
            raise ValueError(f"unknown sketch {unknown[0]!r}")
        batch = self._blank(np.array([self._place[str(c.sketch)] for c in candidates], dtype=np.int64))
        for s, rows in self._groups(batch):
            knobs = self.sketches[s].knobs
            mine = [candidates[i].decisions for i in rows]
            if any(len(d) != len(knobs) for d in mine):
                raise ValueError(f"sketch {self.sketches[s].hash} takes {len(knobs)} decisions")
            for j, knob in enumerate(knobs):
                batch.choice[rows, j] = knob.find([d[j] for d in mine])
        return batch

    def known(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Which candidates are points of this space (the default schedule never is)."""
        if len(candidates) > 1 and self._are_points(candidates):
            return [True] * len(candidates)
        return [self._are_points([c]) for c in candidates]

    def keys(self, batch: PointBatch) -> Ints:
        """A number per point for telling points apart, the same in every process.

        Exact up to ``LINEAR_LIMIT`` points: the point's place in :meth:`at`. Beyond it a 63-bit hash.
        """
        if self.size > LINEAR_LIMIT:
            return _hash(np.column_stack([batch.sketch, batch.choice]))
        out = np.zeros(len(batch), dtype=np.int64)
        for s, rows in self._groups(batch):
            number = np.zeros(len(rows), dtype=np.int64)
            for j, knob in enumerate(self.sketches[s].knobs):
                number = number * knob.size + batch.choice[rows, j]
            out[rows] = number + self._starts[s]
        return out

    def at(self, keys: Ints) -> PointBatch:
        """The points of numbers 0 .. size - 1, inverse of :meth:`keys`.

        Raises:
            ValueError: when the space is too large to number its points.
        """
        if self.size > LINEAR_LIMIT:
            raise ValueError("the space is too large to number its points")
        sketch = np.searchsorted(np.array(self._starts, dtype=np.int64), keys, side="right") - 1
        batch = self._blank(sketch.astype(np.int64))
        for s, rows in self._groups(batch):
            rest = keys[rows] - self._starts[s]
            for j, knob in reversed(list(enumerate(self.sketches[s].knobs))):
                rest, batch.choice[rows, j] = np.divmod(rest, knob.size)
        return batch

    def all_of(self, sketch: int) -> PointBatch:
        """Every point of a sketch, which should be a small one."""
        batch = self._blank(np.full(self.sizes[sketch], sketch, dtype=np.int64))
        rest = np.arange(self.sizes[sketch], dtype=np.int64)
        for j, knob in reversed(list(enumerate(self.sketches[sketch].knobs))):
            rest, batch.choice[:, j] = np.divmod(rest, knob.size)
        return batch

    def _blank(self, sketch: Ints) -> PointBatch:
        return PointBatch(sketch, np.full((len(sketch), self.width), -1, dtype=np.int64))

    def _groups(self, batch: PointBatch) -> list[tuple[int, Ints]]:
        return [(int(s), np.flatnonzero(batch.sketch == s)) for s in np.unique(batch.sketch)]

    def _are_points(self, candidates: Sequence[Candidate]) -> bool:
        try:
            self.batch(candidates)
        except ValueError:
            return False
        return True


def concat(batches: Sequence[PointBatch]) -> PointBatch:
    """The points of batches of one space, one batch after another."""
    return PointBatch(np.concatenate([b.sketch for b in batches]), np.concatenate([b.choice for b in batches]))


def first_of_each(keys: Ints) -> Bools:
    """True where a key stands for the first time: bool [n]."""
    out = np.zeros(len(keys), dtype=np.bool_)
    out[np.unique(keys, return_index=True)[1]] = True
    return out


def _hash(rows: Ints) -> Ints:
    """A 63-bit hash of each row: splitmix64's finaliser (Steele, Lea, Flood 2014) chained over the columns."""
    state = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        state = (state ^ column.astype(np.uint64)) + _MIX
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    hashed: Ints = (state >> np.uint64(1)).astype(np.int64)
    return hashed
