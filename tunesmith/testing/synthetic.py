"""Tuning tasks without a compiler: a space, a latency that is known everywhere, and a known optimum."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tunesmith.space.base import Bools, Floats, Ints, PointBatch, Resolver, Scores, Sketch
from tunesmith.space.knobs import Categorical, ComputeLocation, Knob, PerfectTile
from tunesmith.space.space import Space, concat
from tunesmith.types import Candidate

OTHER_SKETCH = 1.5
"""How much slower the optimum of every further sketch is."""


def matmul_space(m: int = 1024, n: int = 1024, k: int = 1024) -> Space:
    """Two sketches of the size that TVM's CPU rules give a matrix product."""
    tiles: tuple[Knob, ...] = (PerfectTile(m, 4), PerfectTile(n, 4), PerfectTile(k, 2), Categorical(4))
    return Space([Sketch("plain", tiles), Sketch("cached", (*tiles, ComputeLocation(-2, 8)))])


def tiny_space() -> Space:
    """30 points in two sketches."""
    a: tuple[Knob, ...] = (PerfectTile(8, 2), Categorical(3))
    b: tuple[Knob, ...] = (ComputeLocation(-1, 1), PerfectTile(12, 2))
    return Space([Sketch("a", a), Sketch("b", b)])


def one_point_space() -> Space:
    """A single sketch without knobs."""
    return Space([Sketch("only", ())])


def huge_space() -> Space:
    """Beyond 10**30 points, with extents of 2**20."""
    tiles: tuple[Knob, ...] = tuple(PerfectTile(2**20, 5) for _ in range(8))
    return Space([Sketch("huge", (*tiles, ComputeLocation(-2, 30), Categorical(100)))])


@dataclass
class SyntheticTask(Resolver):
    """A space whose latency grows with the distance to a hidden point: base * 2**(mean distance * steepness).

    Tiles differ by the logarithms of their factors, locations by their index, categories by being equal or not.
    Locations are clamped as a replay clamps them: the last sketch knob of that kind to a limit that depends on the
    first knob. A share of the points is invalid, told by a hash; the optimum never is.

    Attributes:
        space: where to search.
        seed: seed of the hidden point and of validity.
        base: the optimum's latency in seconds.
        invalid: share of invalid points, 0..1; at 1 even the optimum is.
        steepness: doublings of latency per unit of mean distance.
        resolved: points that went through :meth:`resolve`, for tests of effort.
    """

    space: Space
    seed: int = 0
    base: float = 1e-3
    invalid: float = 0.0
    steepness: float = 2.0
    resolved: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        points = [self._of_sketch(rng, s) for s in range(len(self.space.sketches))]
        self._hidden = self._clamp(concat(points))
        self._order = rng.permutation(len(points))

    def _of_sketch(self, rng: np.random.Generator, sketch: int) -> PointBatch:
        choice = np.full((1, self.space.width), -1, dtype=np.int64)
        for j, knob in enumerate(self.space.sketches[sketch].knobs):
            choice[0, j] = knob.sample(rng, 1)[0]
        return PointBatch(np.array([sketch], dtype=np.int64), choice)

    @property
    def best(self) -> Candidate:
        """The fastest candidate."""
        return self.space.candidates(self._hidden)[int(np.argmin(self._order))]

    @property
    def best_latency(self) -> float:
        """Latency of the best point, in seconds."""
        return self.base

    def resolve(self, batch: PointBatch) -> tuple[PointBatch, Bools]:
        """Clamped points and which of them are valid."""
        self.resolved += len(batch)
        canonical = self._clamp(batch)
        keys = self.space.keys(canonical)
        lots = (keys.astype(np.uint64) + np.uint64(self.seed)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
        valid = lots.astype(np.float64) / 2**24 >= self.invalid
        if self.invalid < 1:
            valid |= np.isin(keys, self.space.keys(self._hidden))
        return canonical, valid

    def latency(self, batch: PointBatch) -> Floats:
        """Seconds per run of valid points: float64 [n]."""
        distance = np.zeros(len(batch))
        for s, sketch in enumerate(self.space.sketches):
            rows = np.flatnonzero(batch.sketch == s)
            parts = [
                self._distance(knob, batch.choice[rows, j], int(self._hidden.choice[s, j]))
                for j, knob in enumerate(sketch.knobs)
            ]
            distance[rows] = np.mean(parts, axis=0) if parts else 0.0
        slower: Floats = np.where(self._order[batch.sketch] == 0, 1.0, OTHER_SKETCH)
        return self.base * slower * np.exp2(distance * self.steepness)

    def score(self, batch: PointBatch) -> Scores:
        """What a perfect cost model would say."""
        canonical, valid = self.resolve(batch)
        return Scores(canonical, self.base / self.latency(canonical), np.zeros(len(batch)), valid)

    def validity(self, batch: PointBatch) -> Scores:
        """What is known before any model is trained: validity, and no scores."""
        canonical, valid = self.resolve(batch)
        return Scores(canonical, np.zeros(len(batch)), np.zeros(len(batch)), valid)

    def valid_points(self) -> set[Candidate]:
        """Every valid canonical point of a small space."""
        everything = self.space.at(np.arange(self.space.size, dtype=np.int64))
        canonical, valid = self.resolve(everything)
        return set(self.space.candidates(canonical.take(valid)))

    def _clamp(self, batch: PointBatch) -> PointBatch:
        choice = batch.choice.copy()
        for s, sketch in enumerate(self.space.sketches):
            rows = np.flatnonzero(batch.sketch == s)
            for j, knob in enumerate(sketch.knobs):
                if j and isinstance(knob, ComputeLocation):
                    limit: Ints = choice[rows, 0] % knob.size
                    choice[rows, j] = np.minimum(choice[rows, j], limit)
        return PointBatch(batch.sketch, choice)

    @staticmethod
    def _distance(knob: Knob, index: Ints, hidden: int) -> Floats:
        target = np.array([hidden], dtype=np.int64)
        distance: Floats = (index != target).astype(np.float64)
        if isinstance(knob, PerfectTile):
            distance = np.abs(np.log2(knob.values(index)) - np.log2(knob.values(target))).mean(axis=1)
        elif isinstance(knob, ComputeLocation):
            distance = np.abs(index - target) / knob.size
        return distance
