"""Steps through a space: every knob up, down or as it is, for whole batches of points."""

from __future__ import annotations

import numpy as np

from tunesmith.space.base import Bools, Ints, PointBatch
from tunesmith.space.factors import prime_factors
from tunesmith.space.knobs import Knob, PerfectTile
from tunesmith.space.space import Space


class Walk:
    """Gives every knob slots, in each of which a point moves by -1, 0 or 1.

    A tile has a slot for each loop except the outermost: 1 moves the smallest prime of the outermost loop there, -1
    moves that loop's smallest prime out. Any other knob has one slot, its choices in order, and stops at both ends.
    Equal knobs of two sketches share their slots, in order of appearance.

    Attributes:
        slots: how many there are.
        own: bool [sketches, slots], which of them a sketch has.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        places: dict[tuple[Knob, int], tuple[int, int]] = {}
        self._places: list[list[tuple[int, int]]] = []
        self.slots = 0
        for sketch in space.sketches:
            self._places.append(
                [self._place(places, knob, sketch.knobs[:j].count(knob)) for j, knob in enumerate(sketch.knobs)]
            )
        self.own: Bools = np.zeros((len(space.sketches), self.slots), dtype=np.bool_)
        for s, mine in enumerate(self._places):
            for start, stop in mine:
                self.own[s, start:stop] = True

    def _place(self, places: dict[tuple[Knob, int], tuple[int, int]], knob: Knob, before: int) -> tuple[int, int]:
        if (knob, before) not in places:
            width = knob.parts - 1 if isinstance(knob, PerfectTile) else 1
            places[knob, before] = self.slots, self.slots + width
            self.slots += width
        return places[knob, before]

    def move(self, batch: PointBatch, step: Ints) -> PointBatch:
        """The points after a step, int64 [n, slots] of -1, 0 and 1; a move that leads nowhere is left out."""
        choice = batch.choice.copy()
        for s in np.unique(batch.sketch):
            for j, (knob, (start, stop)) in enumerate(zip(self._space.sketches[s].knobs, self._places[s], strict=True)):
                rows = np.flatnonzero((batch.sketch == s) & step[:, start:stop].any(axis=1))
                if len(rows):
                    choice[rows, j] = _moved(knob, choice[rows, j], step[rows, start:stop])
        return PointBatch(batch.sketch.copy(), choice)


def _moved(knob: Knob, index: Ints, step: Ints) -> Ints:
    if not isinstance(knob, PerfectTile):
        return np.asarray(np.clip(index + step[:, 0], 0, knob.size - 1))
    factors = knob.values(index)
    primes = sorted(prime_factors(knob.extent), reverse=True)
    rows = np.arange(len(factors))
    for part in range(1, knob.parts):
        way = step[:, part - 1]
        source, target = np.where(way > 0, 0, part), np.where(way > 0, part, 0)
        prime = np.ones(len(factors), dtype=np.int64)
        for p in primes:  # the smallest one comes last and stays
            prime = np.where(factors[rows, source] % p == 0, p, prime)
        full = (target == knob.parts - 1) & (factors[rows, target] * prime > knob.max_innermost)
        prime = np.where((way == 0) | full, 1, prime)
        factors[rows, source] //= prime
        factors[rows, target] *= prime
    return knob.index(factors)
