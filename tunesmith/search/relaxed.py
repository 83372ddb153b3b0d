"""The knobs of a sketch as coordinates of a box, for methods that move through real numbers."""

from __future__ import annotations

import numpy as np

from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.knobs import Knob
from tunesmith.space.space import Space

LISTED = 2048
"""Choices of a knob that its table has at most; of a larger knob random ones."""


class Relaxed:
    """Coordinates from 0 to 1 of one sketch's points, and the point nearest to given ones.

    A tile has one coordinate for each factor except the outermost, which follows from the others: its logarithm. Any
    other knob has the number of its choice. What cannot vary has none.

    Attributes:
        dims: coordinates.
        steps: float64 [dims], between neighbouring values of each; a tile's are those of factors of two, or all of
            its width where that is less.
    """

    def __init__(self, space: Space, sketch: int) -> None:
        self._space, self._sketch = space, sketch
        self._knobs = space.sketches[sketch].knobs
        rng = np.random.default_rng(0)
        self._choices = [_listed(knob, rng) for knob in self._knobs]
        tables = [_coordinates(knob, choices) for knob, choices in zip(self._knobs, self._choices, strict=True)]
        self._low = [table.min(axis=0) for table in tables]
        spans = [np.ptp(table, axis=0) for table in tables]
        self._varies = [span > 0 for span in spans]
        self._span = [np.where(span > 0, span, 1.0) for span in spans]
        self._tables = [self._inside(j, table) for j, table in enumerate(tables)]
        self.dims = sum(table.shape[1] for table in self._tables)
        self.steps: Floats = np.concatenate([np.zeros(0), *(1.0 / np.maximum(span[span > 0], 1.0) for span in spans)])

    def place(self, points: PointBatch) -> Floats:
        """Coordinates of points of this sketch: float64 [n, dims]."""
        parts = [self._inside(j, _coordinates(knob, points.choice[:, j])) for j, knob in enumerate(self._knobs)]
        return np.concatenate([np.zeros((len(points), 0)), *parts], axis=1)

    def nearest(self, place: Floats) -> PointBatch:
        """The point nearest to coordinates, knob by knob."""
        choice = np.full((len(place), self._space.width), -1, dtype=np.int64)
        start = 0
        for j, (choices, table) in enumerate(zip(self._choices, self._tables, strict=True)):
            mine = place[:, start : start + table.shape[1]]
            start += table.shape[1]
            choice[:, j] = choices[((table**2).sum(axis=1) - 2.0 * (mine @ table.T)).argmin(axis=1)]
        return PointBatch(np.full(len(place), self._sketch, dtype=np.int64), choice)

    def _inside(self, j: int, numbers: Floats) -> Floats:
        return np.asarray(np.clip((numbers - self._low[j]) / self._span[j], 0.0, 1.0)[:, self._varies[j]])


def _listed(knob: Knob, rng: np.random.Generator) -> Ints:
    if knob.size <= LISTED:
        return np.arange(knob.size, dtype=np.int64)
    return np.unique(knob.sample(rng, LISTED))


def _coordinates(knob: Knob, choice: Ints) -> Floats:
    values = knob.values(choice)
    return np.log2(values[:, 1:]) if values.shape[1] > 1 else choice[:, None].astype(np.float64)
