"""Numbers of points for a draft."""

from __future__ import annotations

import numpy as np

from tunesmith.space.base import Floats, Ints, PointBatch
from tunesmith.space.knobs import Knob, PerfectTile
from tunesmith.space.space import Space

TYPICAL = 64
"""Choices of a knob whose mean stands for it in sketches that lack it."""


class Codes:
    """Numbers of a space's points in which similar points of different sketches are close.

    Equal knobs of two sketches share their columns, in order of appearance. A tile has the logarithms of its factors
    and of what its inner loops span, which is what decides whether they fit a register file or a cache. A sketch
    without a knob has the knob's mean there.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        places: dict[tuple[Knob, int], tuple[int, int]] = {}
        self._columns: list[list[tuple[int, int]]] = []
        self.dims = len(space.sketches)
        for sketch in space.sketches:
            self._columns.append(
                [self._place(places, knob, sketch.knobs[:j].count(knob)) for j, knob in enumerate(sketch.knobs)]
            )
        self._blank = np.zeros(self.dims)
        rng = np.random.default_rng(0)
        for (knob, _), (start, stop) in places.items():
            self._blank[start:stop] = _numbers(knob, knob.sample(rng, TYPICAL)).mean(axis=0)

    def _place(self, places: dict[tuple[Knob, int], tuple[int, int]], knob: Knob, before: int) -> tuple[int, int]:
        if (knob, before) not in places:
            width = 2 * knob.width - 1 if isinstance(knob, PerfectTile) else knob.width
            places[knob, before] = self.dims, self.dims + width
            self.dims += width
        return places[knob, before]

    def columns(self, sketch: int) -> list[tuple[int, int]]:
        """Where each knob of a sketch has its numbers: the first column and the one after the last."""
        return self._columns[sketch]

    def of(self, batch: PointBatch, decided: int | None = None) -> Floats:
        """float64 [n, dims].

        Args:
            decided: knobs of each point, in trace order, that count; the others have their means. None: all of them.
        """
        out = np.tile(self._blank, (len(batch), 1))
        out[np.arange(len(batch)), batch.sketch] = 1.0
        for s, sketch in enumerate(self._space.sketches):
            rows = np.flatnonzero(batch.sketch == s)
            for j, (knob, (start, stop)) in enumerate(zip(sketch.knobs, self._columns[s], strict=True)):
                if decided is not None and j >= decided:
                    break
                out[rows, start:stop] = _numbers(knob, batch.choice[rows, j])
        return out


def _numbers(knob: Knob, index: Ints) -> Floats:
    own = knob.encode(index).astype(np.float64)
    if not isinstance(knob, PerfectTile):
        return own
    return np.concatenate([own, np.cumsum(own[:, ::-1], axis=1)[:, 1:]], axis=1)
